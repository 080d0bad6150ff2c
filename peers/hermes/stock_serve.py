"""The stock dashboard app without its page, `hermes serve`: where fires are received."""

from __future__ import annotations

import re

from child import Child
from stock_cron import CronHome
from stock_gateway import hermes_command
from waiting import until

READY = re.compile(r"HERMES_BACKEND_READY port=(\d+)")


class Serve(Child):
    """It keeps its port from start to start, since the house was told that address."""

    def __init__(self, home: CronHome) -> None:
        super().__init__("stock serve", home.folder / "serve.log")
        self.home = home
        self._port = "0"

    def start(self) -> "Serve":
        said = len(self.log())
        self.spawn([*hermes_command(), "serve", "--port", self._port], self.home.environment)

        def ready() -> re.Match[str] | None:
            assert self.running(), f"it ended:\n{self.log()[-4000:]}"
            return READY.search(self.log(), said)

        self._port = until("the stock app listens", ready, 60).group(1)
        self.url = f"http://127.0.0.1:{self._port}"
        if self.home.callback_url != self.url:
            # Stock reads its settings anew for every call.
            self.home.callback_url = self.url
            self.home.write_config()
        return self

"""The stock dashboard app without its page, `hermes serve`, which receives fires."""

from __future__ import annotations

import re

from child import Child
from place import Place
from stock_cron import CronHome
from stock_gateway import hermes_command
from waiting import until

READY = re.compile(r"HERMES_BACKEND_READY port=(\d+)")


class Serve(Child):
    """Keeps its port across restarts, because the server stores that address."""

    def __init__(self, home: CronHome) -> None:
        super().__init__("stock serve", home.folder / "serve.log")
        self.home = home
        self._place = Place()

    def start(self) -> "Serve":
        said = len(self.log())
        self.spawn([*hermes_command(), "serve", "--port", str(self._place.port)], self.home.environment)

        def ready() -> re.Match[str] | None:
            assert self.running(), f"it ended:\n{self.log()[-4000:]}"
            return READY.search(self.log(), said)

        told = until("the stock app listens", ready, 60).group(1)
        assert told == str(self._place.port), f"it listens at {told}"
        self.url = self._place.url
        if self.home.callback_url != self.url:
            # Stock reads its settings again for every call.
            self.home.callback_url = self.url
            self.home.write_config()
        return self

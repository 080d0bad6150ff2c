"""Listener at an agent's wake URL, like a platform that starts suspended machines."""

from __future__ import annotations

from typing import Callable, Mapping

from loopback import Answer, Loopback
from waiting import until


class WakeListener(Loopback):
    """Calls `wake` for every wake call, one after another."""

    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.wake = wake
        self.pokes: list[Mapping[str, str]] = []
        """The headers of each."""

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        with self.changed:
            self.pokes.append(headers)
            self.wake()
        return Answer(200, "{}")

    def wait_poked(self, times: int, timeout: float = 120.0) -> None:
        until(f"poke {times}", lambda: len(self.pokes) >= times, timeout)

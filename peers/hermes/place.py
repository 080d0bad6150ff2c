"""A port that stays somebody's while nobody listens there."""

from __future__ import annotations

import itertools
import os
import socket

# Below the ports that the system gives to whoever asks for any.
FIRST, COUNT = 20_000, 12_000
# Suites may run side by side: each begins somewhere else.
_turns = itertools.count(os.getpid() * 37)


class Place:
    """Its namesake of UDP is held as long as this lives, so that no other suite takes it either."""

    def __init__(self) -> None:
        for turn in itertools.islice(_turns, COUNT):
            self.port = FIRST + turn % COUNT
            self._held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            try:
                self._held.bind(("127.0.0.1", self.port))
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(("127.0.0.1", self.port))
                return
            except OSError:
                self._held.close()
        raise AssertionError("no port is free")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

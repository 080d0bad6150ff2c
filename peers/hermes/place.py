"""A port that stays reserved while no process listens on it."""

from __future__ import annotations

import itertools
import os
import socket

# Below the range of ports that the system assigns automatically.
FIRST, COUNT = 20_000, 12_000
# Suites may run in parallel, so each begins at a different port.
_turns = itertools.count(os.getpid() * 37)


class Place:
    """Holds the UDP port of the same number for its lifetime, so that no other suite takes the port."""

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

    def is_listening(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

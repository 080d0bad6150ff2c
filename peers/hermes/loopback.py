"""HTTP server on loopback in this process, as the receiver of the server's calls."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Mapping, Self


@dataclass
class Answer:
    status: int
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = "application/json"


# Closes the connection without an answer.
HANG_UP = Answer(0)


class Loopback:
    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        raise NotImplementedError

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def _handler(owner: Loopback) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def _take(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            # Header names are case-insensitive, as in every real server.
            headers = {name.lower(): value for name, value in self.headers.items()}
            given = owner.answer(self.command, self.path, headers, body)
            if given is HANG_UP:
                self.close_connection = True
                return
            data = given.body.encode()
            self.send_response(given.status)
            for name, value in {"Content-Type": given.kind, "Content-Length": str(len(data)), **given.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _take

    return Handler

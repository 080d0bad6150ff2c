"""The server as a process, with a tenant, an agent and the credential of a program."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import threading
from pathlib import Path
from typing import Any

BIN = os.environ.get("POSTHOUSE_BIN", str(Path(__file__).parents[2] / "target" / "debug" / "posthouse"))
READY = re.compile(rb"ready at (http\S+)")


class Server:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "server"
        self.log = folder / "server.log"
        self._run("init", str(self.folder))
        command = [BIN, "serve", "--dir", str(self.folder), "--listen", "127.0.0.1:0"]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.log.open("ab"), env=_environment())
        self.url = self._url()
        self.admin("tenant", "create", "acme")
        self.agent = self.admin("agent", "create", "heron", "--tenant", "acme")
        self.client = self.admin("client", "create", "--tenant", "acme")

    def _url(self) -> str:
        lines: list[bytes] = []
        ready = threading.Event()

        def read() -> None:
            for line in self._process.stdout:
                lines.append(line)
                if READY.search(line):
                    ready.set()
            ready.set()

        threading.Thread(target=read, daemon=True).start()
        assert ready.wait(60), "the server did not start"
        found = READY.search(b"".join(lines))
        assert found, self.log.read_text()
        return found.group(1).decode().rstrip("/")

    def admin(self, *words: str) -> Any:
        return json.loads(self._run("--dir", str(self.folder), "--json", *words))

    def _run(self, *words: str) -> str:
        ran = subprocess.run([BIN, *words], capture_output=True, text=True, timeout=60, env=_environment())
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    @property
    def endpoint(self) -> str:
        return f"{self.url}/mcp"

    def basic(self, secret: str | None = None) -> str:
        pair = f"{self.client['client_id']}:{secret or self.client['client_secret']}"
        return "Basic " + base64.b64encode(pair.encode()).decode()

    def environment(self) -> dict[str, str]:
        """What a client that starts `posthouse mcp --stdio` sets."""
        return {
            "POSTHOUSE_URL": self.url,
            "POSTHOUSE_CLIENT_ID": self.client["client_id"],
            "POSTHOUSE_CLIENT_SECRET": self.client["client_secret"],
        }

    def stop(self) -> None:
        self._process.terminate()
        assert self._process.wait(30) == 0, self.log.read_text()


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("POSTHOUSE_")}

"""A child process with a URL: started, watched, and ended by its own process id."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Mapping, Sequence

REPOSITORY = Path(__file__).resolve().parents[2]
URL = re.compile(rb"https?://[^\s\"']+")
# Loopback only: these calls must not go through an operator's proxy.
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def posthouse() -> str:
    return os.environ.get("POSTHOUSE_BIN") or str(REPOSITORY / "target/debug/posthouse")


def clean_environment(extra: Mapping[str, str] = {}) -> dict[str, str]:
    """Only what a process needs to start: no proxy and no setting of the operator."""
    kept = {k: os.environ[k] for k in ("PATH", "HOME", "TMPDIR", "RUST_BACKTRACE") if k in os.environ}
    return kept | {"LANG": "C.UTF-8", "NO_PROXY": "*", "no_proxy": "*"} | dict(extra)


def call(method: str, url: str, body: Any = None, headers: Mapping[str, str] = {}, timeout: float = 40.0) -> tuple[int, Any]:
    """One HTTP call with JSON in both directions. Any status is a result."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, dict(headers), method=method)
    if data is not None:
        request.add_header("Content-Type", "application/json")
    try:
        with direct.open(request, timeout=timeout) as answer:
            status, raw = answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        status, raw = refused.code, refused.read()
    try:
        return status, json.loads(raw) if raw else None
    except ValueError:
        return status, raw.decode(errors="replace")


class Child:
    """One child process. It has a session of its own, so that a signal to the test run does not reach it."""

    def __init__(self, name: str, log: Path) -> None:
        self.name = name
        self.log_file = log
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None

    def spawn(self, command: Sequence[str], environment: Mapping[str, str], stdout: int | None = None) -> None:
        assert not self.running(), f"{self.name} already runs"
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                list(command), env=dict(environment), cwd=self.log_file.parent, stdin=subprocess.DEVNULL,
                stdout=stdout or log, stderr=log, start_new_session=True)

    def spawn_with_url(self, command: Sequence[str], environment: Mapping[str, str], ready_within: float = 60.0) -> str:
        """Returns when it has printed the line with its URL, which means that it is ready."""
        self.spawn(command, environment, subprocess.PIPE)
        # The URL of an earlier start is not valid any more.
        ready, told = threading.Event(), threading.Event()
        threading.Thread(target=self._read, args=(self._process, ready, told), daemon=True).start()
        if not ready.wait(ready_within) or not told.is_set():
            self.kill()
            raise AssertionError(f"{self.name} said no URL within {ready_within} s:\n{self.log()[-4000:]}")
        return self.url

    def _read(self, process: subprocess.Popen[bytes], ready: threading.Event, told: threading.Event) -> None:
        with self.log_file.open("ab", buffering=0) as log:
            for line in process.stdout:
                log.write(line)
                found = URL.search(line)
                if found and not ready.is_set():
                    self.url = found.group().decode().rstrip("/.,")
                    told.set()
                    ready.set()
        ready.set()

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self, timeout: float = 60.0) -> int:
        if not self.running():
            return self._process.returncode if self._process else 0
        os.kill(self.pid, signal.SIGTERM)
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not stop within {timeout} s") from None

    def kill(self) -> None:
        if self.running():
            os.kill(self.pid, signal.SIGKILL)
            self._process.wait(60)

    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

"""A stand-in as a process, and its control API.

Needs one of:
  POSTHOUSE_BIN                     the `posthouse` binary, which is started as `posthouse stand-in PLATFORM`
  POSTHOUSE_STAND_IN_URL_PLATFORM   the base URL of a stand-in that is already running
"""

import contextlib
import json
import os
import subprocess
import urllib.error
import urllib.parse
import urllib.request


class StandIn:
    """The control API of a running stand-in."""

    def __init__(self, url):
        self.url = url

    def control(self, method, path, body=None, **query):
        url = f"{self.url}/_stand-in/{path}"
        if query:
            url += "?" + urllib.parse.urlencode(query)
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=90) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refusal:
            raise AssertionError(f"{method} {url}: {refusal.read().decode()}") from None

    def inject(self, do, **fields):
        return self.control("POST", "inject", {"do": do, **fields})

    def fails(self, fault, **fields):
        return self.control("POST", "faults", {"fault": fault, **fields})["id"]

    def rows(self, **query):
        return self.control("GET", "transcript", **query)["rows"]

    def refusals(self, **query):
        return self.control("GET", "refusals", **query)["rows"]

    def wait(self, kind="sent", count=1, **query):
        return self.control("GET", "wait", kind=kind, count=count, timeout=60, **query)["rows"]


@contextlib.contextmanager
def running(platform, *arguments):
    """Runs a stand-in for the time of the block, and yields its base URL."""
    url = os.environ.get(f"POSTHOUSE_STAND_IN_URL_{platform.upper()}")
    if url:
        yield url.rstrip("/")
        return
    binary = os.environ.get("POSTHOUSE_BIN")
    assert binary, "set POSTHOUSE_BIN to the posthouse binary"
    command = [binary, "stand-in", platform, "--listen", "127.0.0.1:0", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:"), f"the first line should be the base URL, got {url!r}"
        yield url
    finally:
        process.terminate()
        assert process.wait(timeout=60) is not None

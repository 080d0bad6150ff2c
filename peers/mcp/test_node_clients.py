"""The official clients for Node do the same: @modelcontextprotocol/sdk 1.x and @modelcontextprotocol/client 2.x."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from server_process import BIN, Server


@pytest.mark.parametrize("script", ["sdk.js", "client.js"])
def test_tools_are_listed_and_called(server: Server, script: str) -> None:
    variables = {**os.environ, **server.environment(), "POSTHOUSE_BIN": BIN, "AUTHORIZATION": server.basic()}
    command = ["node", str(Path(__file__).with_name(script))]
    ran = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    print(ran.stdout)

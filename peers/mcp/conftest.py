"""One server for all tests."""

from __future__ import annotations

import pytest

from server_process import Server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory):
    running = Server(tmp_path_factory.mktemp("mcp"))
    yield running
    running.stop()

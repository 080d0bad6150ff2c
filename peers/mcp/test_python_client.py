"""The official Python client lists and calls our tools, over HTTP and over standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from server_process import BIN, Server

TOOLS = {
    "data_read", "data_write", "skill_list", "skill_read", "skill_write", "skill_status",
    "agent_list", "notify", "wake", "ask", "help",
    "execute_skill", "lint_skill", "compile_skill", "skill_preflight", "list_triggers", "register_trigger",
    "unregister_trigger", "set_trigger_enabled", "health_metrics", "blocked_shell_attempts",
}
SKILL = "# Skill: {0}\n# Description: Says hello\n# Status: Approved\ngo:\n    emit(text=\"hi\")\ndefault: go\n"


@contextlib.asynccontextmanager
async def over_http(server: Server, mode: str, authorization: str | None = None):
    headers = {"Authorization": authorization or server.basic()}
    async with httpx2.AsyncClient(headers=headers, timeout=30, trust_env=False) as http:
        async with Client(streamable_http_client(server.endpoint, http_client=http), mode=mode) as client:
            yield client


@contextlib.asynccontextmanager
async def over_stdio(server: Server, mode: str):
    started = StdioServerParameters(command=BIN, args=["mcp", "--stdio"], env=server.environment())
    async with Client(started, mode=mode) as client:
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error
    return json.loads(result.content[0].text)


CONNECTIONS = [over_http, over_stdio]
MODES = ["legacy", "auto", "2026-07-28"]


@pytest.mark.parametrize("connect", CONNECTIONS)
@pytest.mark.parametrize("mode", MODES)
def test_tools_are_listed_and_called(server: Server, connect: Any, mode: str) -> None:
    async def scenario() -> None:
        async with connect(server, mode) as client:
            listed = await client.list_tools()
            assert {tool.name for tool in listed.tools} == TOOLS
            expected = "2025-11-25" if mode == "legacy" else "2026-07-28"
            assert client.protocol_version == expected

            word = f"{connect.__name__}{mode.replace('-', '')}"
            written = await call(client, "data_write", content=f"the {word} tide is high", tags=["sea"])
            found = await call(client, "data_read", query=word)
            assert [item["id"] for item in found["items"]] == [written["id"]]
            assert (await call(client, "data_read", id=written["id"]))["detail"] == f"the {word} tide is high"
            assert await call(client, "data_read", id="data_absent") is None

            skill = await call(client, "skill_write", name=word, source=SKILL.format(word))
            assert skill["status"] == "Draft"
            assert (await call(client, "skill_read", name=word))["version"] == skill["version"]
            drafts = await call(client, "skill_list", filter={"status": "Draft", "name_prefix": word})
            assert [each["name"] for each in drafts["skills"]] == [word]

            agents = await call(client, "agent_list")
            assert [each["agent_id"] for each in agents["items"]] == ["heron"]
            sent = await call(client, "notify", agent="heron", message=f"from {word}")
            assert sent["dispatched"][0]["ok"] is True

    asyncio.run(scenario())


@pytest.mark.parametrize("connect", CONNECTIONS)
@pytest.mark.parametrize("mode", MODES)
def test_a_failure_is_an_error_and_the_connection_stays(server: Server, connect: Any, mode: str) -> None:
    async def scenario() -> None:
        async with connect(server, mode) as client:
            with pytest.raises(MCPError) as missing:
                await client.call_tool("skill_read", {"name": "ghost"})
            assert missing.value.error.message == "Skill not found: 'ghost'"
            with pytest.raises(MCPError) as filtered:
                await client.call_tool("data_read", {"query": "x", "flavour": "sweet"})
            assert "flavour" in filtered.value.error.message
            with pytest.raises(MCPError):
                await client.call_tool("no_such_tool", {})
            assert (await call(client, "help"))["available_topics"]

    asyncio.run(scenario())


def test_a_wrong_secret_is_refused(server: Server) -> None:
    async def scenario() -> None:
        with pytest.raises(BaseException) as refused:
            async with over_http(server, "legacy", server.basic("wrong")) as client:
                await client.list_tools()
        assert refused.value is not None

    asyncio.run(scenario())


def test_a_listener_gets_its_acknowledgement(server: Server) -> None:
    async def scenario() -> None:
        async with over_http(server, "auto") as client:
            async with client.listen(tools_list_changed=True) as subscription:
                assert subscription.honored.tools_list_changed

    asyncio.run(scenario())

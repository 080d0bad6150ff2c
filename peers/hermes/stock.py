"""The stock relay classes of hermes-agent 0.19.0, in this process, unmodified.

`Line` only observes: it records every frame in both directions, then lets the stock code do its work.
"""

from __future__ import annotations

import asyncio
import functools
import json
from typing import Any, Callable, Coroutine

from gateway.config import PlatformConfig
from gateway.platforms.base import MessageEvent
from gateway.relay.adapter import RelayAdapter
from gateway.relay.descriptor import CONTRACT_VERSION, CapabilityDescriptor
from gateway.relay.ws_transport import WebSocketRelayTransport

from posthouse_server import Agent
from waiting import until_async


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs a coroutine test in an event loop of its own, with a deadline."""

    @functools.wraps(test)
    def run(*args: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **named), 300))

    return run


class Line(WebSocketRelayTransport):
    """A stock transport that records its frames."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.came: list[dict[str, Any]] = []
        self.went: list[dict[str, Any]] = []
        self.closes: list[tuple[int | None, str]] = []
        self.heard: list[MessageEvent] = []
        self.interrupts: list[tuple[str, str]] = []

    async def _handle_frame(self, line: str) -> None:
        self.came.append(json.loads(line))
        await super()._handle_frame(line)

    async def _send(self, frame: dict[str, Any]) -> None:
        self.went.append(frame)
        await super()._send(frame)

    async def _read_loop(self) -> None:
        ws = self._ws
        try:
            await super()._read_loop()
        finally:
            self.closes.append((ws.close_code, ws.close_reason or ""))

    # Shortcuts for tests.

    async def hears(self, text: str, timeout: float = 60.0) -> MessageEvent:
        def look() -> MessageEvent | None:
            return next((event for event in self.heard if event.text == text), None)

        return await until_async(f"the agent hears {text!r}", look, timeout)

    def texts(self) -> list[str]:
        return [event.text for event in self.heard]

    def frames(self, kind: str) -> list[dict[str, Any]]:
        return [frame for frame in self.came if frame.get("type") == kind]

    def cut(self) -> None:
        """Simulates a lost network: no close frame."""
        self._ws.transport.abort()


def line(agent: Agent, **different: Any) -> Line:
    """A transport as the stock gateway builds it from this agent's environment."""
    platforms = [p for p in agent.env["GATEWAY_RELAY_PLATFORMS"].split(",") if p]
    bots = json.loads(agent.env["GATEWAY_RELAY_BOT_IDS"])
    identities = [(p, str(bots.get(p, {}).get("botId", ""))) for p in platforms]
    named = {
        "identities": identities, "gateway_id": agent.env["GATEWAY_RELAY_ID"],
        "upgrade_secret": agent.env["GATEWAY_RELAY_SECRET"], "reconnect": True,
    } | different
    made = Line(agent.env["GATEWAY_RELAY_URL"], *named["identities"][0], **named)

    async def hear(event: MessageEvent) -> None:
        made.heard.append(event)

    async def interrupt(session_key: str, chat_id: str) -> None:
        made.interrupts.append((session_key, chat_id))

    made.set_inbound_handler(hear)
    made.set_interrupt_inbound_handler(interrupt)
    return made


class Dialed:
    """`async with Dialed(agent) as line`: connected with a finished handshake, disconnected at the end."""

    def __init__(self, agent: Agent, **different: Any) -> None:
        self.line = line(agent, **different)

    async def __aenter__(self) -> Line:
        await self.line.connect()
        await self.line.handshake()
        return self.line

    async def __aexit__(self, *_: object) -> None:
        await self.line.disconnect()


def adapter(transport: Line) -> RelayAdapter:
    """The stock adapter with the placeholder descriptor that the stock registry gives it."""
    placeholder = CapabilityDescriptor(
        contract_version=CONTRACT_VERSION, platform="relay", label="Relay", max_message_length=4096,
        supports_draft_streaming=False, supports_edit=True, supports_threads=False,
        markdown_dialect="plain", len_unit="chars")
    return RelayAdapter(PlatformConfig(enabled=True), placeholder, transport=transport)

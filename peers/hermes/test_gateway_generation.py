"""The detected version of an agent belongs to its socket: an earlier socket says nothing about the next one."""

from __future__ import annotations

import asyncio

from scene import Scene
from stock import Dialed


def types(scene: Scene, chat: int) -> None:
    """A transport with the agent's credential sends a typing indicator, as plug-ins and later versions do."""

    async def run() -> None:
        async with Dialed(scene.agent, reconnect=False) as wire:
            told = await wire.send_outbound({"op": "typing", "chat_id": str(chat)})
            assert told["success"] is True, told

    asyncio.run(asyncio.wait_for(run(), 60))


def test_an_agent_that_starts_after_another_transport_typed_loses_no_message(scene: Scene) -> None:
    chat = scene.chat()
    chat.wait_answered(chat.ping())
    scene.gateway.stop()
    scene.connected(False)
    types(scene, chat.id)
    scene.connected(False)
    kept = chat.ping(5)
    assert scene.unread() == 5
    scene.gateway.start()
    chat.wait_answered(kept)
    chat.account().exactly_once()

"""The detected version of an agent belongs to its socket: an earlier socket says nothing about the next one."""

from __future__ import annotations

import asyncio

from stock_agent import StockAgent
from stock import Dialed


def types(stock_agent: StockAgent, chat: int) -> None:
    """A transport with the agent's credential sends a typing indicator, as plug-ins and later versions do."""

    async def run() -> None:
        async with Dialed(stock_agent.agent, reconnect=False) as wire:
            told = await wire.send_outbound({"op": "typing", "chat_id": str(chat)})
            assert told["success"] is True, told

    asyncio.run(asyncio.wait_for(run(), 60))


def test_an_agent_that_starts_after_another_transport_typed_loses_no_message(stock_agent: StockAgent) -> None:
    chat = stock_agent.chat()
    chat.wait_answered(chat.ping())
    stock_agent.gateway.stop()
    stock_agent.connected(False)
    types(stock_agent, chat.id)
    stock_agent.connected(False)
    kept = chat.ping(5)
    assert stock_agent.unread() == 5
    stock_agent.gateway.start()
    chat.wait_answered(kept)
    chat.account().exactly_once()

"""Messages reach the stock transport complete, in order and once, and are kept while it is not connected."""

from __future__ import annotations

import asyncio

from conftest import Actors
from stock import Dialed, adapter, in_a_loop, line
from waiting import until_async

# No settling, because nothing here has a start-up to finish. A short lease, so that silence is noticed soon.
SETTINGS = {"relay__settle": "0s", "relay__ack_lease": "3s"}


@in_a_loop
async def test_a_message_reaches_the_agent_whole_and_is_forgotten_once_acknowledged(actors: Actors) -> None:
    agent, chat = actors.agent(), actors.chat()
    async with Dialed(agent) as wire:
        actors.writes(agent, chat, "good morning ☀️")
        event = await wire.hears("good morning ☀️")
        source = event.source
        assert (source.platform.value, source.chat_id, source.chat_type) == ("telegram", str(chat), "dm")
        assert (source.user_id, source.user_name) == (str(chat), "Ann")
        assert isinstance(event.message_id, str) and event.message_id
        assert wire.frames("inbound")[0]["bufferId"]
        await until_async("nothing unread", lambda: actors.server.unread(agent) == 0)


@in_a_loop
async def test_the_adapters_answer_carries_the_way_back(actors: Actors) -> None:
    agent, chat = actors.agent(), actors.chat()
    wire = line(agent)
    relay = adapter(wire)

    async def answer(event) -> str:
        return f"you said {event.text}"

    relay.set_message_handler(answer)
    assert await relay.connect()
    actors.writes(agent, chat, "hello")
    await asyncio.to_thread(actors.telegram.said, chat, "you said hello")
    frame = next(f for f in wire.went if f["type"] == "outbound" and f["action"]["op"] == "send")
    assert frame["platform"] == "telegram" and frame["botId"] == actors.bots[agent.instance_id]
    assert frame["action"]["metadata"]["user_id"] == str(chat)
    assert actors.telegram.sent(chat) == ["you said hello"]
    await relay.disconnect()


@in_a_loop
async def test_what_came_while_the_agent_was_away_drains_in_order_and_once(actors: Actors) -> None:
    agent, chat = actors.agent(), actors.chat()
    texts = [f"kept {n}" for n in range(20)]
    actors.writes(agent, chat, *texts)
    async with Dialed(agent) as wire:
        await wire.hears(texts[-1])
        assert wire.texts() == texts
        await until_async("nothing unread", lambda: actors.server.unread(agent) == 0)
    async with Dialed(agent) as wire:
        actors.writes(agent, chat, "after")
        await wire.hears("after")
        assert wire.texts() == ["after"]


@in_a_loop
async def test_only_the_unacknowledged_tail_comes_again(actors: Actors) -> None:
    agent, chat = actors.agent(), actors.chat()
    texts = [f"tail {n}" for n in range(8)]
    actors.writes(agent, chat, *texts)
    first = line(agent, reconnect=False)

    async def hear(event) -> None:
        first.heard.append(event)
        if event.text == "tail 3":
            first.cut()
            await asyncio.Event().wait()  # Simulates a crash: this handler never returns.

    first.set_inbound_handler(hear)
    await first.connect()
    await first.hears("tail 3")
    await first.disconnect()
    async with Dialed(agent) as second:
        await second.hears(texts[-1])
        assert first.texts() == texts[:4] and second.texts() == texts[3:]


@in_a_loop
async def test_an_entry_that_is_not_acknowledged_within_the_lease_is_not_delivered(actors: Actors) -> None:
    agent, chat = actors.agent(), actors.chat()
    wire = line(agent)
    held = asyncio.Event()

    async def hear(event) -> None:
        wire.heard.append(event)
        if len(wire.heard) == 1:
            await held.wait()

    wire.set_inbound_handler(hear)
    await wire.connect()
    actors.writes(agent, chat, "are you there")
    await wire.hears("are you there")
    assert actors.server.unread(agent) == 1
    # After the lease the server treats the socket as dead, even if the transport does not.
    await until_async("the server gives up on it", lambda: not actors.server.connected(agent))
    held.set()
    await until_async("it comes again", lambda: len(wire.heard) == 2)
    assert wire.closes[0][0] == 1011
    await until_async("nothing unread", lambda: actors.server.unread(agent) == 0)
    await wire.disconnect()


@in_a_loop
async def test_going_idle_is_confirmed_and_nothing_follows(actors: Actors) -> None:
    agent, chat = actors.agent(), actors.chat()
    async with Dialed(agent) as wire:
        # False if the confirmation does not arrive within ten seconds.
        assert await wire.go_idle()
        actors.writes(agent, chat, "sleep well")
        # The socket still answers, in order: if the message had been sent, it would have arrived by now.
        await wire.get_chat_info(str(chat))
        assert not wire.heard and actors.server.unread(agent) == 1
    async with Dialed(agent) as wire:
        await wire.hears("sleep well")
        await until_async("nothing unread", lambda: actors.server.unread(agent) == 0)
        assert wire.texts() == ["sleep well"]


@in_a_loop
async def test_a_dormant_agent_dials_in_again_and_finds_its_message(actors: Actors) -> None:
    agent, chat = actors.agent(), actors.chat()
    async with Dialed(agent) as wire:
        assert await wire.go_dormant()
        actors.writes(agent, chat, "wake up")
        await wire.hears("wake up")
        assert wire.texts() == ["wake up"]


@in_a_loop
async def test_the_newest_socket_hears_and_the_older_is_still_answered(actors: Actors) -> None:
    agent, chat = actors.agent(), actors.chat()
    async with Dialed(agent, reconnect=False) as older:
        actors.writes(agent, chat, "one")
        await older.hears("one")
        async with Dialed(agent, reconnect=False) as newer:
            actors.writes(agent, chat, "two")
            await newer.hears("two")
            assert older.texts() == ["one"] and newer.texts() == ["two"] and not older.closes
            answer = await older.send_outbound({"op": "send", "chat_id": str(chat), "content": "from the older"})
            assert answer["success"] is True


@in_a_loop
async def test_a_polled_bot_delivers_like_one_with_a_webhook(actors: Actors) -> None:
    agent, chat = actors.agent(mode="poll"), actors.chat()
    texts = [f"polled {n}" for n in range(5)]
    actors.writes(agent, chat, *texts)
    async with Dialed(agent) as wire:
        await wire.hears(texts[-1])
        assert wire.texts() == texts
        assert (await wire.send_outbound({"op": "send", "chat_id": str(chat), "content": "seen"}))["success"] is True
    assert actors.telegram.sent(chat) == ["seen"]


@in_a_loop
async def test_an_interrupt_comes_back_to_the_agent_that_runs_the_session(actors: Actors) -> None:
    agent, sibling, chat = actors.agent(), actors.agent(), actors.chat()
    key = f"agent:main:telegram:dm:{chat}"
    wire = line(agent)
    relay = adapter(wire)
    running = asyncio.Event()

    async def think(event) -> str:
        running.set()
        await asyncio.Event().wait()
        return ""

    relay.set_message_handler(think)
    assert await relay.connect()
    async with Dialed(sibling) as other:
        actors.writes(agent, chat, "think hard")
        await asyncio.wait_for(running.wait(), 60)
        assert not relay._active_sessions[key].is_set()
        await wire.send_interrupt("agent:main:telegram:dm:999")
        await wire.send_interrupt(key, "changed my mind")
        await until_async("the turn is told to stop", lambda: relay._active_sessions[key].is_set())
        assert wire.frames("interrupt_inbound") == [
            {"type": "interrupt_inbound", "session_key": key, "chat_id": str(chat)}]
        # The same key from another tenant's agent stops nothing here.
        await other.send_interrupt(key)
        await other.get_chat_info("1")
        assert len(wire.frames("interrupt_inbound")) == 1 and not other.interrupts
    for task in list(relay._background_tasks):
        task.cancel()
    await relay.disconnect()

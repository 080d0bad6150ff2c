"""Messages of the stock transport appear on the platform, and every request gets one result."""

from __future__ import annotations

import asyncio

from conftest import Actors
from stock import Dialed, adapter, in_a_loop, line
from stock_version import IS_0_19
from waiting import until_async

# No settling, because nothing here has a start-up to finish. A short lease, so that silence is noticed soon.
SETTINGS = {"relay__settle": "0s", "relay__ack_lease": "3s"}


@in_a_loop
async def test_what_the_agent_sends_stands_on_the_platform_once(actors: Actors) -> None:
    agent, chat = actors.agent(), actors.chat()
    actors.writes(agent, chat, "hi")
    async with Dialed(agent) as wire:
        await wire.hears("hi")
        answer = await wire.send_outbound({"op": "send", "chat_id": str(chat), "content": "*bold* & <plain>"})
        assert answer["success"] is True
        rows = [r for r in actors.telegram.rows(chat=chat) if r["kind"] == "sent"]
        assert [str(r["message_id"]) for r in rows] == [answer["message_id"]]


@in_a_loop
async def test_an_edit_and_a_typing_sign_take_effect(actors: Actors) -> None:
    agent, chat = actors.agent(), actors.chat()
    actors.writes(agent, chat, "hi")
    async with Dialed(agent) as wire:
        await wire.hears("hi")
        assert (await wire.send_outbound({"op": "typing", "chat_id": str(chat)}))["success"] is True
        made = await wire.send_outbound({"op": "send", "chat_id": str(chat), "content": "draft"})
        edit = {"op": "edit", "chat_id": str(chat), "message_id": made["message_id"], "content": "final"}
        assert (await wire.send_outbound(edit))["success"] is True
        kinds = [(r["kind"], r["text"]) for r in actors.telegram.rows(chat=chat) if r["kind"] != "received"]
        assert kinds == [("action", "typing"), ("sent", "draft"), ("edited", "final")]


@in_a_loop
async def test_a_text_too_long_for_the_platform_is_split_by_the_server(actors: Actors) -> None:
    agent, chat = actors.agent(), actors.chat()
    actors.writes(agent, chat, "hi")
    words = [f"word{n:05d}" for n in range(1_200)]
    async with Dialed(agent) as wire:
        await wire.hears("hi")
        answer = await wire.send_outbound({"op": "send", "chat_id": str(chat), "content": " ".join(words)})
        assert answer["success"] is True
    pieces = actors.telegram.sent(chat)
    assert len(pieces) > 2 and all(len(p.encode("utf-16-le")) // 2 <= 4096 for p in pieces)
    assert " ".join(pieces).split() == words


@in_a_loop
async def test_a_chat_that_was_never_delivered_is_refused(actors: Actors) -> None:
    agent, other, chat = actors.agent(), actors.agent(), actors.chat()
    actors.writes(other, chat, "not yours")
    async with Dialed(agent) as wire:
        for target in (chat, actors.chat()):
            answer = await wire.send_outbound(
                {"op": "send", "chat_id": str(target), "content": "hello stranger",
                 "metadata": {"user_id": str(target)}})
            assert answer["success"] is False and answer["code"] == "egress_declined"
            assert "egress declined:" in answer["error"]
    assert not actors.telegram.sent(chat)


@in_a_loop
async def test_a_follow_up_without_a_capability_fails_plainly(actors: Actors) -> None:
    agent, chat = actors.agent(), actors.chat()
    wire = line(agent)
    relay = adapter(wire)
    assert await relay.connect()
    for kind in ("telegram.callback_query_id", "discord.interaction_token"):
        answer = await relay.send_follow_up(f"agent:main:telegram:dm:{chat}", kind, "late")
        assert answer.success is False and answer.error
    await relay.disconnect()


@in_a_loop
async def test_chat_info_is_told(actors: Actors) -> None:
    agent, chat = actors.agent(), actors.chat()
    actors.writes(agent, chat, "hi")
    async with Dialed(agent) as wire:
        await wire.hears("hi")
        assert await wire.get_chat_info(str(chat)) == {"name": "Ann", "type": "dm"}


@in_a_loop
async def test_an_unknown_op_is_refused_by_name(actors: Actors) -> None:
    async with Dialed(actors.agent()) as wire:
        answer = await wire.send_outbound({"op": "dance", "chat_id": "1"})
        assert answer["success"] is False and answer["error"] == "unsupported op: dance"


@in_a_loop
async def test_lone_surrogates_and_nan_are_answered_not_ignored(actors: Actors) -> None:
    agent, chat = actors.agent(), actors.chat()
    actors.writes(agent, chat, "hi")
    async with Dialed(agent) as wire:
        await wire.hears("hi")
        action = {"op": "send", "chat_id": str(chat), "content": "half \ud83d a smile",
                  "metadata": {"score": float("nan")}}
        assert (await wire.send_outbound(action))["success"] is True
    assert actors.telegram.sent(chat) == ["half \ufffd a smile"]


@in_a_loop
async def test_a_repeated_request_is_answered_from_memory(actors: Actors) -> None:
    agent, chat = actors.agent(), actors.chat()
    actors.writes(agent, chat, "hi")
    async with Dialed(agent) as wire:
        await wire.hears("hi")
        frame = {"type": "outbound", "requestId": f"twice-{chat}",
                 "action": {"op": "send", "chat_id": str(chat), "content": "once"}}
        await wire._send(frame)
        await until_async("its result", lambda: wire.frames("outbound_result"))
        await wire._send(frame)
        results = await until_async("two results", lambda: len(wire.frames("outbound_result")) == 2 and wire.frames("outbound_result"))
        assert results[0] == results[1]
    assert actors.telegram.sent(chat) == ["once"]


@in_a_loop
async def test_a_result_that_missed_its_socket_comes_on_the_next(actors: Actors) -> None:
    agent, chat = actors.agent(), actors.chat()
    actors.writes(agent, chat, "hi")
    async with Dialed(agent) as wire:
        await wire.hears("hi")
        actors.telegram.fault("hang_after_write", method="sendMessage", chat_id=chat)
        sending = asyncio.create_task(
            wire.send_outbound({"op": "send", "chat_id": str(chat), "content": "slow boat"}))
        await until_async("it stands there", lambda: actors.telegram.sent(chat) == ["slow boat"])
        wire.cut()
        await until_async("it dials again", lambda: len(wire.frames("descriptor")) == 2)
        if IS_0_19:
            assert not sending.done(), "it waits on across its own reconnect"
            actors.telegram.release()
            assert (await sending)["success"] is True
        else:
            # It gives up when its reader ends, and ignores the result that arrives later.
            assert await sending == {"success": False, "error": "relay transport connection lost"}
            actors.telegram.release()
            await until_async("the late result comes", lambda: wire.frames("outbound_result"))
            assert (await wire.send_outbound({"op": "typing", "chat_id": str(chat)}))["success"] is True
    assert actors.telegram.sent(chat) == ["slow boat"]

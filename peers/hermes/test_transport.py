"""The stock `WebSocketRelayTransport` and `RelayAdapter` against the house: the wire, sentence by sentence."""

from __future__ import annotations

import asyncio
import time

import pytest
from gateway.relay.auth import make_upgrade_token
from websockets.exceptions import ConnectionClosed

from conftest import Town
from stock import Dialed, adapter, in_a_loop, line
from waiting import until, until_async

# No settling: nothing here has a start-up to finish. A short lease, so that silence is noticed soon.
SETTINGS = {"relay__settle": "0s", "relay__ack_lease": "3s"}


# Shaking hands.


@in_a_loop
async def test_a_good_handshake_brings_the_platforms_descriptor(town: Town) -> None:
    async with Dialed(town.agent()) as wire:
        told = await wire.handshake()
        assert (told.contract_version, told.platform, told.label) == (1, "telegram", "Telegram")
        assert (told.max_message_length, told.len_unit) == (4096, "utf16")
        assert told.markdown_dialect == "markdown_v2"
        assert told.supports_edit and told.supports_threads and not told.supports_draft_streaming
        ops = wire.frames("descriptor")[0]["descriptor"]["supported_ops"]
        assert {"send", "edit", "typing", "follow_up", "get_chat_info"} <= set(ops)


@in_a_loop
async def test_the_adapter_adopts_what_the_house_advertises(town: Town) -> None:
    wire = line(town.agent())
    relay = adapter(wire)
    assert await relay.connect()
    assert relay.MAX_MESSAGE_LENGTH == 4096 and relay.supports_code_blocks
    assert relay.message_len_fn("\U0001f600") == 2
    await relay.disconnect()


async def _refused(wire, within: float = 2.0) -> tuple[int | None, str]:
    """How a dial was refused; fails unless that was at once."""
    begun = time.monotonic()
    with pytest.raises(ConnectionClosed):
        await wire.connect()
        # Not reached when the refusal came with the upgrade's own answer, as it must.
        await wire.handshake()
    assert time.monotonic() - begun < within, "the refusal was not immediate"
    closes = await until_async("the close is seen", lambda: wire.closes)
    await wire.disconnect()
    return closes[0]


@in_a_loop
async def test_a_wrong_secret_is_refused_at_once_with_4401(town: Town) -> None:
    agent = town.agent()
    for _ in range(2):
        wire = line(agent, upgrade_secret="f" * 64, reconnect=False, connect_timeout_s=5.0)
        assert await _refused(wire) == (4401, "unauthorized")
        assert not wire.auth_revoked and not wire.frames("descriptor")


@in_a_loop
async def test_an_unknown_gateway_is_refused_like_a_wrong_secret(town: Town) -> None:
    wire = line(town.agent(), gateway_id="gw-nobody", reconnect=False, connect_timeout_s=5.0)
    assert await _refused(wire) == (4401, "unauthorized")


@in_a_loop
async def test_a_dial_without_credentials_is_refused(town: Town) -> None:
    wire = line(town.agent(), gateway_id=None, upgrade_secret=None, reconnect=False, connect_timeout_s=5.0)
    assert await _refused(wire) == (4401, "unauthorized")


@in_a_loop
async def test_an_expired_token_is_told_apart_from_a_wrong_one(town: Town) -> None:
    agent = town.agent()
    wire = line(agent, reconnect=False, connect_timeout_s=5.0)
    old = make_upgrade_token(agent.gateway_id, agent.secret, ttl_seconds=-3600)
    wire._upgrade_headers = lambda: {"Authorization": f"Bearer {old}"}
    assert await _refused(wire) == (4401, "expired")


@in_a_loop
async def test_a_revoked_agent_goes_quiet_within_a_second_or_so(town: Town) -> None:
    agent = town.agent()
    wire = line(agent)
    relay = adapter(wire)
    assert await relay.connect()
    await asyncio.to_thread(town.house.revoke, agent)
    await until_async("the transport sees the 4401", lambda: wire.auth_revoked, 1.0)
    await until_async("the adapter latches", lambda: relay.has_fatal_error, 2.0)
    assert relay.fatal_error_code == "relay_disabled" and not relay.fatal_error_retryable
    assert wire.closes[0][0] == 4401 and len(wire.closes) == 1
    await relay.disconnect()
    again = line(agent, reconnect=False, connect_timeout_s=5.0)
    assert (await _refused(again))[0] == 4401


@in_a_loop
async def test_two_hellos_bring_two_descriptors_in_order(town: Town) -> None:
    agent = town.agent(bots=2)
    own = town.house.show(agent)["bots"]
    identities = [("telegram", str(bot["id"])) for bot in own]
    async with Dialed(agent, identities=identities) as wire:
        await until_async("two descriptors", lambda: len(wire.frames("descriptor")) == 2)
        chat = town.chat()
        # The second bot's chat is answered by the second bot.
        second = identities[1][1]
        update = town.telegram.inject(second, chat, "to the second")
        assert update["update_id"]
        await wire.hears("to the second")
        frame = {"type": "outbound", "requestId": "second-1", "platform": "telegram", "botId": second,
                 "action": {"op": "send", "chat_id": str(chat), "content": "from the second"}}
        await wire._send(frame)
        await until_async("its result", lambda: wire.frames("outbound_result"))
        row = next(r for r in town.telegram.rows(chat=chat) if r["kind"] == "sent")
        assert str(row["bot"]) == second


@in_a_loop
async def test_an_identity_of_others_gets_no_descriptor_and_no_post(town: Town) -> None:
    agent, other = town.agent(), town.agent()
    foreign = town.bots[other.instance_id]
    identities = [("telegram", town.bots[agent.instance_id]), ("telegram", foreign), ("discord", "1")]
    chat = town.chat()
    async with Dialed(agent, identities=identities) as wire:
        town.writes(other, chat, "private")
        frame = {"type": "outbound", "requestId": "foreign-1", "platform": "telegram", "botId": foreign,
                 "action": {"op": "send", "chat_id": str(chat), "content": "stolen"}}
        await wire._send(frame)
        answer = (await until_async("its result", lambda: wire.frames("outbound_result")))[0]["result"]
        assert answer["success"] is False
        assert len(wire.frames("descriptor")) == 1 and not wire.heard and not wire.closes
    assert "stolen" not in town.telegram.sent(chat)


# Coming in.


@in_a_loop
async def test_a_message_reaches_the_agent_whole_and_is_forgotten_once_acknowledged(town: Town) -> None:
    agent, chat = town.agent(), town.chat()
    async with Dialed(agent) as wire:
        town.writes(agent, chat, "good morning ☀️")
        event = await wire.hears("good morning ☀️")
        source = event.source
        assert (source.platform.value, source.chat_id, source.chat_type) == ("telegram", str(chat), "dm")
        assert (source.user_id, source.user_name) == (str(chat), "Ann")
        assert isinstance(event.message_id, str) and event.message_id
        assert wire.frames("inbound")[0]["bufferId"]
        await until_async("nothing unread", lambda: town.house.unread(agent) == 0)


@in_a_loop
async def test_the_adapters_answer_carries_the_way_back(town: Town) -> None:
    agent, chat = town.agent(), town.chat()
    wire = line(agent)
    relay = adapter(wire)

    async def answer(event) -> str:
        return f"you said {event.text}"

    relay.set_message_handler(answer)
    assert await relay.connect()
    town.writes(agent, chat, "hello")
    await asyncio.to_thread(town.telegram.said, chat, "you said hello")
    frame = next(f for f in wire.went if f["type"] == "outbound" and f["action"]["op"] == "send")
    assert frame["platform"] == "telegram" and frame["botId"] == town.bots[agent.instance_id]
    assert frame["action"]["metadata"]["user_id"] == str(chat)
    assert town.telegram.sent(chat) == ["you said hello"]
    await relay.disconnect()


@in_a_loop
async def test_what_came_while_the_agent_was_away_drains_in_order_and_once(town: Town) -> None:
    agent, chat = town.agent(), town.chat()
    texts = [f"kept {n}" for n in range(20)]
    town.writes(agent, chat, *texts)
    async with Dialed(agent) as wire:
        await wire.hears(texts[-1])
        assert wire.texts() == texts
        await until_async("nothing unread", lambda: town.house.unread(agent) == 0)
    async with Dialed(agent) as wire:
        town.writes(agent, chat, "after")
        await wire.hears("after")
        assert wire.texts() == ["after"]


@in_a_loop
async def test_only_the_unacknowledged_tail_comes_again(town: Town) -> None:
    agent, chat = town.agent(), town.chat()
    texts = [f"tail {n}" for n in range(8)]
    town.writes(agent, chat, *texts)
    first = line(agent, reconnect=False)

    async def hear(event) -> None:
        first.heard.append(event)
        if event.text == "tail 3":
            first.cut()
            await asyncio.Event().wait()  # The machine died here: this handler never returns.

    first.set_inbound_handler(hear)
    await first.connect()
    await first.hears("tail 3")
    await first.disconnect()
    async with Dialed(agent) as second:
        await second.hears(texts[-1])
        assert first.texts() == texts[:4] and second.texts() == texts[3:]


@in_a_loop
async def test_an_entry_that_is_not_acknowledged_within_the_lease_is_not_delivered(town: Town) -> None:
    agent, chat = town.agent(), town.chat()
    wire = line(agent)
    held = asyncio.Event()

    async def hear(event) -> None:
        wire.heard.append(event)
        if len(wire.heard) == 1:
            await held.wait()

    wire.set_inbound_handler(hear)
    await wire.connect()
    town.writes(agent, chat, "are you there")
    await wire.hears("are you there")
    assert town.house.unread(agent) == 1
    # Past the lease the socket counts as bad, whatever the transport still believes of it.
    await until_async("the house gives up on it", lambda: not town.house.connected(agent), 10)
    held.set()
    await until_async("it comes again", lambda: len(wire.heard) == 2)
    assert wire.closes[0][0] == 1011
    await until_async("nothing unread", lambda: town.house.unread(agent) == 0)
    await wire.disconnect()


@in_a_loop
async def test_going_idle_is_confirmed_quickly_and_nothing_follows(town: Town) -> None:
    agent, chat = town.agent(), town.chat()
    async with Dialed(agent) as wire:
        begun = time.monotonic()
        assert await wire.go_idle()
        assert time.monotonic() - begun < 1.0
        town.writes(agent, chat, "sleep well")
        # The socket still answers, in order: had the message been sent, it would be here by now.
        await wire.get_chat_info(str(chat))
        assert not wire.heard and town.house.unread(agent) == 1
    async with Dialed(agent) as wire:
        await wire.hears("sleep well")
        await until_async("nothing unread", lambda: town.house.unread(agent) == 0)
        assert wire.texts() == ["sleep well"]


@in_a_loop
async def test_a_dormant_agent_dials_in_again_and_finds_its_message(town: Town) -> None:
    agent, chat = town.agent(), town.chat()
    async with Dialed(agent) as wire:
        assert await wire.go_dormant()
        town.writes(agent, chat, "wake up")
        await wire.hears("wake up")
        assert wire.texts() == ["wake up"]


@in_a_loop
async def test_the_newest_socket_hears_and_the_older_is_still_answered(town: Town) -> None:
    agent, chat = town.agent(), town.chat()
    async with Dialed(agent, reconnect=False) as older:
        town.writes(agent, chat, "one")
        await older.hears("one")
        async with Dialed(agent, reconnect=False) as newer:
            town.writes(agent, chat, "two")
            await newer.hears("two")
            assert older.texts() == ["one"] and newer.texts() == ["two"] and not older.closes
            answer = await older.send_outbound({"op": "send", "chat_id": str(chat), "content": "from the older"})
            assert answer["success"] is True


# Going out.


@in_a_loop
async def test_what_the_agent_sends_stands_on_the_platform_once(town: Town) -> None:
    agent, chat = town.agent(), town.chat()
    town.writes(agent, chat, "hi")
    async with Dialed(agent) as wire:
        await wire.hears("hi")
        answer = await wire.send_outbound({"op": "send", "chat_id": str(chat), "content": "*bold* & <plain>"})
        assert answer["success"] is True
        rows = [r for r in town.telegram.rows(chat=chat) if r["kind"] == "sent"]
        assert [str(r["message_id"]) for r in rows] == [answer["message_id"]]


@in_a_loop
async def test_an_edit_and_a_typing_sign_take_effect(town: Town) -> None:
    agent, chat = town.agent(), town.chat()
    town.writes(agent, chat, "hi")
    async with Dialed(agent) as wire:
        await wire.hears("hi")
        assert (await wire.send_outbound({"op": "typing", "chat_id": str(chat)}))["success"] is True
        made = await wire.send_outbound({"op": "send", "chat_id": str(chat), "content": "draft"})
        edit = {"op": "edit", "chat_id": str(chat), "message_id": made["message_id"], "content": "final"}
        assert (await wire.send_outbound(edit))["success"] is True
        kinds = [(r["kind"], r["text"]) for r in town.telegram.rows(chat=chat) if r["kind"] != "received"]
        assert kinds == [("action", "typing"), ("sent", "draft"), ("edited", "final")]


@in_a_loop
async def test_a_text_too_long_for_the_platform_is_split_by_the_house(town: Town) -> None:
    agent, chat = town.agent(), town.chat()
    town.writes(agent, chat, "hi")
    words = [f"word{n:05d}" for n in range(1_200)]
    async with Dialed(agent) as wire:
        await wire.hears("hi")
        answer = await wire.send_outbound({"op": "send", "chat_id": str(chat), "content": " ".join(words)})
        assert answer["success"] is True
    pieces = town.telegram.sent(chat)
    assert len(pieces) > 2 and all(len(p.encode("utf-16-le")) // 2 <= 4096 for p in pieces)
    assert " ".join(pieces).split() == words


@in_a_loop
async def test_a_chat_that_was_never_delivered_is_refused(town: Town) -> None:
    agent, other, chat = town.agent(), town.agent(), town.chat()
    town.writes(other, chat, "not yours")
    async with Dialed(agent) as wire:
        for target in (chat, town.chat()):
            answer = await wire.send_outbound(
                {"op": "send", "chat_id": str(target), "content": "hello stranger",
                 "metadata": {"user_id": str(target)}})
            assert answer["success"] is False and answer["code"] == "egress_declined"
            assert "egress declined:" in answer["error"]
    assert not town.telegram.sent(chat)


@in_a_loop
async def test_a_follow_up_without_a_capability_fails_plainly(town: Town) -> None:
    agent, chat = town.agent(), town.chat()
    wire = line(agent)
    relay = adapter(wire)
    assert await relay.connect()
    for kind in ("telegram.callback_query_id", "discord.interaction_token"):
        answer = await relay.send_follow_up(f"agent:main:telegram:dm:{chat}", kind, "late")
        assert answer.success is False and answer.error
    await relay.disconnect()


@in_a_loop
async def test_chat_info_is_told(town: Town) -> None:
    agent, chat = town.agent(), town.chat()
    town.writes(agent, chat, "hi")
    async with Dialed(agent) as wire:
        await wire.hears("hi")
        assert await wire.get_chat_info(str(chat)) == {"name": "Ann", "type": "dm"}


@in_a_loop
async def test_an_unknown_op_is_refused_by_name(town: Town) -> None:
    async with Dialed(town.agent()) as wire:
        answer = await wire.send_outbound({"op": "dance", "chat_id": "1"})
        assert answer["success"] is False and answer["error"] == "unsupported op: dance"


@in_a_loop
async def test_lone_surrogates_and_nan_are_answered_not_ignored(town: Town) -> None:
    agent, chat = town.agent(), town.chat()
    town.writes(agent, chat, "hi")
    async with Dialed(agent, outbound_timeout_s=5.0) as wire:
        await wire.hears("hi")
        action = {"op": "send", "chat_id": str(chat), "content": "half \ud83d a smile",
                  "metadata": {"score": float("nan")}}
        assert (await wire.send_outbound(action))["success"] is True
    assert town.telegram.sent(chat) == ["half \ufffd a smile"]


@in_a_loop
async def test_a_repeated_request_is_answered_from_memory(town: Town) -> None:
    agent, chat = town.agent(), town.chat()
    town.writes(agent, chat, "hi")
    async with Dialed(agent) as wire:
        await wire.hears("hi")
        frame = {"type": "outbound", "requestId": f"twice-{chat}",
                 "action": {"op": "send", "chat_id": str(chat), "content": "once"}}
        await wire._send(frame)
        await wire._send(frame)
        results = await until_async("two results", lambda: len(wire.frames("outbound_result")) == 2 and wire.frames("outbound_result"))
        assert results[0]["result"] == results[1]["result"]
    assert town.telegram.sent(chat) == ["once"]


@in_a_loop
async def test_a_result_that_missed_its_socket_comes_on_the_next(town: Town) -> None:
    agent, chat = town.agent(), town.chat()
    town.writes(agent, chat, "hi")
    async with Dialed(agent) as wire:
        await wire.hears("hi")
        town.telegram.fault("slow", delay_ms=2500, method="sendMessage", chat_id=chat)
        sending = asyncio.create_task(
            wire.send_outbound({"op": "send", "chat_id": str(chat), "content": "slow boat"}))
        await until_async("the request is out", lambda: [f for f in wire.went if f["type"] == "outbound"])
        await until_async("it stands there", lambda: town.telegram.sent(chat) == ["slow boat"])
        wire.cut()
        assert (await sending)["success"] is True
        assert len(wire.frames("descriptor")) == 2
    assert town.telegram.sent(chat) == ["slow boat"]


# Interrupts.


@in_a_loop
async def test_an_interrupt_comes_back_to_the_agent_that_runs_the_session(town: Town) -> None:
    agent, sibling, chat = town.agent(), town.agent(), town.chat()
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
        town.writes(agent, chat, "think hard")
        await asyncio.wait_for(running.wait(), 20)
        assert not relay._active_sessions[key].is_set()
        await wire.send_interrupt("agent:main:telegram:dm:999")
        await wire.send_interrupt(key, "changed my mind")
        await until_async("the turn is told to stop", lambda: relay._active_sessions[key].is_set())
        assert wire.frames("interrupt_inbound") == [
            {"type": "interrupt_inbound", "session_key": key, "chat_id": str(chat)}]
        # The same key from somebody else's agent stops nothing here.
        await other.send_interrupt(key)
        await other.get_chat_info("1")
        assert len(wire.frames("interrupt_inbound")) == 1 and not other.interrupts
    for task in list(relay._background_tasks):
        task.cancel()
    await relay.disconnect()


# Bad manners.


@in_a_loop
async def test_garbage_is_ignored_and_the_socket_stays(town: Town) -> None:
    agent, chat = town.agent(), town.chat()
    town.writes(agent, chat, "hi")
    async with Dialed(agent) as wire:
        await wire.hears("hi")
        for piece in ("\n\n", "not json\n", "[]\n", "17\n", '{"type":"waltz"}\n', '{"no":"type"}\n',
                      '{"type":"descriptor"}\n', '{"type":"inbound_ack","bufferId":7}\n', b"\xff\xfe\n"):
            await wire._ws.send(piece)
        await wire._ws.send('{"type":"outbound","requestId":"half-1","acti')
        await wire._ws.send('on":{"op":"typing","chat_id":"%s"}}\n{"type":"waltz"}\n' % chat)
        await until_async("the split line is answered", lambda: wire.frames("outbound_result"))
        assert (await wire.send_outbound({"op": "send", "chat_id": str(chat), "content": "still here"}))["success"]
        assert not wire.closes


@in_a_loop
async def test_a_request_of_the_wrong_shape_is_answered_with_a_failure(town: Town) -> None:
    async with Dialed(town.agent()) as wire:
        for number, action in enumerate([None, 7, [], {}, {"op": 3}, {"op": "send"}, {"op": "send", "chat_id": {}}]):
            await wire._send({"type": "outbound", "requestId": f"bad-{number}", "action": action})
        results = await until_async("all answered", lambda: len(wire.frames("outbound_result")) == 7 and wire.frames("outbound_result"))
        assert all(frame["result"]["success"] is False for frame in results)
        assert {frame["requestId"] for frame in results} == {f"bad-{n}" for n in range(7)}


@in_a_loop
async def test_a_line_of_more_than_four_mebibytes_ends_the_socket_not_the_agent(town: Town) -> None:
    agent, chat = town.agent(), town.chat()
    town.writes(agent, chat, "hi")
    async with Dialed(agent, outbound_timeout_s=3.0) as wire:
        await wire.hears("hi")
        try:
            answer = await wire.send_outbound({"op": "send", "chat_id": str(chat), "content": "x" * 5_000_000})
            assert answer["success"] is False
        except ConnectionClosed:
            pass  # The close overtook the rest of the line.
        await until_async("it dials again", lambda: len(wire.frames("descriptor")) == 2)
        assert wire.closes[0][0] == 1009 and not wire.auth_revoked
        assert (await wire.send_outbound({"op": "send", "chat_id": str(chat), "content": "shorter"}))["success"] is True
    assert town.telegram.sent(chat) == ["shorter"]


# The house itself.


@in_a_loop
async def test_a_house_that_closes_says_1012_and_is_found_again(town: Town) -> None:
    agent, chat = town.agent(), town.chat()
    async with Dialed(agent) as wire:
        begun = time.monotonic()
        assert await asyncio.to_thread(town.house.stop) == 0
        assert time.monotonic() - begun < 10
        await until_async("the close", lambda: wire.closes)
        assert wire.closes[0][0] == 1012 and not wire.auth_revoked
        await asyncio.to_thread(town.house.serve)
        await until_async("it dials again", lambda: len(wire.frames("descriptor")) == 2)
        town.writes(agent, chat, "we are open")
        await wire.hears("we are open")


def test_no_secret_was_written_anywhere_by_all_this(town: Town) -> None:
    """Runs last: looks through everything that the tests above made the house say or keep."""
    written = town.house.log().encode()
    for path in town.house.folder.rglob("*"):
        if path.is_file() and path.name not in ("vault.key", "admin.token"):
            written += path.read_bytes()
    for secret in town.secrets():
        assert secret.encode() not in written, f"{secret[:8]}… was written"
    until("the house is well", lambda: town.house.running())

"""The stock transport and adapter connect: accepted and refused credentials, and what ends a connection."""

from __future__ import annotations

import asyncio
import time
from unittest.mock import patch

import pytest
from gateway.relay.auth import make_upgrade_token
from websockets.exceptions import ConnectionClosed

from conftest import Actors
from stock import Dialed, adapter, in_a_loop, line
from waiting import until_async

# No settling, because nothing here has a start-up to finish. A short lease, so that silence is noticed soon.
# The tests act as their own proxy, so that refusals can come from many addresses: many from one address are slowed
# down.
SETTINGS = {"relay__settle": "0s", "relay__ack_lease": "3s", "server__trusted_proxies": "127.0.0.1/32"}


@in_a_loop
async def test_a_good_handshake_brings_the_platforms_descriptor(actors: Actors) -> None:
    async with Dialed(actors.agent()) as wire:
        told = await wire.handshake()
        assert (told.contract_version, told.platform, told.label) == (1, "telegram", "Telegram")
        assert (told.max_message_length, told.len_unit) == (4096, "utf16")
        assert told.markdown_dialect == "markdown_v2"
        assert told.supports_edit and told.supports_threads and told.supports_draft_streaming
        ops = wire.frames("descriptor")[0]["descriptor"]["supported_ops"]
        assert {"send", "edit", "typing", "get_chat_info", "prompt", "react", "draft"} <= set(ops)
        assert "follow_up" not in ops, "Telegram has no capability that could be redeemed"


@in_a_loop
async def test_the_adapter_adopts_what_the_server_advertises(actors: Actors) -> None:
    wire = line(actors.agent())
    relay = adapter(wire)
    assert await relay.connect()
    assert relay.MAX_MESSAGE_LENGTH == 4096 and relay.supports_code_blocks
    assert relay.message_len_fn("\U0001f600") == 2
    await relay.disconnect()


async def _refused(wire) -> tuple[int | None, str]:
    """How a connection was refused. A stock client must see the refusal before it has sent its hello. If the close
    comes later, it treats the connection as a success, waits 30 s for a descriptor and reconnects every second."""
    begun = time.monotonic()
    try:
        await wire.connect()
        pytest.fail("the close did not come with the upgrade's answer")
    except ConnectionClosed:
        assert time.monotonic() - begun < 30.0, "it waited for a descriptor first"
    closes = await until_async("the close is seen", lambda: wire.closes)
    await wire.disconnect()
    return closes[0]


@in_a_loop
async def test_a_wrong_secret_is_refused_at_once_with_4401(actors: Actors) -> None:
    agent = actors.agent()
    for _ in range(3):
        wire = line(agent, upgrade_secret="f" * 64, reconnect=False)
        assert await _refused(wire) == (4401, "unauthorized")
        assert not wire.auth_revoked and not wire.frames("descriptor")


@in_a_loop
async def test_the_refusal_always_overtakes_the_hello(actors: Actors) -> None:
    agent = actors.agent()
    for number in range(50):
        wire = line(agent, gateway_id=f"gw-race-{number}", reconnect=False)
        proven = wire._upgrade_headers()
        wire._upgrade_headers = lambda: proven | {"X-Forwarded-For": f"203.0.113.{number}"}
        assert await _refused(wire) == (4401, "unauthorized")


@in_a_loop
async def test_a_guesser_is_slowed_down_and_still_learns_it_at_once(actors: Actors) -> None:
    """The pause comes before the answer to the upgrade. Between that answer and the close, the client would send its
    hello."""
    agent = actors.agent()
    waits = []
    for _ in range(14):
        wire = line(agent, gateway_id="gw-guess", reconnect=False)
        proven = wire._upgrade_headers()
        wire._upgrade_headers = lambda: proven | {"X-Forwarded-For": "198.51.100.7"}
        begun = time.monotonic()
        assert await _refused(wire) == (4401, "unauthorized")
        waits.append(time.monotonic() - begun)
    # The fourteenth is delayed by a second, the first ten are not. The quickest of them shows it on a slow machine too.
    assert waits[13] >= 1.0 and min(waits[:10]) + 0.5 < waits[13], waits


@in_a_loop
async def test_an_unknown_gateway_is_refused_like_a_wrong_secret(actors: Actors) -> None:
    wire = line(actors.agent(), gateway_id="gw-nobody", reconnect=False)
    assert await _refused(wire) == (4401, "unauthorized")


@in_a_loop
async def test_a_dial_without_credentials_is_refused(actors: Actors) -> None:
    wire = line(actors.agent(), gateway_id=None, upgrade_secret=None, reconnect=False)
    assert await _refused(wire) == (4401, "unauthorized")


@in_a_loop
async def test_an_expired_token_is_told_apart_from_a_wrong_one(actors: Actors) -> None:
    agent = actors.agent()
    wire = line(agent, reconnect=False)
    # Minted an hour ago. (A lifetime of zero or less would mean "never expires".)
    with patch("gateway.relay.auth.time") as clock:
        clock.time.return_value = time.time() - 3600
        old = make_upgrade_token(agent.gateway_id, agent.secret)
    wire._upgrade_headers = lambda: {"Authorization": f"Bearer {old}"}
    assert await _refused(wire) == (4401, "expired")


@in_a_loop
async def test_a_revoked_agent_is_told_so_and_goes_quiet(actors: Actors) -> None:
    agent = actors.agent()
    wire = line(agent)
    relay = adapter(wire)
    assert await relay.connect()
    await asyncio.to_thread(actors.server.revoke, agent)
    await until_async("the transport sees the 4401", lambda: wire.auth_revoked)
    await until_async("the adapter latches", lambda: relay.has_fatal_error)
    assert relay.fatal_error_code == "relay_disabled" and not relay.fatal_error_retryable
    assert wire.closes[0][0] == 4401 and len(wire.closes) == 1
    await relay.disconnect()
    again = line(agent, reconnect=False)
    assert (await _refused(again))[0] == 4401


@in_a_loop
async def test_two_hellos_bring_two_descriptors_in_order(actors: Actors) -> None:
    agent = actors.agent(bots=2)
    own = actors.server.show(agent)["bots"]
    identities = [("telegram", str(bot["id"])) for bot in own]
    async with Dialed(agent, identities=identities) as wire:
        await until_async("two descriptors", lambda: len(wire.frames("descriptor")) == 2)
        chat = actors.chat()
        # The second bot answers in its own chat.
        second = identities[1][1]
        update = actors.telegram.inject(second, chat, "to the second")
        assert update["update_id"]
        await wire.hears("to the second")
        frame = {"type": "outbound", "requestId": "second-1", "platform": "telegram", "botId": second,
                 "action": {"op": "send", "chat_id": str(chat), "content": "from the second"}}
        await wire._send(frame)
        await until_async("its result", lambda: wire.frames("outbound_result"))
        row = next(r for r in actors.telegram.rows(chat=chat) if r["kind"] == "sent")
        assert str(row["bot"]) == second


@in_a_loop
async def test_an_identity_of_others_gets_no_descriptor_and_no_post(actors: Actors) -> None:
    agent, other = actors.agent(), actors.agent()
    foreign = actors.bots[other.instance_id]
    identities = [("telegram", actors.bots[agent.instance_id]), ("telegram", foreign), ("discord", "1")]
    chat = actors.chat()
    async with Dialed(agent, identities=identities) as wire:
        actors.writes(other, chat, "private")
        frame = {"type": "outbound", "requestId": "foreign-1", "platform": "telegram", "botId": foreign,
                 "action": {"op": "send", "chat_id": str(chat), "content": "stolen"}}
        await wire._send(frame)
        answer = (await until_async("its result", lambda: wire.frames("outbound_result")))[0]["result"]
        assert answer["success"] is False
        assert len(wire.frames("descriptor")) == 1 and not wire.heard and not wire.closes
    assert "stolen" not in actors.telegram.sent(chat)


@in_a_loop
async def test_garbage_is_ignored_and_the_socket_stays(actors: Actors) -> None:
    agent, chat = actors.agent(), actors.chat()
    actors.writes(agent, chat, "hi")
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
async def test_a_request_of_the_wrong_shape_is_answered_with_a_failure(actors: Actors) -> None:
    async with Dialed(actors.agent()) as wire:
        for number, action in enumerate([None, 7, [], {}, {"op": 3}, {"op": "send"}, {"op": "send", "chat_id": {}}]):
            await wire._send({"type": "outbound", "requestId": f"bad-{number}", "action": action})
        results = await until_async("all answered", lambda: len(wire.frames("outbound_result")) == 7 and wire.frames("outbound_result"))
        assert all(frame["result"]["success"] is False for frame in results)
        assert {frame["requestId"] for frame in results} == {f"bad-{n}" for n in range(7)}


@in_a_loop
async def test_a_line_of_more_than_four_mebibytes_ends_the_socket_not_the_agent(actors: Actors) -> None:
    agent, chat = actors.agent(), actors.chat()
    actors.writes(agent, chat, "hi")
    async with Dialed(agent) as wire:
        await wire.hears("hi")
        action = {"op": "send", "chat_id": str(chat), "content": "x" * 5_000_000}
        too_long = asyncio.create_task(wire.send_outbound(action))
        await until_async("it dials again", lambda: len(wire.frames("descriptor")) == 2)
        assert wire.closes[0][0] == 1009 and not wire.auth_revoked
        assert (await wire.send_outbound({"op": "send", "chat_id": str(chat), "content": "shorter"}))["success"] is True
        # It saw the close while it was sending, it was told of a failure, or it waits in vain.
        too_long.cancel()
        [ended] = await asyncio.gather(too_long, return_exceptions=True)
        assert isinstance(ended, (ConnectionClosed, asyncio.CancelledError)) or ended["success"] is False, ended
    assert actors.telegram.sent(chat) == ["shorter"]


@in_a_loop
async def test_a_server_that_closes_says_1012_and_is_found_again(actors: Actors) -> None:
    agent, chat = actors.agent(), actors.chat()
    async with Dialed(agent) as wire:
        assert await asyncio.to_thread(actors.server.stop) == 0
        await until_async("the close", lambda: wire.closes)
        assert wire.closes[0][0] == 1012 and not wire.auth_revoked
        await asyncio.to_thread(actors.server.serve)
        await until_async("it dials again", lambda: len(wire.frames("descriptor")) == 2)
        actors.writes(agent, chat, "we are open")
        await wire.hears("we are open")

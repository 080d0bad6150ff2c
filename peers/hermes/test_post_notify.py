"""Programs notify a stock agent that sleeps or is busy. Each has its own conversation, and no chat shows it."""

from __future__ import annotations

import pytest

from clock_fixture import ON_LOOPBACK
from post_programs import PostAgent, Program, headed, kinds, pong, said
from stock_agent import number
from waiting import until
from web_chat import Page

SETTINGS = ON_LOOPBACK


def test_a_sleeping_agent_is_woken_and_its_words_come_back_with_the_receipt(post_agent: PostAgent) -> None:
    program, sender, text = post_agent.program, post_agent.sender(), f"ping {number()}"
    with Page(post_agent.actors.server, post_agent.agent, "Ann") as page:
        post_agent.sleep()
        shown, pokes = len(post_agent.actors.telegram.rows()), len(post_agent.listener.pokes)
        assert program.status(post_agent.name) == "asleep"

        sent = program.notify(post_agent.name, text, **{"from": sender})
        (way,) = sent["dispatched"]
        assert (way["connector"], way["ok"], way["route"]) == ("relay", True, "deliver")
        assert way["receipt"]["delivery_skipped"] is True, "nobody was there to take it"
        kept = program.receipt(sent)
        assert kept["state"] == "queued" and "delivered_at" not in kept and kept["replies"] == []

        post_agent.listener.wait_poked(pokes + 1)
        told = program.wait_said(sent, pong(text), 90)
        assert told["state"] == "acknowledged"
        assert kinds(told) == [("said", pong(text))]
        times = [told[name] for name in ("sent_at", "accepted_at", "delivered_at", "acknowledged_at")]
        assert times == sorted(times) and told["replies"][0]["at"] >= told["delivered_at"]
        assert told["queue_lag_ms"] == told["delivered_at"] - told["sent_at"] > 0
        changed = {name for name in kept if told[name] != kept[name]}
        assert changed == {"state", "replies"}, "what was told once stays"

        assert post_agent.seen(text) == [headed(text, sender)], "an inbound message, once, with its first line"
        assert len(post_agent.actors.telegram.rows()) == shown, "something of it went to Telegram"
        assert page.answers() == [] and page.history() == [], "something of it is in the page"
    # One id leads from the receipt to the history of the entry.
    story = post_agent.actors.server.trace(way["receipt"]["delivery_id"])
    assert f"post-{sender}" in str(story) and "acknowledged" in str(story)


def test_what_a_frozen_agent_was_handed_is_not_acknowledged(post_agent: PostAgent) -> None:
    program, text = post_agent.program, f"ping {number()}"
    post_agent.settled()
    post_agent.gateway.freeze()
    sent = program.notify(post_agent.name, text, **{"from": post_agent.sender()})
    (way,) = sent["dispatched"]
    assert not way["receipt"].get("delivery_skipped"), "there was a socket to hand it to"
    handed = program.receipt(sent)
    assert handed["state"] in ("queued", "delivered") and "acknowledged_at" not in handed, handed
    post_agent.gateway.thaw()
    taken = program.wait_state(sent, "acknowledged")
    assert taken["accepted_at"] <= taken["delivered_at"] <= taken["acknowledged_at"]
    assert said(program.wait_said(sent, pong(text))) == [pong(text)]


def test_the_first_line_tells_an_instruction_from_context(post_agent: PostAgent) -> None:
    sender, text = post_agent.sender(), f"ping {number()}"
    sent = post_agent.program.notify(post_agent.name, text, kind="template", **{"from": sender})
    post_agent.program.wait_said(sent, pong(text))
    assert post_agent.seen(text) == [headed(text, sender, "template")]


def test_a_notify_repeated_under_its_key_reaches_the_agent_once(post_agent: PostAgent) -> None:
    program, sender, text = post_agent.program, post_agent.sender(), f"ping {number()}"
    key = f"morning-{number()}"
    first = program.notify(post_agent.name, text, key=key, **{"from": sender})
    again = program.notify(post_agent.name, text, key=key, **{"from": sender})
    assert first["dispatch_id"] == again["dispatch_id"] == key
    program.wait_said(first, pong(text))
    # Anything else would have arrived before this.
    last = f"ping {number()}"
    program.wait_said(program.notify(post_agent.name, last, **{"from": sender}), pong(last))
    assert post_agent.seen(text) == [headed(text, sender)]


@pytest.mark.parametrize("command", ["/status", "/stop", "/new", "  /help me"])
def test_a_text_that_would_be_a_command_is_read_and_not_obeyed(post_agent: PostAgent, command: str) -> None:
    program, sender = post_agent.program, post_agent.sender()
    post_agent.model.rule(rf"{command.strip()}$", "I was told so")
    told = program.wait_said(program.notify(post_agent.name, command, **{"from": sender}), "I was told so")
    assert said(told) == ["I was told so"], "the command's own output is not among it"
    woken = program.wake(f"{post_agent.name}@{sender}-2", command)
    assert said(program.wait_said(woken, "I was told so")) == ["I was told so"]
    status, answer = program.ask(post_agent.name, command, timeout=60, **{"from": sender})
    assert (status, answer["content"]) == (200, "I was told so"), answer
    inside = [text for text in post_agent.seen(command.strip()) if sender in text or "posthouse wake" in text]
    assert len(inside) >= 3 and all(text.startswith("[posthouse ") for text in inside), inside


def test_two_senders_have_two_conversations(post_agent: PostAgent) -> None:
    program, senders = post_agent.program, [post_agent.sender(), post_agent.sender()]
    asked = {sender: [number(), number()] for sender in senders}
    for turn in range(2):
        sent = {s: program.notify(post_agent.name, f"ping {asked[s][turn]}", **{"from": s}) for s in senders}
        for sender, one in sent.items():
            told = program.wait_said(one, f"pong {asked[sender][turn]}")
            assert said(told) == [f"pong {asked[sender][turn]}"] and told["session_id"] == sender
    for sender, other in (senders, senders[::-1]):
        (turn,) = post_agent.model.asked(rf"^ping {asked[sender][1]}$")
        history = str(turn.messages)
        assert f"pong {asked[sender][0]}" in history, "the second turn knows of the first"
        assert other not in history and f"ping {asked[other][0]}" not in history, "and of nobody else's"


def test_what_comes_while_it_is_busy_is_kept_and_answered(post_agent: PostAgent) -> None:
    program, sender = post_agent.program, post_agent.sender()
    first, *later = [number() for _ in range(3)]
    post_agent.model.rule(rf"^ping {first}$", hold="busy", times=1)
    held = program.notify(post_agent.name, f"ping {first}", **{"from": sender})
    post_agent.model.wait_asked(rf"^ping {first}$", 60)
    waiting = [program.notify(post_agent.name, f"ping {one}", **{"from": sender}) for one in later]
    # The agent accepts it during other work and sends no notice of its own about it.
    for one in waiting:
        program.wait_state(one, "acknowledged")
    assert not [told for told in map(program.receipt, [held, *waiting]) if told["replies"]]
    post_agent.model.release("busy")
    assert said(program.wait_said(held, f"pong {first}")) == [f"pong {first}"]

    # It may join waiting messages into one turn, and then answers one of them for both.
    def answered() -> list[str]:
        return [line for one in waiting for text in said(program.receipt(one)) for line in text.splitlines()]

    until("both are answered", lambda: set(answered()) >= {f"pong {one}" for one in later}, 60)
    assert sorted(answered()) == sorted(f"pong {one}" for one in later)
    for one in (first, *later):
        assert len(post_agent.seen(f"ping {one}")) == 1


def test_another_agent_writes_in_its_own_name_and_sees_its_own_receipts(post_agent: PostAgent) -> None:
    name = f"wren-{number()}"
    other = Program(post_agent.actors.server, post_agent.actors.server.agent(name, post_agent.agent.tenant, []).printed)
    text = f"ping {number()}"
    sent = other.notify(post_agent.name, text)
    told = other.wait_said(sent, pong(text))
    assert told["session_id"] == name and post_agent.seen(text) == [headed(text, name)]
    assert [one["dispatch_id"] for one in other.receipts()] == [sent["dispatch_id"]]
    assert sent["dispatch_id"] in [one["dispatch_id"] for one in post_agent.program.receipts()]

"""Programs notify a stock agent that sleeps or is busy. Each has its own conversation, and no chat shows it."""

from __future__ import annotations

import pytest

from clock_scene import ON_LOOPBACK
from post_scene import Office, Program, headed, kinds, pong, said
from scene import number
from waiting import until
from web_chat import Page

SETTINGS = ON_LOOPBACK


def test_a_sleeping_agent_is_woken_and_its_words_come_back_with_the_receipt(office: Office) -> None:
    program, sender, text = office.program, office.sender(), f"ping {number()}"
    with Page(office.town.house, office.agent, "Ann") as page:
        office.sleep()
        shown, pokes = len(office.town.telegram.rows()), len(office.listener.pokes)
        assert program.status(office.name) == "asleep"

        sent = program.notify(office.name, text, **{"from": sender})
        (way,) = sent["dispatched"]
        assert (way["connector"], way["ok"], way["route"]) == ("relay", True, "deliver")
        assert way["receipt"]["delivery_skipped"] is True, "nobody was there to take it"
        kept = program.receipt(sent)
        assert kept["state"] == "queued" and "delivered_at" not in kept and kept["replies"] == []

        office.listener.wait_poked(pokes + 1)
        told = program.wait_said(sent, pong(text), 90)
        assert told["state"] == "acknowledged"
        assert kinds(told) == [("said", pong(text))]
        times = [told[name] for name in ("sent_at", "accepted_at", "delivered_at", "acknowledged_at")]
        assert times == sorted(times) and told["replies"][0]["at"] >= told["delivered_at"]
        assert told["queue_lag_ms"] == told["delivered_at"] - told["sent_at"] > 0
        changed = {name for name in kept if told[name] != kept[name]}
        assert changed == {"state", "replies"}, "what was told once stays"

        assert office.seen(text) == [headed(text, sender)], "an inbound message, once, with its first line"
        assert len(office.town.telegram.rows()) == shown, "something of it went to Telegram"
        assert page.answers() == [] and page.history() == [], "something of it is in the page"
    # One id leads from the receipt to the history of the entry.
    story = office.town.house.trace(way["receipt"]["delivery_id"])
    assert f"post-{sender}" in str(story) and "acknowledged" in str(story)


def test_what_a_frozen_agent_was_handed_is_not_acknowledged(office: Office) -> None:
    program, text = office.program, f"ping {number()}"
    office.settled()
    office.gateway.freeze()
    sent = program.notify(office.name, text, **{"from": office.sender()})
    (way,) = sent["dispatched"]
    assert not way["receipt"].get("delivery_skipped"), "there was a socket to hand it to"
    handed = program.receipt(sent)
    assert handed["state"] in ("queued", "delivered") and "acknowledged_at" not in handed, handed
    office.gateway.thaw()
    taken = program.wait_state(sent, "acknowledged")
    assert taken["accepted_at"] <= taken["delivered_at"] <= taken["acknowledged_at"]
    assert said(program.wait_said(sent, pong(text))) == [pong(text)]


def test_the_first_line_tells_an_instruction_from_context(office: Office) -> None:
    sender, text = office.sender(), f"ping {number()}"
    sent = office.program.notify(office.name, text, kind="template", **{"from": sender})
    office.program.wait_said(sent, pong(text))
    assert office.seen(text) == [headed(text, sender, "template")]


def test_a_notify_repeated_under_its_key_reaches_the_agent_once(office: Office) -> None:
    program, sender, text = office.program, office.sender(), f"ping {number()}"
    key = f"morning-{number()}"
    first = program.notify(office.name, text, key=key, **{"from": sender})
    again = program.notify(office.name, text, key=key, **{"from": sender})
    assert first["dispatch_id"] == again["dispatch_id"] == key
    program.wait_said(first, pong(text))
    # Anything else would have arrived before this.
    last = f"ping {number()}"
    program.wait_said(program.notify(office.name, last, **{"from": sender}), pong(last))
    assert office.seen(text) == [headed(text, sender)]


@pytest.mark.parametrize("command", ["/status", "/stop", "/new", "  /help me"])
def test_a_text_that_would_be_a_command_is_read_and_not_obeyed(office: Office, command: str) -> None:
    program, sender = office.program, office.sender()
    office.model.rule(rf"{command.strip()}$", "I was told so")
    told = program.wait_said(program.notify(office.name, command, **{"from": sender}), "I was told so")
    assert said(told) == ["I was told so"], "the command's own output is not among it"
    woken = program.wake(f"{office.name}@{sender}-2", command)
    assert said(program.wait_said(woken, "I was told so")) == ["I was told so"]
    status, answer = program.ask(office.name, command, timeout=60, **{"from": sender})
    assert (status, answer["content"]) == (200, "I was told so"), answer
    inside = [text for text in office.seen(command.strip()) if sender in text or "posthouse wake" in text]
    assert len(inside) >= 3 and all(text.startswith("[posthouse ") for text in inside), inside


def test_two_senders_have_two_conversations(office: Office) -> None:
    program, senders = office.program, [office.sender(), office.sender()]
    asked = {sender: [number(), number()] for sender in senders}
    for turn in range(2):
        sent = {s: program.notify(office.name, f"ping {asked[s][turn]}", **{"from": s}) for s in senders}
        for sender, one in sent.items():
            told = program.wait_said(one, f"pong {asked[sender][turn]}")
            assert said(told) == [f"pong {asked[sender][turn]}"] and told["session_id"] == sender
    for sender, other in (senders, senders[::-1]):
        (turn,) = office.model.asked(rf"^ping {asked[sender][1]}$")
        history = str(turn.messages)
        assert f"pong {asked[sender][0]}" in history, "the second turn knows of the first"
        assert other not in history and f"ping {asked[other][0]}" not in history, "and of nobody else's"


def test_what_comes_while_it_is_busy_is_kept_and_answered(office: Office) -> None:
    program, sender = office.program, office.sender()
    first, *later = [number() for _ in range(3)]
    office.model.rule(rf"^ping {first}$", hold="busy", times=1)
    held = program.notify(office.name, f"ping {first}", **{"from": sender})
    office.model.wait_asked(rf"^ping {first}$", 60)
    waiting = [program.notify(office.name, f"ping {one}", **{"from": sender}) for one in later]
    # The agent accepts it during other work and sends no notice of its own about it.
    for one in waiting:
        program.wait_state(one, "acknowledged")
    assert not [told for told in map(program.receipt, [held, *waiting]) if told["replies"]]
    office.model.release("busy")
    assert said(program.wait_said(held, f"pong {first}")) == [f"pong {first}"]

    # It may join waiting messages into one turn, and then answers one of them for both.
    def answered() -> list[str]:
        return [line for one in waiting for text in said(program.receipt(one)) for line in text.splitlines()]

    until("both are answered", lambda: set(answered()) >= {f"pong {one}" for one in later}, 60)
    assert sorted(answered()) == sorted(f"pong {one}" for one in later)
    for one in (first, *later):
        assert len(office.seen(f"ping {one}")) == 1


def test_another_agent_writes_in_its_own_name_and_sees_its_own_receipts(office: Office) -> None:
    name = f"wren-{number()}"
    other = Program(office.town.house, office.town.house.agent(name, office.agent.tenant, []).papers)
    text = f"ping {number()}"
    sent = other.notify(office.name, text)
    told = other.wait_said(sent, pong(text))
    assert told["session_id"] == name and office.seen(text) == [headed(text, name)]
    assert [one["dispatch_id"] for one in other.receipts()] == [sent["dispatch_id"]]
    assert sent["dispatch_id"] in [one["dispatch_id"] for one in office.program.receipts()]

"""An agent that is on the line and does not take what comes was not woken: one that is frozen, one that has just
dialed in."""

from __future__ import annotations

from clock_scene import ON_LOOPBACK
from post_scene import Office, pong, warnings
from scene import number
from waiting import until

# What is asked here must be asked before the lease and the time to settle are over, on a slow machine too.
SETTINGS = ON_LOOPBACK | {"relay__ack_lease": "20s", "relay__settle": "20s"}


def test_a_frozen_agent_was_not_woken(office: Office) -> None:
    office.settled()
    program, texts = office.program, [f"ping {number()}" for _ in range(2)]
    office.gateway.freeze()
    # The second does not wait long: it is asked for while the first is still within the lease.
    sent = [program.wake(office.name, text, **more | {"from": office.sender()})
            for text, more in zip(texts, ({}, {"wait": 0.2}))]
    for woken in sent:
        assert woken["woken"] is False, woken
    assert "connected and did not take it" in warnings(sent[0]), sent[0]
    assert "queued behind 1" in warnings(sent[1]), sent[1]
    # The lease is over: the house knows that nobody is at home, and still promises nothing.
    office.connected(False)
    third = program.wake(office.name, f"ping {number()}")
    assert third["woken"] is False and "not connected" in warnings(third), third
    office.gateway.thaw()
    for woken, text in zip(sent, texts):
        program.wait_state(woken, "acknowledged", 60)
        told = program.wait_said(woken, pong(text))
        assert told["receipt"]["woken"] is False, "what was told then is not told otherwise later"
    program.wait_state(third, "acknowledged", 60)


def test_an_agent_that_has_just_dialed_in_is_left_to_settle_first(office: Office) -> None:
    office.sleep()
    office.rise()
    program, text = office.program, f"ping {number()}"
    until("it dials in", lambda: program.status(office.name) != "asleep", 60)
    woken = program.wake(office.name, text, wait=0.5)
    assert woken["woken"] is False and "settle" in warnings(woken), woken
    told = program.wait_said(woken, pong(text))
    assert told["state"] == "acknowledged" and len(office.seen(text)) == 1

"""An agent that is connected but does not accept messages was not woken: one that is frozen, and one that has just
connected."""

from __future__ import annotations

from clock_fixture import ON_LOOPBACK
from post_programs import PostAgent, pong, warnings
from stock_agent import number
from stock_version import IS_0_19
from waiting import until

# The requests must be made before the lease and the settling time are over, on a slow machine too.
SETTINGS = ON_LOOPBACK | {"relay__ack_lease": "20s", "relay__settle": "20s"}


def test_a_frozen_agent_was_not_woken(post_agent: PostAgent) -> None:
    post_agent.settled()
    program, texts = post_agent.program, [f"ping {number()}" for _ in range(2)]
    post_agent.gateway.freeze()
    # The second request does not wait long, so that it happens while the first is still within the lease.
    sent = [program.wake(post_agent.name, text, **more | {"from": post_agent.sender()})
            for text, more in zip(texts, ({}, {"wait": 0.2}))]
    for woken in sent:
        assert woken["woken"] is False, woken
    assert "connected and did not accept it" in warnings(sent[0]), sent[0]
    assert "queued behind 1" in warnings(sent[1]), sent[1]
    # The lease is over. The server knows that the agent does not respond, and still reports no wake.
    post_agent.connected(False)
    third = program.wake(post_agent.name, f"ping {number()}")
    assert third["woken"] is False and "not connected" in warnings(third), third
    post_agent.gateway.thaw()
    for place, (woken, text) in enumerate(zip(sent, texts)):
        told = program.wait_state(woken, "acknowledged", 60)
        # 0.20 drops the entry in flight when it is repeated, and loses what it sends before it has reconnected.
        if IS_0_19 or place > 0:
            told = program.wait_said(woken, pong(text))
        assert told["receipt"]["woken"] is False, "what was told then is not told otherwise later"
    program.wait_state(third, "acknowledged", 60)


def test_an_agent_that_has_just_dialed_in_is_left_to_settle_first(post_agent: PostAgent) -> None:
    post_agent.sleep()
    post_agent.rise()
    program, text = post_agent.program, f"ping {number()}"
    until("it dials in", lambda: program.status(post_agent.name) != "asleep", 60)
    woken = program.wake(post_agent.name, text, wait=0.5)
    assert woken["woken"] is False and "settle" in warnings(woken), woken
    told = program.wait_said(woken, pong(text))
    assert told["state"] == "acknowledged" and len(post_agent.seen(text)) == 1

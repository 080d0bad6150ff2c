"""`woken` is true only after the stock agent has accepted the wake."""

from __future__ import annotations

from clock_fixture import ON_LOOPBACK
from post_programs import PostAgent, headed, pong, said, warnings
from stock_agent import number
from waiting import until

# The agent goes to sleep more often here than in a day of normal use.
SETTINGS = ON_LOOPBACK | {"relay__wake_cooldown": "3s"}
# The longest wait of a call. The test checks who accepts the wake, not how fast.
WAIT_S = 60


def test_a_connected_agent_that_takes_it_was_woken(post_agent: PostAgent) -> None:
    post_agent.settled()
    text, sender = f"ping {number()}", post_agent.sender()
    woken = post_agent.program.wake(post_agent.name, text, wait=WAIT_S, **{"from": sender})
    assert woken["woken"] is True and not warnings(woken), woken
    told = post_agent.program.wait_said(woken, pong(text))
    assert told["state"] == "acknowledged" and told["route"] == "wake"
    assert told["receipt"]["woken"] is True
    assert post_agent.seen(text) == [headed(text, sender, "wake")]


def test_a_busy_agent_that_takes_it_was_woken(post_agent: PostAgent) -> None:
    post_agent.settled()
    text, sender = f"ping {number()}", post_agent.sender()
    post_agent.model.rule(rf"^{text}$", hold="busy", times=1)
    first = post_agent.program.wake(post_agent.name, text, wait=WAIT_S, **{"from": sender})
    post_agent.model.wait_asked(rf"^{text}$")
    second = post_agent.program.wake(post_agent.name, f"ping {number()}", wait=WAIT_S, **{"from": sender})
    assert first["woken"] is True and second["woken"] is True
    post_agent.model.release("busy")
    until("both are answered", lambda: all(said(post_agent.program.receipt(one)) for one in (first, second)), 120)


def test_a_sleeping_agent_is_called_and_was_not_woken_yet(post_agent: PostAgent) -> None:
    post_agent.sleep()
    program, text, pokes = post_agent.program, f"ping {number()}", len(post_agent.listener.pokes)
    woken = program.wake(post_agent.name, text)
    assert woken["woken"] is False and "wake URL" in warnings(woken), woken
    post_agent.listener.wait_poked(pokes + 1)
    told = program.wait_said(woken, pong(text), 90)
    assert told["state"] == "acknowledged" and told["receipt"]["woken"] is False


def test_a_sleeping_agent_was_woken_when_the_caller_waits_for_it(post_agent: PostAgent) -> None:
    post_agent.sleep()
    program, text, pokes = post_agent.program, f"ping {number()}", len(post_agent.listener.pokes)
    woken = program.wake(post_agent.name, text, wait=WAIT_S)
    assert woken["woken"] is True and len(post_agent.listener.pokes) > pokes, woken
    told = program.wait_said(woken, pong(text))
    assert told["acknowledged_at"] <= woken["woken_at"] + 1


def test_nobody_calls_an_agent_without_a_wake_url(post_agent: PostAgent) -> None:
    away = post_agent.actors.agent()
    program = post_agent.actors.program(away.tenant)
    assert program.status(away.name) == "unknown"
    woken = program.wake(away.name, "ping nobody")
    assert woken["woken"] is False and "has no wake URL" in warnings(woken), woken
    assert program.receipt(woken)["state"] == "queued"


def test_a_session_in_the_address_is_a_conversation(post_agent: PostAgent) -> None:
    post_agent.settled()
    program, session = post_agent.program, f"kitchen-{number()}"
    numbers = [number() for _ in range(3)]
    # By the suffix, by the field that takes precedence over it, and by a notify, which wakes if it names a session.
    first = program.wake(f"{post_agent.name}@{session}", f"ping {numbers[0]}", wait=WAIT_S, **{"from": "cook"})
    program.wait_said(first, f"pong {numbers[0]}")
    second = program.wake(
        f"{post_agent.name}@elsewhere", f"ping {numbers[1]}", session_id=session, wait=WAIT_S, **{"from": "waiter"})
    program.wait_said(second, f"pong {numbers[1]}")
    third = program.notify(f"{post_agent.name}@{session}", f"ping {numbers[2]}", wait=WAIT_S, **{"from": "cook"})
    program.wait_said(third, f"pong {numbers[2]}")
    assert third["dispatched"][0]["route"] == "wake"
    assert first["woken"] is second["woken"] is third["dispatched"][0]["receipt"]["woken"] is True
    for sent in (first, second, third):
        told = program.receipt(sent)
        assert told["session_id"] == session
        assert f"post-{session}" in str(post_agent.actors.server.trace(sent["dispatch_id"]))
    # For the agent it is one conversation as well, under the chat's own name.
    (turn,) = post_agent.model.asked(rf"^ping {numbers[2]}$")
    assert all(f"ping {one}" in str(turn.messages) for one in numbers)
    assert f"post-{session}" in (post_agent.gateway.home / "sessions" / "sessions.json").read_text()

"""Programs ask a stock agent: only the answer is returned, in time or not at all, across kills of the server."""

from __future__ import annotations

import threading
from http.client import HTTPException
from typing import Any

from clock_fixture import ON_LOOPBACK
from post_programs import PostAgent, kinds, pong
from stock_agent import AFTER_A_DEATH_S, number
from stock_version import IS_0_19
from waiting import until

SETTINGS = ON_LOOPBACK
# An agent without any chat platform: only programs write to it.
BOTS = 0
# An agent that was configured by hand, so it begins every conversation with a notice of its own.
WITHOUT = ("RELAY_HOME_CHANNEL",)
NOTICE = "No home channel is set"
# Log line of an agent that could not send something, not even the notice. 0.20 fails at once what it sends without a
# socket.
GONE = "Failed to send error notification to user" if IS_0_19 else "Fallback send also failed"
TODO = {"todos": [{"id": "1", "content": "look", "status": "completed"}]}


def receipt_of(post_agent: PostAgent, correlation: str) -> dict[str, Any]:
    return post_agent.program.receipt(post_agent.program.question(correlation))


def answered(post_agent: PostAgent, correlation: str) -> dict[str, Any]:
    """The receipt, once the question is acknowledged and the answer is among its replies. These are separate commits,
    and the caller may get the answer a moment earlier."""
    def look() -> dict[str, Any] | None:
        found = receipt_of(post_agent, correlation)
        is_kept = "answer" in [kind for kind, _ in kinds(found)]
        return found if is_kept and found["state"] == "acknowledged" else None

    return until(f"the answer to {correlation} is kept", look)


def test_the_answer_is_told_from_the_notice_and_the_talk_before_it(post_agent: PostAgent) -> None:
    id, question = f"q-{number()}", f"how much is {number()}?"
    post_agent.model.rule(r"^how much is", "42, all told", tool="todo", arguments=TODO, talk="let me look first")
    status, answer = post_agent.program.ask(post_agent.name, question, correlation_id=id, timeout=60)
    assert status == 200, answer
    assert answer["content"] == "42, all told" and answer["agent_id"] == post_agent.name
    assert answer["correlation_id"] == id and answer["sent_at"] > 0 and "data" not in answer
    told = answered(post_agent, id)
    assert told["route"] == "exchange" and told["state"] == "acknowledged" and told["session_id"] == f"x-{id}"
    *before, last = kinds(told)
    assert last == ("answer", "42, all told"), told["replies"]
    assert ("said", "let me look first") in before and all(kind == "said" for kind, _ in before)
    assert any(NOTICE in text for _, text in before), "the notice came, and was not taken for the answer"


def test_a_sleeping_agent_is_woken_to_answer(post_agent: PostAgent) -> None:
    post_agent.sleep()
    text, pokes = f"ping {number()}", len(post_agent.listener.pokes)
    # Longer than a cold start of the gateway takes on a busy machine.
    id = f"q-{number()}"
    status, answer = post_agent.program.ask(post_agent.name, text, correlation_id=id, timeout=240, wait=60)
    while status == 202:
        status, answer = post_agent.program.attach(id, wait=60)
    assert (status, answer["content"]) == (200, pong(text)), answer
    assert len(post_agent.listener.pokes) > pokes


def test_a_long_answer_is_whole(post_agent: PostAgent) -> None:
    # Longer than any platform accepts in one message, and than the limit that agents are told.
    long = "".join(f"line {n} of a long report\n" for n in range(3000)) + "the end"
    post_agent.model.rule(r"^report$", long)
    status, answer = post_agent.program.ask(post_agent.name, "report", timeout=60)
    assert status == 200 and answer["content"] == long, f"{status}, {len(answer['content'])} of {len(long)}"


def test_an_answer_that_is_json_is_given_as_data_too(post_agent: PostAgent) -> None:
    post_agent.model.rule(r"^as json$", '{"price": 3}')
    status, answer = post_agent.program.ask(post_agent.name, "as json", timeout=60)
    assert (status, answer["data"]) == (200, {"price": 3}), answer


def test_every_question_is_a_conversation_of_its_own(post_agent: PostAgent) -> None:
    numbers = [number() for _ in range(4)]
    answers: dict[str, tuple[int, Any]] = {}

    def ask(one: str) -> None:
        answers[one] = post_agent.program.ask(post_agent.name, f"ping {one}", timeout=60)

    askers = [threading.Thread(target=ask, args=(one,), daemon=True) for one in numbers]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(AFTER_A_DEATH_S)
    assert {one: (status, answer["content"]) for one, (status, answer) in answers.items()} == {
        one: (200, f"pong {one}") for one in numbers}
    for one in numbers:
        (turn,) = post_agent.model.asked(rf"^ping {one}$")
        assert not [other for other in numbers if other != one and f"ping {other}" in str(turn.messages)]


def test_a_question_put_twice_is_one_question(post_agent: PostAgent) -> None:
    id, text = f"q-{number()}", f"ping {number()}"
    first = post_agent.program.ask(post_agent.name, text, correlation_id=id, timeout=60)
    again = post_agent.program.ask(post_agent.name, text, correlation_id=id, timeout=60)
    assert first == again and first[1]["content"] == pong(text)
    status, refused = post_agent.program.ask(post_agent.name, "another", correlation_id=id)
    assert (status, refused["code"]) == (409, "correlation_in_use")
    assert len(post_agent.seen(text)) == 1


def test_a_question_ends_in_time_and_a_late_answer_answers_nothing_else(post_agent: PostAgent) -> None:
    program = post_agent.program
    late, later = f"q-{number()}", f"q-{number()}"
    post_agent.model.rule(r"^the slow one$", "too late", hold="slow", times=1)
    # Long enough for a slow machine: a question that has ended is not given to the agent any more.
    program.ask(post_agent.name, "the slow one", correlation_id=late, timeout=20, wait=0)
    post_agent.model.wait_asked(r"^the slow one$")
    status, timed_out = program.attach(late, wait=60)
    assert (status, timed_out["code"]) == (504, "timeout"), timed_out
    assert program.question(late)["state"] == "timed_out"

    # A later question is open when the late answer arrives.
    post_agent.model.rule(r"^the next one$", "in time", hold="next", times=1)
    status, open_ = program.ask(post_agent.name, "the next one", correlation_id=later, timeout=90, wait=0)
    assert (status, open_["correlation_id"]) == (202, later) and open_["deadline"] > 0
    post_agent.model.wait_asked(r"^the next one$")
    post_agent.model.release("slow")
    until("the late answer is kept", lambda: ("late_reply", "too late") in kinds(receipt_of(post_agent, late)), 120)
    assert program.attach(later)[0] == 202, "the late answer was taken for another question's"
    post_agent.model.release("next")
    status, answer = program.attach(later, wait=60)
    assert (status, answer["content"]) == (200, "in time"), answer
    assert "too late" not in str(answered(post_agent, later))
    status, still = program.attach(late)
    assert (status, still["code"]) == (504, "timeout"), "a timeout stays one"


def test_a_farewell_is_not_the_answer(post_agent: PostAgent) -> None:
    id, text = f"q-{number()}", f"ping {number()}"
    post_agent.model.rule(rf"^{text}$", tool="todo", arguments=TODO, talk="let me look", hold="told to stop", times=1)
    post_agent.program.ask(post_agent.name, text, correlation_id=id, timeout=120, wait=0)
    # The gateway registers a turn some time after the turn began, and says goodbye to registered turns only. When it
    # has sent what the agent said beside a tool call, it has also registered the turn.
    until("it talks", lambda: ("said", "let me look") in kinds(receipt_of(post_agent, id)), 120)
    post_agent.model.wait_asked(rf"^{text}$", 60, times=2)
    stopping = threading.Thread(target=post_agent.gateway.stop, args=(60,), daemon=True)
    stopping.start()
    farewell = until("it says that it stops", lambda: [
        kind for kind, said in kinds(receipt_of(post_agent, id)) if "shutting down" in said], 120)
    assert farewell == ["said"] and post_agent.program.attach(id)[0] == 202
    post_agent.model.release("told to stop")
    stopping.join(70)
    assert not post_agent.gateway.running()


def test_a_question_outlives_the_server(post_agent: PostAgent) -> None:
    program, id, text = post_agent.program, f"q-{number()}", f"ping {number()}"
    post_agent.model.rule(rf"^{text}$", hold="the server is back", times=1)
    cut_off: list[bool] = []

    def ask() -> None:
        try:
            program.ask(post_agent.name, text, correlation_id=id, timeout=120, wait=60)
        except (OSError, HTTPException):
            cut_off.append(True)

    asker = threading.Thread(target=ask, daemon=True)
    asker.start()
    post_agent.model.wait_asked(rf"^{text}$", 60)
    # Otherwise the server would deliver it again after its restart, and the agent would be asked twice.
    until("the agent has taken it", lambda: receipt_of(post_agent, id)["state"] == "acknowledged")
    post_agent.actors.server.kill_and_serve()
    asker.join(30)
    assert cut_off, "the caller did not notice that the server died"
    assert program.attach(id)[0] == 202, "the question is still open"
    post_agent.connected()
    post_agent.model.release("the server is back")
    status, answer = program.attach(id, wait=60)
    assert (status, answer["content"]) == (200, pong(text)), answer
    # A program that does not use attach repeats the question and gets the same answer.
    assert program.ask(post_agent.name, text, correlation_id=id) == (200, answer)
    assert kinds(answered(post_agent, id))[-1] == ("answer", pong(text))
    assert len(post_agent.seen(text)) == 1


def test_an_answer_said_into_a_dead_server_is_the_timeout_that_it_is(post_agent: PostAgent) -> None:
    program, id, text = post_agent.program, f"q-{number()}", f"ping {number()}"
    post_agent.model.rule(rf"^{text}$", hold="nobody listens", times=1)
    gone = post_agent.gateway.log().count(GONE)
    status, _ = program.ask(post_agent.name, text, correlation_id=id, timeout=30, wait=0)
    assert status == 202
    post_agent.model.wait_asked(rf"^{text}$", 60)
    until("the agent has taken it", lambda: receipt_of(post_agent, id)["state"] == "acknowledged")
    post_agent.actors.server.kill()
    post_agent.model.release("nobody listens")
    until("its answer is gone", lambda: post_agent.gateway.log().count(GONE) > gone, 40)
    post_agent.actors.server.serve()
    post_agent.connected()
    status, ended = program.attach(id, wait=60)
    assert (status, ended.get("code")) == (504, "timeout"), ended
    assert all(kind == "said" for kind, _ in kinds(receipt_of(post_agent, id)))

"""A stock agent that streams its answers: programs get them complete, people get them at once and without a
cursor."""

from __future__ import annotations

from typing import Any

from clock_fixture import ON_LOOPBACK
from post_programs import PostAgent, kinds, said
from stock_agent import number
from stock_version import IS_0_19
from waiting import until
from web_chat import Page

SETTINGS = ON_LOOPBACK
# It shows its text early, so that something is visible before an answer is complete.
CONFIG = {"streaming": {"enabled": True, "edit_interval": 0.3, "buffer_threshold": 8}}
CURSOR = "▉"
BEGINNING = "word0 word1 word2 word3"
WHOLE = BEGINNING + " word4 word5 word6 word7 word8 word9"


def counts(post_agent: PostAgent, after: str = BEGINNING) -> tuple[str, str]:
    """A question whose answer is written up to this point, and the name under which the rest is released."""
    question = f"count for {number()}"
    post_agent.model.rule(rf"^{question}$", WHOLE, pause=(len(after), question), times=1)
    return question, question


def begun(post_agent: PostAgent, correlation: str) -> list[tuple[str, str]]:
    """The stored part of the answer, once its beginning is stored."""
    def look() -> list[tuple[str, str]] | None:
        kept = kinds(post_agent.program.receipt(post_agent.program.question(correlation)))
        return kept if BEGINNING in str(kept) else None

    return until("the beginning of the answer is kept", look, 60)


def test_a_question_is_answered_with_the_whole_of_a_streamed_answer(post_agent: PostAgent) -> None:
    for _ in range(3):
        (question, rest), id = counts(post_agent), f"q-{number()}"
        status, answer = post_agent.program.ask(post_agent.name, question, correlation_id=id, timeout=60, wait=0)
        assert status == 202, answer
        assert begun(post_agent, id)[-1] == ("said", BEGINNING)
        assert post_agent.program.attach(id)[0] == 202, "its beginning was taken for the answer"
        post_agent.model.release(rest)
        status, answer = post_agent.program.attach(id, wait=60)
        assert (status, answer["content"]) == (200, WHOLE), answer
        told = post_agent.program.receipt(post_agent.program.question(id))
        assert kinds(told)[-1] == ("answer", WHOLE) and CURSOR not in str(told)


def test_an_answer_that_was_shown_whole_is_the_answer(post_agent: PostAgent) -> None:
    (question, rest), id = counts(post_agent, WHOLE), f"q-{number()}"
    post_agent.program.ask(post_agent.name, question, correlation_id=id, timeout=30, wait=0)
    begun(post_agent, id)
    post_agent.model.release(rest)
    # 0.19.0 sends nothing more: what it has shown counts as its answer when the time is up.
    status, answer = post_agent.program.attach(id, wait=60)
    assert (status, answer["content"]) == (200, WHOLE), answer


def test_what_is_said_to_a_message_is_one_thing_without_a_cursor(post_agent: PostAgent) -> None:
    program, sender = post_agent.program, post_agent.sender()
    question, rest = counts(post_agent)
    sent = program.notify(post_agent.name, question, **{"from": sender})
    until("its beginning is kept", lambda: BEGINNING in said(program.receipt(sent)), 60)
    post_agent.model.release(rest)
    assert said(program.wait_said(sent, WHOLE)) == [WHOLE]


def shown(post_agent: PostAgent, chat: int) -> list[str]:
    """The current texts in a Telegram chat, with every message as it was last edited."""
    rows: dict[Any, str] = {}
    for row in post_agent.actors.telegram.rows(chat=chat):
        if row["kind"] in ("sent", "edited"):
            assert CURSOR not in (row["text"] or ""), row
            rows[row["message_id"]] = row["text"]
    return list(rows.values())


def drafts(post_agent: PostAgent, chat: int) -> list[str]:
    """The previews that were shown in a Telegram chat."""
    texts = [row["text"] for row in post_agent.actors.telegram.rows(chat=chat) if row["kind"] == "draft"]
    assert not any(CURSOR in text for text in texts), texts
    return texts


def test_on_telegram_it_is_seen_at_once_and_without_a_cursor(post_agent: PostAgent) -> None:
    chat = post_agent.chat()
    chat.wait_answered(chat.ping())
    before = len(shown(post_agent, chat.id))
    question, rest = counts(post_agent)
    post_agent.actors.writes(post_agent.agent, chat.id, question)
    if IS_0_19:
        # It streams only on platforms that it does not know by name.
        post_agent.model.wait_asked(rf"^{question}$", 60)
    else:
        until("a draft of its beginning", lambda: any(BEGINNING in text for text in drafts(post_agent, chat.id)), 60)
    post_agent.model.release(rest)
    until("all of it", lambda: shown(post_agent, chat.id)[before:] == [WHOLE], 120)


# 0.19.0 cannot edit over the relay, and sends the rest as another message.
IN_PIECES = [BEGINNING, WHOLE.removeprefix(BEGINNING).lstrip()]


def test_on_the_page_it_is_seen_at_once_and_without_a_cursor(post_agent: PostAgent) -> None:
    with Page(post_agent.actors.server, post_agent.agent, "Ann") as page:
        question, rest = counts(post_agent)
        page.say(question)
        page.sees(BEGINNING, 60)
        post_agent.model.release(rest)
        expected = IN_PIECES if IS_0_19 else [WHOLE]
        until("all of it", lambda: page.answers() == expected, 120)
        assert CURSOR not in str(page.history())

"""Commands that a person types during a turn of the whole stock gateway, with a server in its default
configuration."""

from __future__ import annotations

import time

from stock_agent import Chat, StockAgent
from stock_version import only_0_19, only_0_20
from waiting import until

# The lease is the default one. Stock answers such a command inside its reader, so it cannot read the result of that
# send meanwhile. It acknowledges the command only after it has given up on the result, after 30 s.
STOPPED = "Stopped"
AFTER_THE_NOTICE_S = 60.0
# Below the 30 s for which a command that is delivered as text stalls the agent. On a quiet machine it takes one second,
# and a slow one may take much longer.
AT_ONCE_S = 29.0


def works(stock_agent: StockAgent, chat: Chat) -> str:
    """Starts a turn of this chat that does not end, and returns its number."""
    stock_agent.model.rule(r"^ping \d+$", hold="for ever", times=1)
    (asked,) = chat.ping()
    stock_agent.model.wait_asked(rf"^ping {asked}$")
    return asked


@only_0_19
def test_a_stop_typed_during_a_turn_ends_it_and_loses_nobodys_message(stock_agent: StockAgent) -> None:
    chat, other = stock_agent.chat(), stock_agent.chat()
    chat.wait_answered(chat.ping())
    dialed = stock_agent.actors.server.log().count("an agent has connected")
    stopped = works(stock_agent, chat)
    stock_agent.actors.writes(stock_agent.agent, chat.id, "/stop")
    stock_agent.actors.telegram.said(chat.id, STOPPED)
    assert stopped not in chat.answered()
    other.wait_answered(other.ping(3), AFTER_THE_NOTICE_S)
    other.account().exactly_once()
    chat.wait_answered(chat.ping(), AFTER_THE_NOTICE_S)
    assert sum(STOPPED in text for text in stock_agent.actors.telegram.sent(chat.id)) == 1
    # All on one socket: the server did not take its silence for a lost connection.
    assert stock_agent.actors.server.log().count("an agent has connected") == dialed


@only_0_20
def test_a_stop_typed_during_a_turn_ends_it_and_another_chat_is_answered_at_once(stock_agent: StockAgent) -> None:
    chat, other, working = stock_agent.chat(), stock_agent.chat(), stock_agent.chat()
    for one in (chat, other, working):
        one.wait_answered(one.ping())
    stock_agent.model.rule(r"^ping \d+$", hold="goes on", times=1)
    sibling = working.ping()
    stock_agent.model.wait_asked(rf"^ping {sibling[0]}$")
    stopped = works(stock_agent, chat)
    until("it shows that it types", lambda: any(
        row["kind"] == "action" for row in stock_agent.actors.telegram.rows(chat=chat.id)[-2:]), 120)
    stock_agent.actors.writes(stock_agent.agent, chat.id, "/stop")
    begun = time.monotonic()
    other.wait_answered(other.ping(), AFTER_THE_NOTICE_S)
    took = time.monotonic() - begun
    print(f"another chat was answered {took:.1f} s after the stop")
    assert took < AT_ONCE_S, f"another chat waited for {took} s"
    stock_agent.actors.telegram.said(chat.id, STOPPED)
    # The turn of a third chat is not affected and goes on.
    stock_agent.model.release("goes on")
    working.wait_answered(sibling)
    assert stopped not in chat.answered()
    # Stock resumes a stopped question together with the next one.
    chat.wait_answered(chat.ping())
    assert sum(STOPPED in text for text in stock_agent.actors.telegram.sent(chat.id)) == 1

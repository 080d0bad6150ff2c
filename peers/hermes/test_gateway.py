"""The whole stock gateway process, talking on Telegram and on the chat page through the server.

One gateway serves every test here. What a test stops, kills or freezes is running again for the next one. Messages
are numbered and accounted for by number (`account.py`), because a stock gateway joins what arrives during a turn into
one next turn.
"""

from __future__ import annotations

import threading
import time

from stock_agent import AFTER_A_DEATH_S, Chat, StockAgent, number
from stock_version import IS_0_19
from telegram_stand_in import TOKEN_SECRET
from waiting import until
from web_chat import Page

# Short enough that a freeze outlasts it, long enough for a gateway that is only busy importing.
SETTINGS = {"relay__ack_lease": "15s"}


def test_it_holds_a_conversation(stock_agent: StockAgent) -> None:
    chat = stock_agent.chat()
    for _ in range(3):
        chat.wait_answered(chat.ping())
    chat.account().exactly_once()
    # One conversation: the third turn knew the first.
    assert f"ping {chat.written[0]}" in str(stock_agent.model.asked(rf"^ping {chat.written[2]}$")[-1].messages)


def test_a_turn_with_a_tool_call_is_answered_once(stock_agent: StockAgent) -> None:
    chat = stock_agent.chat()
    todo = {"todos": [{"id": "1", "content": "look", "status": "completed"}]}
    stock_agent.model.rule(r"^look around$", "seen it", tool="todo", arguments=todo)
    stock_agent.actors.writes(stock_agent.agent, chat.id, "look around")
    stock_agent.actors.telegram.said(chat.id, "seen it")
    assert [text for text in stock_agent.actors.telegram.sent(chat.id) if "seen" in text] == ["seen it"]


def test_ten_messages_are_answered_in_order(stock_agent: StockAgent) -> None:
    chat = stock_agent.chat()
    chat.wait_answered(chat.ping(10))
    chat.account().exactly_once()


def test_a_long_turn_in_one_chat_holds_up_no_other(stock_agent: StockAgent) -> None:
    slow, quick = stock_agent.chat(), stock_agent.chat()
    stock_agent.model.rule(r"^ping \d+$", hold="slow", times=1)
    first = slow.ping()
    stock_agent.model.wait_asked(rf"^ping {first[0]}$")
    quick.wait_answered(quick.ping(3))
    assert not slow.answered()
    stock_agent.model.release("slow")
    slow.wait_answered(first)
    slow.account().exactly_once()
    quick.account().exactly_once()


def test_what_comes_while_the_agent_is_stopped_is_kept(stock_agent: StockAgent) -> None:
    chat = stock_agent.chat()
    chat.wait_answered(chat.ping())
    stock_agent.gateway.stop()
    stock_agent.connected(False)
    kept = chat.ping(5)
    assert stock_agent.unread() == 5
    stock_agent.gateway.start()
    chat.wait_answered(kept)
    chat.account().exactly_once()
    until("nothing unread", lambda: stock_agent.unread() == 0)


def test_what_comes_after_the_agent_was_killed_is_kept(stock_agent: StockAgent) -> None:
    chat = stock_agent.chat()
    chat.wait_answered(chat.ping())
    stock_agent.gateway.kill()
    kept = chat.ping(5)
    stock_agent.connected(False)
    stock_agent.gateway.start()
    chat.wait_answered(kept)
    chat.account().exactly_once()


def test_an_agent_killed_in_the_middle_of_a_turn_loses_nothing_else(stock_agent: StockAgent) -> None:
    chat, other = stock_agent.chat(), stock_agent.chat()
    chat.wait_answered(chat.ping())
    stock_agent.model.rule(r"^ping \d+$", hold="cut off", times=1)
    (cut,) = chat.ping()
    stock_agent.model.wait_asked(rf"^ping {cut}$")
    until("the turn's message is acknowledged", lambda: stock_agent.unread() == 0)
    stock_agent.gateway.kill()
    stock_agent.model.forget_rules()
    kept, elsewhere = chat.ping(3), other.ping(2)
    stock_agent.gateway.start()
    chat.wait_answered(kept)
    other.wait_answered(elsewhere)
    other.account().exactly_once()
    # The message that it was working on may be lost or resumed: that depends on the agent's history.
    answered = chat.answered()
    assert answered.count(cut) <= 1
    assert [n for n in answered if n != cut] == [n for n in chat.written if n != cut]


def test_a_frozen_agent_is_not_counted_as_served(stock_agent: StockAgent) -> None:
    chat = stock_agent.chat()
    chat.wait_answered(chat.ping())
    stock_agent.gateway.freeze()
    kept = chat.ping(4)
    # The machine still answers TCP. Only silence beyond the lease shows that the process is frozen.
    stock_agent.connected(False)
    assert stock_agent.unread() == 4
    stock_agent.gateway.thaw()
    chat.wait_answered(kept if IS_0_19 else kept[1:])
    until("nothing unread", lambda: stock_agent.unread() == 0)
    account = chat.account()
    account.every_message_became_a_turn_in_order()
    assert not account.answered_too_often()
    if IS_0_19:
        assert account.repeated() in ([], kept[:1]), "more than the entry in flight was repeated"
        assert not account.unanswered()
    else:
        # It drops the repeated entry, and everything that it sends before it has reconnected fails. So the answer to
        # the entry in flight may be lost, like any answer that ends while the socket is down.
        assert not account.repeated()
        assert account.unanswered() in ([], kept[:1])


def test_a_freeze_shorter_than_the_lease_repeats_nothing(stock_agent: StockAgent) -> None:
    chat = stock_agent.chat()
    chat.wait_answered(chat.ping())
    stock_agent.gateway.freeze()
    kept = chat.ping(2)
    stock_agent.gateway.thaw()
    chat.wait_answered(kept)
    chat.account().exactly_once()


def test_a_server_killed_under_load_loses_nothing_it_has_taken(stock_agent: StockAgent) -> None:
    chats = [stock_agent.chat() for _ in range(5)]
    for chat in chats:
        chat.wait_answered(chat.ping())
    kills, each = 5, 20
    down: list[tuple[float, float]] = []

    def converse(chat: Chat, at_once: int) -> None:
        for _ in range(each // at_once):
            last = [chat.inject() for _ in range(at_once)][-1]
            stock_agent.model.wait_asked(rf"^ping {last}$", AFTER_A_DEATH_S)

    # People keep writing while the server is killed and restarted, one of them in bursts. The platform retries
    # meanwhile.
    paces = [5, 1, 1, 1, 1]
    writers = [threading.Thread(target=converse, args=pair, daemon=True) for pair in zip(chats, paces)]
    for writer in writers:
        writer.start()
    for _ in range(kills):
        turns = len(stock_agent.model.turns)
        until("the agent is at work", lambda: len(stock_agent.model.turns) >= turns + 6, AFTER_A_DEATH_S, 0.002)
        killed = time.monotonic()
        stock_agent.actors.server.kill_and_serve()
        stock_agent.connected()
        down.append((killed, time.monotonic()))
    for writer in writers:
        writer.join(AFTER_A_DEATH_S)
        assert not writer.is_alive(), "somebody's message never became a turn"
    last = [chat.inject() for chat in chats]
    written = {update for chat in chats for update in chat.updates}
    until("every update is taken", lambda: written <= stock_agent.actors.telegram.confirmed(), 60, 0.2)
    until("nothing unread", lambda: stock_agent.unread() == 0, AFTER_A_DEATH_S, 0.2)
    for chat, awaited in zip(chats, last):
        chat.wait_answered([awaited], AFTER_A_DEATH_S)
    accounts = [chat.account() for chat in chats]
    for account in accounts:
        account.every_message_became_a_turn_in_order()
        account.answers_stand_in_order()
        assert not account.answered_too_often()
        # While the server is down nothing new reaches the agent. It can only lose the answer of the turn that is
        # running then, and of the one that it joined from what arrived meanwhile.
        swallowed = account.swallowed(down)
        assert all(swallowed.count(window) <= 2 for window in down), swallowed
    repeated = [again for account in accounts for again in account.repeated()]
    lost = [len(account.swallowed(down)) for account in accounts]
    print(f"{kills} kills, {len(written)} messages: repeated {repeated}, turns whose answer was swallowed {lost}")
    assert len(repeated) <= kills, f"{kills} kills repeated {repeated}"


def test_in_the_page_its_untagged_answers_reach_the_page_and_not_telegram(stock_agent: StockAgent) -> None:
    chat = stock_agent.chat()
    chat.wait_answered(chat.ping())
    telegram, numbers = stock_agent.actors.telegram, [number() for _ in range(3)]
    before = telegram.sent(chat.id)
    server, agent = stock_agent.actors.server, stock_agent.agent
    with Page(server, agent, "Ann") as page, Page(server, agent, "Bea") as other:
        for one in numbers:
            page.say(f"ping {one}")
            page.sees(f"pong {one}")
        # The whole page, not only the numbers, because a stock agent may add notices of its own.
        assert page.answers() == [f"pong {one}" for one in numbers]
        assert page.history() == page.answers() and not other.answers()
        # Typing signs of the turn before, and answers to chats of other tests, may still come.
        assert telegram.sent(chat.id) == before, "something of the page went to Telegram"
        assert not [row for row in telegram.rows() if any(one in (row.get("text") or "") for one in numbers)]
        # Telegram's answers still go to Telegram.
        chat.wait_answered(chat.ping())
        chat.account().exactly_once()
        assert len(page.answers()) == len(numbers)


def test_a_revoked_gateway_goes_quiet(stock_agent: StockAgent) -> None:
    """Close to last, because this agent does not come back."""
    stock_agent.actors.server.revoke(stock_agent.agent)
    until("it knows", lambda: "treating as a revoked relay credential" in stock_agent.gateway.log())
    stock_agent.connected(False)
    until("it latched", lambda: "marking the relay adapter disabled" in stock_agent.gateway.log())


def test_the_agent_never_saw_a_bot_token(shared_stock_agent: StockAgent) -> None:
    seen = shared_stock_agent.gateway.log() + "".join(str(turn.messages) for turn in shared_stock_agent.model.turns)
    assert TOKEN_SECRET not in seen

"""Groups, forum topics and replies, as the whole stock gateway sees and answers them."""

from __future__ import annotations

from typing import Any

from stock_agent import StockAgent, number
from stock_version import IS_0_19
from waiting import until

ANN = {"id": 1001, "is_bot": False, "first_name": "Ann"}
BEA = {"id": 1002, "is_bot": False, "first_name": "Bea"}


class Group:
    """A group with the agent's bot in it. Its members write by name; the bot gets what is addressed to it."""

    def __init__(self, stock_agent: StockAgent) -> None:
        self._stock_agent, self._telegram = stock_agent, stock_agent.actors.telegram
        self.id = -1_000_000_000_000 - stock_agent.actors.chat()
        self._bot = stock_agent.actors.bots[stock_agent.agent.instance_id]

    def writes(self, person: dict[str, Any], text: str, **more: Any) -> int:
        """Returns the message's id after the server has accepted it."""
        sent = self._telegram.inject(self._bot, self.id, text, **{"from": person} | more)
        until("the update is taken", lambda: sent["update_id"] in self._telegram.confirmed(), 120)
        return sent["message_id"]

    def mentions(self, person: dict[str, Any], text: str, **more: Any) -> int:
        return self.writes(person, f"@stand_in_{self._bot}_bot {text}", **more)

    def answer(self, text: str) -> dict[str, Any]:
        """The row of the bot's message that contains this text."""
        def look() -> dict[str, Any] | None:
            rows = self._telegram.rows(chat=self.id)
            return next((row for row in rows if row["kind"] == "sent" and text in (row["text"] or "")), None)

        return until(f"{text!r} in the group", look, 60)


def test_in_a_group_it_answers_whoever_mentions_it_and_hears_nobody_else(stock_agent: StockAgent) -> None:
    group, unheard = Group(stock_agent), f"ping {number()}"
    asked = {person["first_name"]: number() for person in (ANN, BEA)}
    group.writes(ANN, unheard)
    for person in (ANN, BEA):
        group.mentions(person, f"ping {asked[person['first_name']]}")
        group.answer(f"pong {asked[person['first_name']]}")
    # The group's first message came before these two and was not addressed to the agent.
    assert not stock_agent.model.asked(rf"^.*{unheard}$")
    (bea,) = stock_agent.model.asked(rf"ping {asked['Bea']}$")
    assert f"ping {asked['Ann']}" not in str(bea.messages), "everybody in a group has a session of their own"


def test_in_a_topic_of_a_forum_the_answer_stands_in_that_topic(stock_agent: StockAgent) -> None:
    group = Group(stock_agent)
    # If several people share a session, stock tells the model who is speaking.
    stock_agent.model.rule(r"^\[\w+\] ping (\d+)$", r"pong \1")
    for topic in (77, 78):
        one = number()
        group.mentions(ANN, f"ping {one}", thread_id=topic)
        assert group.answer(f"pong {one}")["thread_id"] == topic
    first, second = number(), number()
    group.mentions(ANN, f"ping {first}", thread_id=79)
    group.answer(f"pong {first}")
    group.mentions(BEA, f"ping {second}", thread_id=79)
    group.answer(f"pong {second}")
    (turn,) = stock_agent.model.asked(rf"ping {second}$")
    assert f"ping {first}" in str(turn.messages), "everybody in a topic shares its session"


def test_a_reply_to_the_bot_needs_no_mention_and_later_versions_see_what_it_quotes(stock_agent: StockAgent) -> None:
    group, first, second = Group(stock_agent), number(), number()
    group.mentions(ANN, f"ping {first}")
    answer = group.answer(f"pong {first}")
    asking = group.writes(BEA, f"ping {second}", reply_to=answer["message_id"])
    reply = group.answer(f"pong {second}")
    assert reply["reply_to"] in (None, asking)
    (turn,) = stock_agent.model.asked(rf"ping {second}$")
    assert (f"pong {first}" in turn.text) is not IS_0_19, turn.text

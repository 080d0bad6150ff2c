"""Display of a whole stock gateway on the chat page: delivered, working, and stopped."""

from __future__ import annotations

from stock_agent import StockAgent, number
from web_chat import Page


def test_the_page_shows_delivered_and_working_and_a_typed_stop_ends_the_turn(stock_agent: StockAgent) -> None:
    with Page(stock_agent.actors.server, stock_agent.agent, "Ann") as page:
        first = number()
        page.say(f"ping {first}")
        page.sees(f"pong {first}", 60)
        page.turn_is(False)
        held = number()
        stock_agent.model.rule(rf"^ping {held}$", hold="for ever", times=1)
        message = page.say(f"ping {held}")["message_id"]
        stock_agent.model.wait_asked(rf"^ping {held}$")
        page.is_delivered(message)
        page.turn_is(True)
        page.say("/stop")
        page.turn_is(False)
        assert not any(f"pong {held}" in text for text in page.answers())
        # Stock resumes a stopped question together with the next one, which is answered.
        after = number()
        page.say(f"ping {after}")
        page.sees(f"pong {after}", 90)

"""A stock gateway declares at its start which messages of groups it wants, and gets those and no others."""

from __future__ import annotations

from pathlib import Path

from conftest import Actors
from scripted_model import ScriptedModel
from stock_agent import StockAgent, number
from stock_gateway import Gateway
from test_gateway_groups import ANN, Group
from waiting import until


def test_a_group_that_the_agent_declared_free_is_answered_without_a_mention_and_another_is_not(
        actors: Actors, model: ScriptedModel, tmp_path: Path) -> None:
    agent = actors.agent()
    # A group needs the agent only for its bot, so it can be named before the gateway exists.
    stock_agent = StockAgent(actors, agent, model, Gateway(tmp_path / "unused", agent.env, model.base_url))
    free, other = Group(stock_agent), Group(stock_agent)
    policy = {"require_mention": True, "free_response_channels": [str(free.id)]}
    stock_agent.gateway = Gateway(tmp_path / "home", agent.env, model.base_url, telegram=policy)
    try:
        stock_agent.gateway.start()
        stock_agent.connected()
        declared = [{
            "platform": "telegram", "require_address": True, "free_scopes": [str(free.id)], "allow_other_bots": False,
        }]
        until("the policy is declared", lambda: actors.server.show(agent)["relevance"] == declared, 60)
        unheard, heard, marker = number(), number(), number()
        other.writes(ANN, f"ping {unheard}")
        free.writes(ANN, f"ping {heard}")
        free.answer(f"pong {heard}")
        other.mentions(ANN, f"ping {marker}")
        other.answer(f"pong {marker}")
        assert not model.asked(rf"ping {unheard}$"), "it came before the mention and was not for the agent"
    finally:
        stock_agent.gateway.kill()

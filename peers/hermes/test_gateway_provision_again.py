"""A stock gateway provisions itself on a server that gives out a new secret at every call."""

from __future__ import annotations

from pathlib import Path

from conftest import Actors
from scripted_model import ScriptedModel
from test_gateway_provision import its_gateway, self_provisioning

SETTINGS = {"identity__secret_reuse": "0s"}


def test_a_gateway_keeps_working_with_its_first_secret_when_the_next_calls_replace_it(
        actors: Actors, model: ScriptedModel, tmp_path: Path) -> None:
    with self_provisioning(actors, model, tmp_path / "home") as stock_agent:
        # Stock keeps the secret of its first platform. The second platform's call has replaced it, with overlap.
        for _ in range(2):
            stock_agent.gateway.start()
            stock_agent.connected()
            chat = stock_agent.chat()
            chat.wait_answered(chat.ping(), 120)
            its_gateway(stock_agent)
            stock_agent.gateway.stop()
            stock_agent.connected(False)

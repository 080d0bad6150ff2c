"""A stock gateway that has a URL and no secret provisions itself at each start, without a vendor account."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator

from clock_fixture import ON_LOOPBACK
from conftest import Actors
from scripted_model import ScriptedModel
from stock_agent import StockAgent, number
from stock_gateway import Gateway
from stock_version import IS_0_19
from test_gateway_enroll import idp
from waiting import until
from wake_listener import WakeListener
from web_chat import Page

SETTINGS = ON_LOOPBACK
ONCE = "a gateway provisioned itself"


@contextmanager
def self_provisioning(
        actors: Actors, model: ScriptedModel, home: Path, **more: str) -> Iterator[StockAgent]:
    """An agent whose gateway knows the agent's client credential and nothing else. `more` are further variables."""
    agent = actors.agent()
    pinned = ("GATEWAY_RELAY_ID", "GATEWAY_RELAY_SECRET")
    environment = {name: value for name, value in agent.env.items() if name not in pinned}
    environment |= idp(actors, agent.printed) | {"GATEWAY_RELAY_PLATFORMS": "telegram,web"} | more
    gateway = Gateway(home, environment, model.base_url)
    try:
        yield StockAgent(actors, agent, model, gateway)
    finally:
        gateway.kill()


def its_gateway(stock_agent: StockAgent) -> dict[str, Any]:
    """The credential that the gateway got."""
    proposed = f"gw-{socket.gethostname()}"
    shown = stock_agent.actors.server.show(stock_agent.agent)["gateway_settings"]
    return next(gateway for gateway in shown if proposed in gateway["names"])


def test_a_gateway_provisions_itself_for_two_platforms_and_converses_on_both(
        actors: Actors, model: ScriptedModel, tmp_path: Path) -> None:
    with self_provisioning(actors, model, tmp_path / "home", GATEWAY_RELAY_DISPLAY_NAME="Grey Heron") as stock_agent:
        before = actors.server.log().count(ONCE)
        stock_agent.gateway.start()
        stock_agent.connected()
        assert actors.server.log().count(ONCE) == before + 2, "one call for each platform"
        shown = actors.server.show(stock_agent.agent)
        assert [one["gateway_id"] for one in shown["connections"]] == [its_gateway(stock_agent)["gateway_id"]]
        assert IS_0_19 or shown["display_name"] == "Grey Heron", "0.20 and later tell their name"
        chat = stock_agent.chat()
        chat.wait_answered(chat.ping(), 120)
        with Page(actors.server, stock_agent.agent, "Ann") as page:
            said = number()
            page.say(f"ping {said}")
            page.sees(f"pong {said}", 120)
        first = its_gateway(stock_agent)["gateway_id"]

        # It stores nothing, so it provisions itself again when it starts again, as the same gateway.
        stock_agent.gateway.stop()
        stock_agent.connected(False)
        stock_agent.gateway.start()
        stock_agent.connected()
        assert its_gateway(stock_agent)["gateway_id"] == first
        chat.wait_answered(chat.ping(), 120)


def test_a_revoked_gateway_stops_for_good_and_does_not_come_back_by_provisioning(
        actors: Actors, model: ScriptedModel, tmp_path: Path) -> None:
    with self_provisioning(actors, model, tmp_path / "home") as stock_agent:
        stock_agent.gateway.start()
        stock_agent.connected()
        gateway = its_gateway(stock_agent)["gateway_id"]
        actors.server.admin("agent", "revoke", stock_agent.agent.instance_id, "--gateway", gateway)
        until("it takes that as final", lambda: "treating as a revoked relay credential" in stock_agent.gateway.log())
        stock_agent.connected(False)
        stock_agent.gateway.stop()
        stock_agent.gateway.start()
        until("it is refused", lambda: "relay self-provision failed for ALL platforms" in stock_agent.gateway.log(), 60)
        assert not actors.server.connected(stock_agent.agent)


def test_the_wake_url_that_a_gateway_declared_starts_it_and_it_gets_what_waited(
        actors: Actors, model: ScriptedModel, tmp_path: Path) -> None:
    with WakeListener() as listener:
        url = f"{listener.url}/wake"
        with self_provisioning(actors, model, tmp_path / "home", GATEWAY_RELAY_WAKE_URL=url) as stock_agent:
            stock_agent.gateway.start()
            stock_agent.connected()
            assert its_gateway(stock_agent)["wake_url"] == url
            stock_agent.gateway.stop()
            stock_agent.connected(False)
            listener.wake = stock_agent.rise
            chat = stock_agent.chat()
            waiting = chat.ping(3)
            listener.wait_poked(1)
            chat.wait_answered(waiting, 120)
            listener.wake = lambda: None

"""A stock gateway whose identity token comes from an ambient endpoint of the operator's own identity provider: a plain
GET without a credential. The server trusts that provider and serves no such endpoint itself."""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

import pytest

from ambient_issuer import AmbientIssuer
from child import clean_environment
from clock_fixture import ON_LOOPBACK
from conftest import Actors, open_actors
from posthouse_server import Agent
from scripted_model import ScriptedModel
from stock_agent import StockAgent
from stock_gateway import Gateway, hermes_command
from stock_version import only_0_20
from test_gateway_enroll import enroll_token, written
from test_gateway_provision import its_gateway
from waiting import until

pytestmark = only_0_20


@pytest.fixture(scope="module")
def issuer() -> Iterator[AmbientIssuer]:
    with AmbientIssuer() as issuing:
        yield issuing


@pytest.fixture(scope="module")
def actors(issuer: AmbientIssuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Actors]:
    """A server that trusts the issuer."""
    with open_actors(tmp_path_factory.mktemp("ambient"), ON_LOOPBACK, issuer.settings()) as opened:
        yield opened


@pytest.fixture(autouse=True)
def honest(issuer: AmbientIssuer) -> None:
    issuer.be_honest()
    issuer.enveloped = False
    issuer.asked.clear()


def asked_plainly(issuer: AmbientIssuer) -> None:
    assert issuer.asked, "it asked for a token"
    for request in issuer.asked:
        assert (request.method, request.body) == ("GET", b"")
        assert request.headers["accept"] == "application/json, text/plain"
        assert "authorization" not in request.headers


@contextmanager
def ambient(
        actors: Actors, issuer: AmbientIssuer, model: ScriptedModel, home: Path, agent: Agent) -> Iterator[StockAgent]:
    """A gateway that knows the URL of the ambient endpoint, its agent's name, and no secret at all."""
    issuer.tenant = agent.tenant
    kept = {name: value for name, value in agent.env.items() if "SECRET" not in name and name != "GATEWAY_RELAY_ID"}
    environment = kept | {
        "GATEWAY_RELAY_IDP_TOKEN_URL": issuer.token_url,
        "GATEWAY_RELAY_INSTANCE_ID": agent.name,
        "GATEWAY_RELAY_PLATFORMS": "telegram,web",
    }
    gateway = Gateway(home, environment, model.base_url)
    try:
        yield StockAgent(actors, agent, model, gateway)
    finally:
        gateway.kill()


@pytest.mark.parametrize("enveloped", [False, True], ids=["bare", "enveloped"])
def test_a_gateway_provisions_itself_with_a_token_of_the_ambient_issuer_and_converses(
        actors: Actors, issuer: AmbientIssuer, model: ScriptedModel, tmp_path: Path, enveloped: bool) -> None:
    issuer.enveloped = enveloped
    with ambient(actors, issuer, model, tmp_path / "home", actors.agent()) as stock_agent:
        stock_agent.gateway.start()
        stock_agent.connected()
        asked_plainly(issuer)
        sockets = actors.server.show(stock_agent.agent)["connections"]
        assert [socket["gateway_id"] for socket in sockets] == [its_gateway(stock_agent)["gateway_id"]]
        chat = stock_agent.chat()
        chat.wait_answered(chat.ping(), 120)


def test_a_gateway_gets_nothing_with_a_forged_token_or_one_of_another_tenant(
        actors: Actors, issuer: AmbientIssuer, model: ScriptedModel, tmp_path: Path) -> None:
    agent, stranger = actors.agent(), actors.agent()
    with ambient(actors, issuer, model, tmp_path / "home", agent) as stock_agent:
        failed = "relay self-provision failed for ALL platforms"

        def refused(times: int) -> None:
            stock_agent.gateway.start()
            until("it is refused", lambda: stock_agent.gateway.log().count(failed) >= times, 120)
            assert not actors.server.connected(agent)
            stock_agent.gateway.stop()

        issuer.forge()
        refused(1)
        # The other tenant has no agent of that name and no right to these bots.
        issuer.be_honest()
        issuer.tenant = stranger.tenant
        actors.server.admin("tenant", "change", stranger.tenant, "--provisioning", "closed")
        refused(2)
        assert len(actors.server.listed("agent", "list", "--tenant", stranger.tenant)) == 1

        issuer.tenant = agent.tenant
        stock_agent.gateway.start()
        stock_agent.connected()
        asked_plainly(issuer)


def test_a_gateway_enrolls_with_a_token_of_the_ambient_issuer(
        actors: Actors, issuer: AmbientIssuer, tmp_path: Path) -> None:
    agent = actors.agent()
    home = tmp_path / "home"
    home.mkdir()
    issuer.tenant = agent.tenant
    environment = clean_environment() | {
        "HOME": str(home), "HERMES_HOME": str(home), "HERMES_DISABLE_LAZY_INSTALLS": "1",
        "GATEWAY_RELAY_IDP_TOKEN_URL": issuer.token_url,
    }
    done = subprocess.run(
        [*hermes_command(), "gateway", "enroll", "--token", enroll_token(actors, agent),
         "--connector-url", actors.server.url],
        env=environment, cwd=home, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    asked_plainly(issuer)
    stored = written(home)["GATEWAY_RELAY_ID"]
    shown = actors.server.show(agent)["gateway_settings"]
    assert stored in [gateway["gateway_id"] for gateway in shown]


def test_the_server_itself_gives_a_token_to_nobody_without_a_credential(actors: Actors) -> None:
    for path in ("/oauth/token", "/access-token"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(actors.server.url + path, timeout=30)
        assert refused.value.code in (404, 405), path

"""`hermes gateway enroll`: a stock gateway gets its credential for a single-use token, without a vendor account."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from child import clean_environment
from conftest import Actors
from posthouse_server import Agent
from scripted_model import ScriptedModel
from stock_agent import StockAgent
from stock_gateway import Gateway, hermes_command


def idp(actors: Actors, client: dict[str, Any]) -> dict[str, str]:
    """What makes a stock gateway get its identity token from the server's own token endpoint."""
    return {
        "GATEWAY_RELAY_IDP_TOKEN_URL": f"{actors.server.url}/oauth/token",
        "GATEWAY_RELAY_IDP_CLIENT_ID": client["client_id"],
        "GATEWAY_RELAY_IDP_CLIENT_SECRET": client["client_secret"],
    }


def enroll(actors: Actors, home: Path, client: dict[str, Any], token: str) -> subprocess.CompletedProcess[str]:
    environment = clean_environment() | {
        "HOME": str(home), "HERMES_HOME": str(home), "HERMES_DISABLE_LAZY_INSTALLS": "1",
    } | idp(actors, client)
    return subprocess.run(
        [*hermes_command(), "gateway", "enroll", "--token", token, "--connector-url", actors.server.url],
        env=environment, cwd=home, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)


def enroll_token(actors: Actors, agent: Agent) -> str:
    made = actors.server.admin("enroll-token", "create", "--tenant", agent.tenant, "--agent", agent.name)
    return made["token"]


def written(home: Path) -> dict[str, str]:
    """The variables that the command stored in the home folder."""
    lines = [line.partition("=") for line in (home / ".env").read_text().splitlines() if "=" in line]
    return {name.strip(): value.strip().strip("'\"") for name, _, value in lines}


def test_a_gateway_enrolls_with_the_stock_command_and_converses(
        actors: Actors, model: ScriptedModel, tmp_path: Path) -> None:
    agent = actors.agent()
    client = actors.server.client(agent.tenant)
    home = tmp_path / "home"
    home.mkdir()
    token = enroll_token(actors, agent)
    done = enroll(actors, home, client, token)
    assert done.returncode == 0, done.stdout + done.stderr
    stored = written(home)
    assert stored["GATEWAY_RELAY_ID"] != agent.gateway_id, "a credential of its own"
    assert len(stored["GATEWAY_RELAY_SECRET"]) == 64 and stored["GATEWAY_RELAY_DELIVERY_KEY"]

    named = {k: agent.env[k] for k in ("GATEWAY_RELAY_PLATFORMS", "GATEWAY_RELAY_BOT_IDS") if k in agent.env}
    gateway = Gateway(home, stored | named, model.base_url)
    enrolled = StockAgent(actors, agent, model, gateway)
    try:
        gateway.start()
        enrolled.connected()
        sockets = actors.server.show(agent)["connections"]
        assert [socket["gateway_id"] for socket in sockets] == [stored["GATEWAY_RELAY_ID"]]
        chat = enrolled.chat()
        chat.wait_answered(chat.ping(), 120)
    finally:
        gateway.kill()

    again = enroll(actors, home, client, token)
    assert again.returncode != 0
    assert "the enrollment token is not valid" in again.stdout + again.stderr
    assert written(home) == stored, "a refusal changes nothing"


def test_a_gateway_that_enrolls_again_keeps_its_id_and_gets_a_new_secret(actors: Actors, tmp_path: Path) -> None:
    agent = actors.agent()
    client = actors.server.client(agent.tenant)
    home = tmp_path / "home"
    home.mkdir()
    seen = []
    for _ in range(2):
        done = enroll(actors, home, client, enroll_token(actors, agent))
        assert done.returncode == 0, done.stdout + done.stderr
        seen.append(written(home))
    assert seen[0]["GATEWAY_RELAY_ID"] == seen[1]["GATEWAY_RELAY_ID"]
    assert seen[0]["GATEWAY_RELAY_SECRET"] != seen[1]["GATEWAY_RELAY_SECRET"]


def test_a_token_of_another_tenant_is_refused_with_the_stock_words_for_it(actors: Actors, tmp_path: Path) -> None:
    agent, stranger = actors.agent(), actors.agent()
    home = tmp_path / "home"
    home.mkdir()
    token = enroll_token(actors, agent)
    refused = enroll(actors, home, actors.server.client(stranger.tenant), token)
    assert refused.returncode != 0
    assert "the enrollment token is not valid" in refused.stdout + refused.stderr
    done = enroll(actors, home, actors.server.client(agent.tenant), token)
    assert done.returncode == 0, "the stranger has not used it up: " + done.stdout + done.stderr

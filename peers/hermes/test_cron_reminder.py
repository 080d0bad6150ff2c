"""The cron guide, followed literally: a reminder that a person asks for on the chat page appears there.

The call has to reach the gateway process itself, because no other process of the agent is connected to the server.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterator

import pytest

from callback import seconds_from_now
from clock_fixture import ON_LOOPBACK
from conftest import Actors
from place import Place
from stock_agent import StockAgent, number
from scripted_model import ScriptedModel
from stock_gateway import Gateway, config
from stock_version import IS_0_19
from waiting import until
from web_chat import Page

SETTINGS = ON_LOOPBACK
# The usual configuration, with the tool with which an agent sets its own reminders.
TOOLS = ["todo", "cronjob"]
# Later than the conversation that sets it, on a slow machine too.
SOON_S = 20.0


@pytest.fixture(scope="module")
def reminded(actors: Actors, model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StockAgent]:
    """An agent that was created without cron and got it later, as the guide says."""
    agent, home, place = actors.agent(), tmp_path_factory.mktemp("hermes"), Place()
    login = actors.server.admin("client", "create", "--tenant", agent.tenant, "--agent", agent.name, "--login")
    (home / "auth.json").write_text(json.dumps(login["auth"]))
    pasted, variables = actors.server.agent_cron(agent, place.url)
    gateway = Gateway(home, agent.env | variables | {"HERMES_PORTAL_BASE_URL": actors.server.url}, model.base_url)
    write_config(home, model, pasted)
    stock_agent = StockAgent(actors, agent, model, gateway.start())
    try:
        stock_agent.connected()
        yield stock_agent
    finally:
        gateway.kill()


def write_config(home: Path, model: ScriptedModel, pasted: str) -> None:
    usual: dict[str, Any] = config(model.base_url) | {
        "toolsets": TOOLS, "platform_toolsets": {"telegram": TOOLS, "relay": TOOLS, "cron": ["todo"]}}
    # Every section is JSON, which is valid YAML. The pasted text is a section of its own.
    lines = [f"{name}: {json.dumps(value)}\n" for name, value in usual.items()]
    (home / "config.yaml").write_text("".join(lines) + pasted)


def reminder(stock_agent: StockAgent, what: str) -> None:
    """From now on the model sets a job when it is asked for a reminder."""
    job = {"action": "create", "schedule": seconds_from_now(SOON_S), "prompt": f"ping {what}", "name": what}
    stock_agent.model.rule(r"^remind me in a minute", "I will", tool="cronjob", arguments=job, times=1)


def fired(stock_agent: StockAgent) -> list[int]:
    """The answers to the calls for the agent's jobs."""
    jobs = stock_agent.actors.server.listed("job", "history", stock_agent.agent.instance_id)
    return [attempt["status"] for attempt in jobs if attempt.get("status")]


def test_a_reminder_asked_for_in_the_page_appears_there(reminded: StockAgent) -> None:
    with Page(reminded.actors.server, reminded.agent, "Ann") as page:
        first = number()
        page.say(f"ping {first}")
        page.sees(f"pong {first}", 60)
        reminder(reminded, "tea")
        page.say("remind me in a minute of my tea")
        page.sees("I will", 60)
        page.sees("pong tea", 60)
    assert fired(reminded) == [202]


def test_a_reminder_asked_for_on_telegram_appears_there_with_later_versions(reminded: StockAgent) -> None:
    chat = reminded.chat()
    chat.wait_answered(chat.ping())
    reminder(reminded, "coffee")
    reminded.actors.writes(reminded.agent, chat.id, "remind me in a minute of my coffee")
    reminded.actors.telegram.said(chat.id, "I will", 60)
    if IS_0_19:
        # It looks for its own Telegram adapter, has none, and reports that only in its log.
        until("it gave up", lambda: "platform 'telegram' not configured/enabled" in reminded.gateway.log(), 60)
    else:
        reminded.actors.telegram.said(chat.id, "pong coffee", 60)

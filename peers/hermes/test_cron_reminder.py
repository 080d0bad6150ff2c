"""The cron guide, followed literally: a reminder that a person asks for on the chat page appears there.

The call has to reach the gateway process itself, because no other process of the agent is connected to the server.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterator

import pytest

from callback import seconds_from_now
from clock_scene import ON_LOOPBACK
from conftest import Town
from place import Place
from scene import Scene, number
from scripted_model import ScriptedModel
from stock_gateway import Gateway, config
from stock_version import IS_0_19
from waiting import until
from web_chat import Page

SETTINGS = ON_LOOPBACK
# The usual configuration, with the tool with which an agent sets its own reminders.
TOOLS = ["todo", "cronjob"]
# Later than the conversation that sets it, on a slow machine too.
SOON_S = 8.0


@pytest.fixture(scope="module")
def reminded(town: Town, model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """An agent that was created without cron and got it later, as the guide says."""
    agent, home, place = town.agent(), tmp_path_factory.mktemp("hermes"), Place()
    login = town.house.admin("client", "create", "--tenant", agent.tenant, "--agent", agent.name, "--login")
    (home / "auth.json").write_text(json.dumps(login["auth"]))
    pasted, variables = town.house.agent_cron(agent, place.url)
    gateway = Gateway(home, agent.env | variables | {"HERMES_PORTAL_BASE_URL": town.house.url}, model.base_url)
    write_config(home, model, pasted)
    scene = Scene(town, agent, model, gateway.start())
    try:
        scene.connected()
        yield scene
    finally:
        gateway.kill()


def write_config(home: Path, model: ScriptedModel, pasted: str) -> None:
    usual: dict[str, Any] = config(model.base_url) | {
        "toolsets": TOOLS, "platform_toolsets": {"telegram": TOOLS, "relay": TOOLS, "cron": ["todo"]}}
    # Every section is JSON, which is valid YAML. The pasted text is a section of its own.
    lines = [f"{name}: {json.dumps(value)}\n" for name, value in usual.items()]
    (home / "config.yaml").write_text("".join(lines) + pasted)


def reminder(scene: Scene, what: str) -> None:
    """From now on the model sets a job when it is asked for a reminder."""
    job = {"action": "create", "schedule": seconds_from_now(SOON_S), "prompt": f"ping {what}", "name": what}
    scene.model.rule(r"^remind me in a minute", "I will", tool="cronjob", arguments=job, times=1)


def fired(scene: Scene) -> list[int]:
    """The answers to the calls for the agent's jobs."""
    jobs = scene.town.house.listed("job", "history", scene.agent.instance_id)
    return [attempt["status"] for attempt in jobs if attempt.get("status")]


def test_a_reminder_asked_for_in_the_page_appears_there(reminded: Scene) -> None:
    with Page(reminded.town.house, reminded.agent, "Ann") as page:
        first = number()
        page.say(f"ping {first}")
        page.sees(f"pong {first}", 60)
        reminder(reminded, "tea")
        page.say("remind me in a minute of my tea")
        page.sees("I will", 60)
        page.sees("pong tea", 60)
    assert fired(reminded) == [202]


def test_a_reminder_asked_for_on_telegram_appears_there_with_later_versions(reminded: Scene) -> None:
    chat = reminded.chat()
    chat.wait_answered(chat.ping())
    reminder(reminded, "coffee")
    reminded.town.writes(reminded.agent, chat.id, "remind me in a minute of my coffee")
    reminded.town.telegram.said(chat.id, "I will", 60)
    if IS_0_19:
        # It looks for its own Telegram adapter, has none, and reports that only in its log.
        until("it gave up", lambda: "platform 'telegram' not configured/enabled" in reminded.gateway.log(), 60)
    else:
        reminded.town.telegram.said(chat.id, "pong coffee", 60)

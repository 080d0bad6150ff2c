"""The whole stock gateway on Slack, played by Posthouse's own stand-in, over Socket Mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator
from urllib.parse import urlencode

import pytest

from child import Child, call, clean_environment, posthouse
from conftest import Actors
from posthouse_server import Agent
from scripted_model import ScriptedModel
from stock_agent import number
from stock_gateway import Gateway
from waiting import until

BOT, SECRET = "UBOT1", "canary-slack"
APP = f"A1:xoxb-{SECRET}:xapp-{SECRET}:{SECRET}-signing@posty"


class Slack(Child):
    """`posthouse stand-in slack`. Only this class knows its control API."""

    def __init__(self, folder: Path) -> None:
        super().__init__("slack stand-in", folder / "slack.log")

    def open(self) -> "Slack":
        command = [posthouse(), "stand-in", "slack", "--listen", "127.0.0.1:0", "--app", APP]
        self.spawn_with_url(command, clean_environment())
        return self

    def does(self, do: str, **what: Any) -> dict[str, Any]:
        return self._control("POST", "inject", {"do": do, **what})

    def rows(self, **query: str) -> list[dict[str, Any]]:
        return self._control("GET", f"transcript?{urlencode(query)}")["rows"]

    def answer(self, channel: str, text: str) -> dict[str, Any]:
        """The row of the bot's message that contains this text."""
        def look() -> dict[str, Any] | None:
            return next((row for row in self.rows(chat=channel, kind="sent") if text in (row.get("text") or "")), None)

        return until(f"{text!r} in {channel}", look, 120, 0.2)

    def _control(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = call(method, f"{self.url}/_stand-in/{path}", body)
        assert status == 200, answer
        return answer


@pytest.fixture(scope="module")
def slack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slack]:
    stand_in = Slack(tmp_path_factory.mktemp("slack"))
    try:
        yield stand_in.open()
    finally:
        stand_in.kill()


@pytest.fixture(scope="module")
def agent(actors: Actors, slack: Slack, model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """A stock gateway whose agent owns the Slack bot, connected on both sides."""
    folder, server = tmp_path_factory.mktemp("slack-agent"), actors.server
    files = {"token": f"xoxb-{SECRET}", "app-token": f"xapp-{SECRET}"}
    words = []
    for name, secret in files.items():
        (folder / name).write_text(secret)
        (folder / name).chmod(0o600)
        words += [f"--{name}-file", str(folder / name)]
    server.admin("bot", "create", "slack", "--open", "--api-base-url", f"{slack.url}/api", *words)
    server.tenant("acme-slack")
    made = server.admin("agent", "create", "heron-slack", "--tenant", "acme-slack", "--bot", f"slack:{BOT}")
    agent = Agent("heron-slack", "acme-slack", made["instance_id"], made["gateway_id"], made["secret"], made["env"], made)
    gateway = Gateway(folder / "home", agent.env, model.base_url)
    try:
        gateway.start()
        server.wait_connected(agent)
        until("the socket to Slack", lambda: any(row["kind"] == "connected" for row in slack.rows()), 60)
        yield agent
        written = server.written()
        assert not [where for where, text in written.items() if SECRET.encode() in text], "a secret was written"
    finally:
        gateway.kill()
        server.admin("bot", "remove", f"slack:{BOT}")


def test_a_direct_message_is_answered_in_its_thread(agent: Agent, slack: Slack) -> None:
    one = number()
    asked = slack.does("message", text=f"ping {one}", user_name="Ann")
    assert slack.answer(asked["channel"], f"pong {one}")["thread_id"] == asked["ts"]


def test_a_mention_in_a_channel_is_answered_once(agent: Agent, slack: Slack, model: ScriptedModel) -> None:
    unheard, one = number(), number()
    # If several people share a session, stock tells the model who is speaking.
    model.rule(r"ping (\d+)$", r"pong \1")
    slack.does("message", text=f"ping {unheard}", channel="C10", user_name="Ann")
    asked = slack.does("message", text=f"<@{BOT}> ping {one}", channel="C10", user_name="Ann")
    assert slack.answer("C10", f"pong {one}")["thread_id"] == asked["ts"]
    answers = [row["text"] for row in slack.rows(chat="C10", kind="sent") if "pong" in (row.get("text") or "")]
    assert [text for text in answers if one in text] == [f"pong {one}"]
    assert not [text for text in answers if unheard in text]

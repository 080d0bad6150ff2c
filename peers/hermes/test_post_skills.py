"""A chain of agents and skills: a skill writes to a stock agent, its answer starts a skill that asks another agent, and
one trace shows all of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterator, Mapping

import pytest

from clock_fixture import ON_LOOPBACK
from loopback import Answer, Loopback
from post_programs import PostAgent, Program, headed, pong, said
from stock_agent import number
from waiting import until

SETTINGS = ON_LOOPBACK
ASKED, ANSWER = "tern", "wait and see"
SKILLS = {
    "morning": ("", '$ execute_skill name="greet" inputs={"WHO": "${WHO}", "TEXT": "${TEXT}"}'),
    "greet": ("", 'notify(agent="${WHO}", message="${TEXT}")'),
    "follow": ("# Triggers: event: news\n",
               '$ execute_skill name="ask" inputs={"NEWS": "${NEWS}"} -> R\n'
               '    emit(text="${R}")'),
    "ask": ("", f'exchange(agent="{ASKED}", message="what about ${{NEWS}}?", timeout=120) -> R\n'
                '    emit(text="${R.content}")'),
}
VARIABLES = {"morning": "WHO, TEXT", "greet": "WHO, TEXT", "follow": "NEWS", "ask": "NEWS"}


class Webhook(Loopback):
    """Agents behind a webhook, that answer every question."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[dict[str, Any]] = []

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        if method == "POST":
            with self.changed:
                self.bodies.append(json.loads(body))
        return Answer(200, json.dumps({"reply": {"content": ANSWER}}))

    def wait_body(self, agent: str) -> dict[str, Any]:
        """The first message to an agent."""
        return until(f"a message to {agent}", lambda: next(
            (body for body in list(self.bodies) if body.get("agent_id") == agent), None), 120)


@pytest.fixture
def webhook(post_agent: PostAgent, tmp_path: Path) -> Iterator[Webhook]:
    """It also gets what is sent to the stock agent, so that the test sees the complete messages."""
    server, tenant = post_agent.actors.server, post_agent.agent.tenant
    with Webhook() as listening:
        settings = tmp_path / "webhook.json"
        settings.write_text(json.dumps({"agents": {
            name: {"url": f"{listening.url}/agent"} for name in (post_agent.name, ASKED)}}))
        server.admin("connector", "create", "hook", "--tenant", tenant, "--kind", "webhook",
                     "--settings", str(settings))
        try:
            yield listening
        finally:
            server.admin("connector", "remove", "hook", "--tenant", tenant)


def write_skills(post_agent: PostAgent, folder: Path) -> None:
    for name, (header, operations) in SKILLS.items():
        text = (f"# Skill: {name}\n# Status: Approved\n# Vars: {VARIABLES[name]}\n{header}"
                f"go:\n    {operations}\ndefault: go\n")
        file = folder / f"{name}.skill.md"
        file.write_text(text)
        post_agent.actors.server.admin("skill", "write", name, str(file), "--tenant", post_agent.agent.tenant)


def test_an_answer_of_a_stock_agent_starts_a_skill_that_asks_another_agent(
        post_agent: PostAgent, webhook: Webhook, tmp_path: Path) -> None:
    server, tenant = post_agent.actors.server, post_agent.agent.tenant
    write_skills(post_agent, tmp_path)
    starter = f"wren-{number()}"
    wren = Program(server, server.agent(starter, tenant, []).printed)
    text = f"ping {number()}"

    # An agent starts the first skill. Its message reaches the stock agent, which answers.
    ran = wren.execute("morning", WHO=post_agent.name, TEXT=text)
    assert ran["errors"] == [], ran
    first = webhook.wait_body(post_agent.name)["meta"]
    assert first["origin"] == {
        "skill_name": "greet", "entry_skill_name": "morning", "trigger_kind": "agent", "caller_agent_id": starter}
    told = until("the stock agent has answered", lambda: next((
        one for one in post_agent.program.receipts()
        if one["dispatch_id"] == first["dispatch_id"] and pong(text) in said(one)), None), 240)
    assert post_agent.seen(text) == [headed(text, "greet")]

    # A program sends the answer as an event. The skill of the event asks the next agent.
    (answer,) = said(told)
    run = post_agent.program.event("news", cause=first["dispatch_id"], NEWS=answer)["run_id"]
    shown = until(f"{run} has ended", lambda: (
        found if (found := server.admin("run", "show", run, "--tenant", tenant)).get("ended_at_ms") else None), 120)
    assert shown["state"] == "succeeded" and ANSWER in str(shown["record"]["emissions"]), shown
    body = webhook.wait_body(ASKED)
    last = body["meta"]
    assert body["content"] == f"what about {answer}?" and last["correlation_id"]
    # Nobody called the skill, so there is no caller.
    assert last["origin"] == {"skill_name": "ask", "entry_skill_name": "follow", "trigger_kind": "event"}
    assert last["dispatch_id"] != first["dispatch_id"]

    # Every id of the chain leads to the whole of it.
    (started,) = [one["id"] for one in server.listed("run", "list", "--tenant", tenant) if one["skill"] == "morning"]
    for id in (first["dispatch_id"], last["dispatch_id"], run):
        messages = [item for item in server.trace(id)["items"] if item["dispatch_id"]]
        chain = {(item["platform"], item["dispatch_id"]): item for item in messages}
        assert set(chain) == {
            ("post", first["dispatch_id"]), ("hook", first["dispatch_id"]), ("hook", last["dispatch_id"])}
        to_stock, to_asked = chain["post", first["dispatch_id"]], chain["hook", last["dispatch_id"]]
        assert to_stock["runs"] == [started] and to_stock["led_to"] == [run] == to_asked["runs"]
        assert {"emitted", "acknowledged", "said"} <= {step["what"] for step in to_stock["steps"]}
        assert to_asked["what"] == "exchange" and "answer" in {step["what"] for step in to_asked["steps"]}
        assert answer not in str(chain) and ANSWER not in str(chain), "a trace holds no text"

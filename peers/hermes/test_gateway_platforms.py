"""One stock gateway process that fronts every platform at once, on one socket.

Both versions of the stock agent know all these platforms by name. How an agent of the SDK talks on each of them is in
`crates/posthouse/tests/it`.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Iterator

import pytest
from gateway.config import Platform

from chat_platforms import RECIPES, SECRET, WEBHOOK, ChatPlatform
from conftest import Actors
from posthouse_server import Agent
from scripted_model import ScriptedModel
from stock_agent import number
from stock_gateway import Gateway
from waiting import until

# All people write at once, and the gateway's first turn is slow.
TURNS_S = 240.0
# Its log line when a platform takes no answers.
REFUSED = "Fallback send also failed: unsupported op: send"


@dataclass
class Everywhere:
    """An agent with a bot on each platform."""

    platforms: list[ChatPlatform]
    webhook: ChatPlatform
    gateway: Gateway

    def answered(self) -> dict[str, list[str]]:
        """The numbers that were answered on each platform."""
        return {one.name: one.pongs() for one in self.platforms}

    def wait_answered(self, asked: dict[str, str]) -> dict[str, list[str]]:
        """Waits until each platform has the answer to the number that was asked there."""
        def look() -> dict[str, list[str]] | None:
            told = self.answered()
            return told if all(one in told[name] for name, one in asked.items()) else None

        try:
            return until(f"answers to {asked}", look, TURNS_S, 0.2)
        except AssertionError as never:
            raise AssertionError(f"{never}\nanswered: {self.answered()}\n{self.gateway.log()[-4000:]}") from None


@pytest.fixture(scope="module")
def everywhere(
        actors: Actors, model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everywhere]:
    folder, server = tmp_path_factory.mktemp("platforms"), actors.server
    with ExitStack() as closing:
        opened = []
        for recipe in (*RECIPES, WEBHOOK):
            opened.append(ChatPlatform(folder, recipe))
            closing.callback(opened[-1].kill)
            opened[-1].open(server)
            closing.callback(server.admin, "bot", "remove", opened[-1].bot)
        for one in opened:
            one.wait_ready()
        server.tenant("acme-platforms")
        owned = [word for one in opened for word in ("--bot", one.bot)]
        made = server.admin("agent", "create", "heron-platforms", "--tenant", "acme-platforms", *owned)
        agent = Agent("heron-platforms", "acme-platforms", made["instance_id"], made["gateway_id"], made["secret"],
                      made["env"], made)
        gateway = Gateway(folder / "hermes", agent.env, model.base_url)
        closing.callback(gateway.kill)
        gateway.start()
        server.wait_connected(agent)
        *platforms, webhook = opened
        yield Everywhere(platforms, webhook, gateway)
        leaks = [where for where, text in server.written().items() if SECRET.encode() in text]
        assert not leaks, f"a secret was written in {leaks}"


@pytest.mark.parametrize("name", [recipe.platform for recipe in (*RECIPES, WEBHOOK)])
def test_the_stock_agent_knows_the_platform_by_name(name: str) -> None:
    assert Platform(name).value == name


def test_each_person_is_answered_on_the_platform_where_they_wrote_and_nowhere_else(everywhere: Everywhere) -> None:
    for _ in range(2):
        asked = {one.name: number() for one in everywhere.platforms}
        for one in everywhere.platforms:
            one.writes(f"ping {asked[one.name]}")
        told = everywhere.wait_answered(asked)
        of_these = {name: [one for one in there if one in asked.values()] for name, there in told.items()}
        assert of_these == {name: [one] for name, one in asked.items()}


def test_the_gateway_stores_each_chat_under_the_name_of_its_platform(everywhere: Everywhere) -> None:
    asked = {one.name: number() for one in everywhere.platforms}
    for one in everywhere.platforms:
        one.writes(f"ping {asked[one.name]}")
    everywhere.wait_answered(asked)
    stored = until("the gateway has stored the chats", lambda: (
        stored if (stored := {one["platform"] for one in everywhere.gateway.origins()}) >= set(asked) else None))
    assert "relay" not in stored, "the name that it gives to platforms that it does not know"


def test_a_signed_webhook_becomes_a_turn_and_its_answer_reaches_nobody(everywhere: Everywhere) -> None:
    pushed = number()
    everywhere.webhook.sends_webhook(f"ping {pushed}")
    # Stock tries a second time, as plain text, before it gives up.
    until("the answer is refused", lambda: REFUSED in everywhere.gateway.log(), TURNS_S, 0.2)
    assert not [name for name, there in everywhere.answered().items() if pushed in there]

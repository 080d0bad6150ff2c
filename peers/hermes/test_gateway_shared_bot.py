"""One bot for two tenants: a whole stock gateway on one side, a stock transport on the other, and people who link
themselves to one of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Callable, Iterator

import pytest
from gateway.relay.auth import make_upgrade_token

from child import call
from conftest import Actors
from posthouse_server import Agent
from scripted_model import ScriptedModel
from stock import Dialed, in_a_loop
from stock_agent import StockAgent, number
from stock_gateway import Gateway
from test_gateway_groups import Group
from waiting import until

LINKED = "You are linked now"


@dataclass
class SharedBot:
    """A bot, the whole stock gateway of one tenant that uses it, and an agent of another tenant."""

    bot: str
    stock_agent: StockAgent
    other: Agent

    def __post_init__(self) -> None:
        self.actors, self.model = self.stock_agent.actors, self.stock_agent.model

    def manages(self, agent: Agent, path: str, **body: Any) -> tuple[int, Any]:
        """A call of an agent that concerns its own links, claims and policies."""
        bearer = {"Authorization": f"Bearer {make_upgrade_token(agent.gateway_id, agent.secret)}"}
        return call("POST", f"{self.actors.server.url}/manage/{path}", body, bearer)

    def writes(self, person: int, text: str) -> None:
        """A direct message. Returns after the server has accepted it."""
        sent = self.actors.telegram.inject(self.bot, person, text)
        until("the update is taken", lambda: sent["update_id"] in self.actors.telegram.confirmed(), 120)

    def links(self, agent: Agent) -> int:
        """A new person, who sends the bot a code of this agent."""
        person = self.actors.chat()
        status, made = self.manages(agent, "link")
        assert status == 200, made
        self.writes(person, f"/link {made['code']}")
        self.actors.telegram.said(person, LINKED)
        return person

    def pings(self, person: int) -> str:
        """A numbered direct message, answered by the stock gateway in the same chat."""
        new = number()
        self.writes(person, f"ping {new}")
        self.actors.telegram.said(person, f"pong {new}", 60)
        return new


async def aside(work: Callable[..., Any], *args: Any) -> Any:
    """Runs what waits in a thread, so that the stock transport of this process goes on."""
    return await asyncio.to_thread(work, *args)


def named(person: int) -> dict[str, Any]:
    return {"id": person, "is_bot": False, "first_name": f"Person {person}"}


@pytest.fixture(scope="module")
def shared_bot(
        actors: Actors, model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedBot]:
    bot = actors.server.shared_bot(actors.telegram.spare_bot())
    agents = [actors.agent(bots=0) for _ in range(2)]
    for agent in agents:
        actors.server.use_bot(agent, bot)
        actors.bots[agent.instance_id] = bot
    gateway = Gateway(tmp_path_factory.mktemp("hermes"), agents[0].env, model.base_url)
    try:
        gateway.start()
        stock_agent = StockAgent(actors, agents[0], model, gateway)
        stock_agent.connected()
        yield SharedBot(bot, stock_agent, agents[1])
    finally:
        gateway.kill()


@in_a_loop
async def test_each_person_reaches_their_own_agent_and_only_they_get_its_answer(shared_bot: SharedBot) -> None:
    gateway, telegram = shared_bot.stock_agent.agent, shared_bot.actors.telegram
    async with Dialed(shared_bot.other) as other:
        stranger, early = shared_bot.actors.chat(), number()
        await aside(shared_bot.writes, stranger, f"ping {early}")
        ann = await aside(shared_bot.links, gateway)
        bea = await aside(shared_bot.links, shared_bot.other)
        assert ann != bea

        unheard, of_bea = number(), number()
        await aside(shared_bot.writes, stranger, f"ping {unheard}")
        await aside(shared_bot.writes, bea, f"ping {of_bea}")
        of_ann = await aside(shared_bot.pings, ann)
        await other.hears(f"ping {of_bea}")
        answer = await other.send_outbound({"op": "send", "chat_id": str(bea), "content": "good morning, Bea"})
        assert answer["success"] is True, answer
        foreign = await other.send_outbound({"op": "send", "chat_id": str(ann), "content": "good morning, Ann"})
        assert foreign["success"] is False, "Ann is linked to another agent"

        # Both agents have got a message that was written after the stranger's.
        assert other.texts() == [f"ping {of_bea}"]
        for new in (early, unheard, of_bea):
            assert not shared_bot.model.asked(rf"ping {new}$")
        assert shared_bot.model.asked(rf"ping {of_ann}$")
        assert telegram.sent(stranger) == []
        assert not any("good morning" in text for text in telegram.sent(ann))
        assert [text for text in telegram.sent(bea) if LINKED not in text] == ["good morning, Bea"]


@in_a_loop
async def test_a_claimed_group_reaches_its_claimer_and_a_linked_person_there_still_their_own(
        shared_bot: SharedBot) -> None:
    gateway = shared_bot.stock_agent.agent
    group = Group(shared_bot.stock_agent)
    place = {"platform": "telegram", "scopeId": str(group.id)}
    guest = named(shared_bot.actors.chat())
    async with Dialed(shared_bot.other) as other:
        ann = named(await aside(shared_bot.links, gateway))
        bea = named(await aside(shared_bot.links, shared_bot.other))
        assert shared_bot.manages(gateway, "scope", **place)[0] == 409, "no person of the agent was seen there"
        before, marker = number(), number()
        await aside(group.mentions, guest, f"ping {before}")
        await aside(group.mentions, ann, f"ping {marker}")
        await aside(group.answer, f"pong {marker}")
        assert not shared_bot.model.asked(rf"ping {before}$"), "nobody owned the group"

        assert shared_bot.manages(gateway, "scope", **place)[0] == 200
        assert shared_bot.manages(shared_bot.other, "scope", **place)[0] == 409, "the first owner keeps it"
        assert shared_bot.manages(gateway, "principal", policy="any")[0] == 200
        of_bea, of_guest = number(), number()
        await aside(group.mentions, bea, f"ping {of_bea}")
        await aside(group.mentions, guest, f"ping {of_guest}")
        await aside(group.answer, f"pong {of_guest}")
        heard = await other.hears(f"ping {of_bea}")
        assert heard.source.chat_id == str(group.id)
        assert not shared_bot.model.asked(rf"ping {of_bea}$"), "it is for the agent that Bea is linked to"
        # What was for the other agent alone is all that the other agent got.
        await aside(shared_bot.writes, bea["id"], "marker")
        await other.hears("marker")
        assert len(other.texts()) == 2

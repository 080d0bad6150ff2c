"""A chat with the whole stock gateway, and everything around it."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from account import PONG, Account
from posthouse_server import Agent
from scripted_model import ScriptedModel
from stock_gateway import Gateway
from waiting import until

if TYPE_CHECKING:
    from conftest import Actors

# A stock gateway waits 30 s for the result of a send before the chat goes on.
AFTER_A_DEATH_S = 120.0
_numbers = itertools.count(1)


def number() -> str:
    """A number that no message has used before."""
    return str(next(_numbers))


@dataclass
class Chat:
    """One person in one chat with the agent, and the messages of that person."""

    actors: Actors
    agent: Agent
    model: ScriptedModel
    id: int
    written: list[str] = field(default_factory=list)
    updates: list[int] = field(default_factory=list)

    def ping(self, count: int = 1) -> list[str]:
        """Writes numbered messages. Returns when the server has confirmed them to the platform."""
        numbers = [self.inject() for _ in range(count)]
        until("the updates are taken", lambda: set(self.updates) <= self.actors.telegram.confirmed(), 60)
        return numbers

    def inject(self) -> str:
        new = number()
        bot = self.actors.bots[self.agent.instance_id]
        self.updates.append(self.actors.telegram.inject(bot, self.id, f"ping {new}")["update_id"])
        self.written.append(new)
        return new

    def answered(self) -> list[str]:
        return [n for text in self.actors.telegram.sent(self.id) for n in PONG.findall(text)]

    def wait_answered(self, numbers: list[str], timeout: float = 120.0) -> None:
        until(f"answers to {numbers}", lambda: set(numbers) <= set(self.answered()), timeout, 0.2)

    def account(self) -> Account:
        return Account(list(self.written), list(self.model.turns), self.actors.telegram.sent(self.id))


@dataclass
class StockAgent:
    actors: Actors
    agent: Agent
    model: ScriptedModel
    gateway: Gateway

    _rising: threading.Lock = field(default_factory=threading.Lock, kw_only=True)

    def chat(self) -> Chat:
        return Chat(self.actors, self.agent, self.model, self.actors.chat())

    def rise(self) -> None:
        """Starts the gateway unless it runs. The listener at its wake URL may be doing the same."""
        with self._rising:
            if not self.gateway.running():
                self.gateway.start()

    def connected(self, connected: bool = True) -> None:
        self.actors.server.wait_connected(self.agent, connected)

    def unread(self) -> int:
        return self.actors.server.unread(self.agent)

"""A server whose clock may call loopback addresses, and the stock agents that use it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator

from callback import Callback, seconds_from_now
from posthouse_server import Agent, Server
from stock_cron import CronHome

# Callbacks and wake URLs of these suites are all on this machine, without TLS.
ON_LOOPBACK = {"errand__allow_http": "true", "errand__allow_cidrs": "127.0.0.0/8"}


@dataclass
class Clock:
    server: Server
    folder: Path
    callback: Callback
    agents: list[Agent] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def agent(self, *options: str) -> Agent:
        """An agent of a tenant of its own."""
        name = f"heron-{next(self._numbers)}"
        self.server.tenant(f"acme-{name}")
        made = self.server.agent(name, f"acme-{name}", [], *options)
        self.agents.append(made)
        return made

    def home(self, agent: Agent | None = None, **named: Any) -> CronHome:
        """A home for the agent. Its fires come to this clock's callback unless it says otherwise."""
        agent = agent or self.agent()
        folder = self.folder / f"{agent.name}-{next(self._numbers)}"
        return CronHome(folder, agent, **{"callback_url": self.callback.url} | named)

    def job(self) -> str:
        """A job id that was not used before."""
        return f"job{next(self._numbers):09}"

    def no_secret_was_written(self) -> None:
        """Searches everything that a module's tests made the server print or store."""
        written = self.server.written()
        names = ("secret", "client_secret", "access_token", "refresh_token")
        secrets = [agent.printed[name] for agent in self.agents for name in names]
        for secret in secrets + [fire.token for fire in self.callback.fires]:
            found = [where for where, text in written.items() if secret.encode() in text]
            assert not found, f"{secret[:8]}... was written in {found}"

    def pass_by(self, home: CronHome, seconds: float) -> None:
        """Returns after a fire that was armed that far ahead: everything that was due before it has had its time."""
        job = self.job()
        home.client().arm(job, seconds_from_now(seconds))
        self.callback.wait(job, timeout=seconds + 60)

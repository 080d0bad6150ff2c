"""Fixtures: one Telegram, one server and one stock gateway for all modules with the same settings; agents, bots and
chats are fresh."""

from __future__ import annotations

import itertools
import json
import os
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, ContextManager, Iterator

import pytest

# The stock package looks for its home on import. It must not find the operator's.
_stock_home = tempfile.TemporaryDirectory(prefix="hermes-home-")
os.environ["HERMES_HOME"] = _stock_home.name
os.environ["HERMES_DISABLE_LAZY_INSTALLS"] = "1"
for name in [n for n in os.environ if n.lower().endswith("_proxy") or n.startswith("GATEWAY_RELAY_")]:
    del os.environ[name]
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "*"

from callback import Callback  # noqa: E402
from child import posthouse  # noqa: E402
from clock_fixture import ON_LOOPBACK, Clock  # noqa: E402
from posthouse_server import Agent, Server  # noqa: E402
from post_programs import PostAgent, Program  # noqa: E402
from stock_agent import AFTER_A_DEATH_S, StockAgent  # noqa: E402
from scripted_model import ScriptedModel  # noqa: E402
from stock_gateway import Gateway  # noqa: E402
from telegram_stand_in import TOKEN_SECRET, Telegram  # noqa: E402
from waiting import until  # noqa: E402
from wake_listener import WakeListener  # noqa: E402


@dataclass
class Actors:
    """A server, the Telegram stand-in, and the agents and people of the tests."""

    server: Server
    telegram: Telegram
    agents: list[Agent] = field(default_factory=list)
    bots: dict[str, str] = field(default_factory=dict)
    programs: list[Program] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def agent(self, bots: int = 1, mode: str = "webhook", wake_url: str | None = None, *options: str) -> Agent:
        """An agent of a tenant of its own, with bots of its own. `options` are further ones of `agent create`."""
        name = f"heron-{next(self._numbers)}"
        own = [self.server.bot(self.telegram.spare_bot(), mode) for _ in range(bots)]
        self.server.tenant(f"acme-{name}")
        waking = [] if wake_url is None else ["--wake-url", wake_url]
        made = self.server.agent(name, f"acme-{name}", own, *waking, *options)
        self.agents.append(made)
        if own:
            self.bots[made.instance_id] = own[0]
        return made

    def program(self, tenant: str) -> Program:
        """A program that writes to that tenant's agents."""
        self.programs.append(Program(self.server, self.server.client(tenant)))
        return self.programs[-1]

    def chat(self) -> int:
        """A new person."""
        return 500_000 + next(self._numbers)

    def writes(self, agent: Agent, chat: int, *texts: str) -> list[int]:
        """The person writes to the agent's bot. Returns after the server has accepted every message."""
        bot = self.bots[agent.instance_id]
        ids = [self.telegram.inject(bot, chat, text)["update_id"] for text in texts]
        until("the server takes the updates", lambda: set(ids) <= self.telegram.confirmed(), 120)
        return ids

    def no_secret_was_written(self) -> None:
        """Searches everything that a module's tests made the server print or store."""
        written = self.server.written()
        agents = [agent.printed[name] for agent in self.agents for name in ("secret", "client_secret")]
        for secret in [TOKEN_SECRET, *agents, *(program.secret for program in self.programs)]:
            found = [where for where, text in written.items() if secret.encode() in text]
            assert not found, f"{secret[:8]}... was written in {found}"


@pytest.fixture(scope="session", autouse=True)
def binary() -> str:
    path = posthouse()
    assert Path(path).is_file(), f"{path} is not there: build the server first, or set POSTHOUSE_BIN"
    return path


class Shared:
    """Objects shared by modules: created on first use, closed at the end of the session."""

    def __init__(self) -> None:
        self._made: dict[Any, Any] = {}
        self._closing = ExitStack()

    def get(self, key: Any, make: Callable[[], ContextManager[Any]]) -> Any:
        if key not in self._made:
            self._made[key] = self._closing.enter_context(make())
        return self._made[key]

    def close(self) -> None:
        self._closing.close()


@pytest.fixture(scope="session")
def shared() -> Iterator[Shared]:
    kept = Shared()
    try:
        yield kept
    finally:
        kept.close()


@contextmanager
def open_actors(folder: Path, settings: dict[str, str], tables: str = "") -> Iterator[Actors]:
    """`tables` are lines of `posthouse.toml`, for what no variable can set."""
    telegram = Telegram(folder, range(7001, 7201))
    server = Server(folder, telegram, **settings)
    try:
        telegram.open()
        server.open(tables)
        opened = Actors(server, telegram)
        yield opened
        opened.no_secret_was_written()
    finally:
        server.kill()
        telegram.kill()


def _settings(module: Any) -> dict[str, str]:
    """A module's `SETTINGS` are the differences of its server from the default."""
    return getattr(module, "SETTINGS", {})


@pytest.fixture(scope="module")
def actors(request: pytest.FixtureRequest, shared: Shared, tmp_path_factory: pytest.TempPathFactory) -> Actors:
    settings = _settings(request.module)
    made: Actors = shared.get(
        ("actors", *sorted(settings.items())), lambda: open_actors(tmp_path_factory.mktemp("actors"), settings))
    # A test of another module may have ended while the server was down.
    if not made.server.running():
        made.server.serve()
    return made


@pytest.fixture(scope="session")
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as scripted:
        yield scripted


@pytest.fixture(scope="module")
def clock(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clock]:
    """A server for tests of its clock; `SETTINGS` as for `actors`."""
    folder = tmp_path_factory.mktemp("clock")
    server = Server(folder, **ON_LOOPBACK | getattr(request.module, "SETTINGS", {}))
    with Callback() as callback:
        try:
            opened = Clock(server.open(), folder, callback)
            yield opened
            assert not callback.strays, f"the server called more than it was asked to: {callback.strays}"
            opened.no_secret_was_written()
        finally:
            server.kill()


@pytest.fixture(scope="module")
def listener() -> Iterator[WakeListener]:
    """The listener at the wake URL of a module's agent."""
    with WakeListener() as listening:
        yield listening


@contextmanager
def _stock_agent(actors: Actors, model: ScriptedModel, home: Path, config: dict[str, Any]) -> Iterator[StockAgent]:
    agent = actors.agent()
    gateway = Gateway(home, agent.env, model.base_url, **config)
    try:
        yield StockAgent(actors, agent, model, gateway)
    finally:
        gateway.kill()


@pytest.fixture(scope="module")
def shared_stock_agent(
        request: pytest.FixtureRequest, shared: Shared, actors: Actors, model: ScriptedModel,
        tmp_path_factory: pytest.TempPathFactory) -> StockAgent:
    """A module's `CONFIG` are additional sections of its agent's configuration."""
    config = getattr(request.module, "CONFIG", {})
    return shared.get(
        ("shared_stock_agent", id(actors), json.dumps(config, sort_keys=True)),
        lambda: _stock_agent(actors, model, tmp_path_factory.mktemp("hermes"), config))


@pytest.fixture
def stock_agent(shared_stock_agent: StockAgent) -> Iterator[StockAgent]:
    """Everything runs and the agent is connected, whatever the test before has done."""
    _set(shared_stock_agent)
    yield shared_stock_agent
    shared_stock_agent.model.forget_rules()


@contextmanager
def _post_agent(
        actors: Actors, model: ScriptedModel, home: Path, bots: int, without: tuple[str, ...],
        config: dict[str, Any]) -> Iterator[PostAgent]:
    with WakeListener() as listener:
        agent = actors.agent(bots, wake_url=f"{listener.url}/wake")
        environment = {k: v for k, v in agent.env.items() if k not in without}
        gateway = Gateway(home, environment, model.base_url, **config)
        made = PostAgent(actors, agent, model, gateway, actors.program(agent.tenant), listener)
        listener.wake = made.rise
        try:
            yield made
        finally:
            listener.wake = lambda: None
            gateway.kill()


@pytest.fixture(scope="module")
def staffed(
        request: pytest.FixtureRequest, shared: Shared, actors: Actors, model: ScriptedModel,
        tmp_path_factory: pytest.TempPathFactory) -> PostAgent:
    """Programs on one side, a stock gateway on the other that is started when its wake URL is called. A module says
    with `BOTS` how many bots the agent has, with `WITHOUT` what its environment lacks, and with `CONFIG` which
    additional sections its configuration has."""
    bots, without = getattr(request.module, "BOTS", 1), getattr(request.module, "WITHOUT", ())
    config = getattr(request.module, "CONFIG", {})
    return shared.get(
        ("post_agent", id(actors), bots, without, json.dumps(config, sort_keys=True)),
        lambda: _post_agent(actors, model, tmp_path_factory.mktemp("hermes"), bots, without, config))


@pytest.fixture
def post_agent(staffed: PostAgent) -> Iterator[PostAgent]:
    """Like `stock_agent`, for tests of the post."""
    _set(staffed)
    yield staffed
    staffed.model.forget_rules()


def _set(shared_stock_agent: StockAgent) -> None:
    shared_stock_agent.model.forget_rules()
    if not shared_stock_agent.actors.server.running():
        shared_stock_agent.actors.server.serve()
    shared_stock_agent.gateway.thaw()
    shared_stock_agent.rise()
    shared_stock_agent.connected()
    until("the inbox is empty", lambda: shared_stock_agent.unread() == 0, AFTER_A_DEATH_S)

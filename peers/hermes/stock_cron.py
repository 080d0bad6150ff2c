"""A stock agent with `cron.provider: chronos`: its home folder, its jobs, and the unmodified stock classes that call
the portal, run in this process."""

from __future__ import annotations

import json
import os
import re
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator

from cron.jobs import use_cron_store
from hermes_cli import auth
from hermes_constants import reset_hermes_home_override, set_hermes_home_override
from plugins.cron_providers.chronos import ChronosCronScheduler
from plugins.cron_providers.chronos._nas_client import NasCronClient, NasCronClientError
from plugins.cron_providers.chronos.verify import verify_nas_fire_token
from tools.cronjob_tools import cronjob

from child import clean_environment
from posthouse_server import Agent
from stock_gateway import config, hermes_command
from stock_version import IS_0_19

# No process listens there. For homes in which no turn runs.
NO_MODEL = "http://127.0.0.1:9/v1"
CREATED = re.compile(r"Created job: (\S+)")

__all__ = ["Client", "CronHome", "NasCronClientError", "Provider", "accepts"]


class CronHome:
    """The folder outlives every process that uses it, as on a real machine."""

    def __init__(self, folder: Path, agent: Agent, callback_url: str = "", model_base_url: str = NO_MODEL) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.agent = agent
        self.callback_url = callback_url
        self._model_base_url = model_base_url
        self.write_config()
        (folder / "auth.json").write_text(json.dumps(agent.printed["auth"]))
        # As the operator's guide says. The stored address alone is trusted on loopback only.
        self.environment = clean_environment() | {
            "HOME": str(folder), "HERMES_HOME": str(folder), "PYTHONUNBUFFERED": "1",
            "HERMES_DISABLE_LAZY_INSTALLS": "1", "HERMES_PORTAL_BASE_URL": agent.printed["portal_url"],
        }

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the server printed for the agent, plus the agent's own callback address."""
        lines = self.agent.printed["cron"] | {"cron.chronos.callback_url": self.callback_url}
        nested: dict[str, Any] = {}
        for path, value in lines.items():
            *sections, name = path.split(".")
            section = nested
            for each in sections:
                section = section.setdefault(each, {})
            section[name] = value
        return nested

    def write_config(self) -> None:
        # JSON is valid YAML, so the stock reader accepts it.
        (self.folder / "config.yaml").write_text(json.dumps(config(self._model_base_url) | self.settings, indent=2))

    # Commands.

    def hermes(self, *command: str) -> str:
        done = subprocess.run(
            [*hermes_command(), *command], env=self.environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"hermes {' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def create(self, schedule: str, prompt: str, repeat: int | None = None) -> str:
        """Creates a job as a person would. The stock command arms it before it returns."""
        often = [] if repeat is None else ["--repeat", str(repeat)]
        told = CREATED.search(self.hermes("cron", "create", schedule, prompt, *often))
        assert told is not None
        return told.group(1)

    # Stored state.

    @property
    def jobs_file(self) -> Path:
        return self.folder / "cron" / "jobs.json"

    def jobs(self) -> dict[str, dict[str, Any]]:
        if not self.jobs_file.exists():
            return {}
        return {job["id"]: job for job in json.loads(self.jobs_file.read_text())["jobs"]}

    def is_done(self, job: str) -> bool:
        """The job has reached its limit: 0.19.0 deletes it, later versions keep it for a while without a next
        time."""
        kept = self.jobs().get(job)
        if kept is None:
            return IS_0_19
        return kept["state"] == "completed" and not kept["enabled"] and kept["next_run_at"] is None

    def login(self) -> dict[str, Any]:
        return json.loads((self.folder / "auth.json").read_text())["providers"]["nous"]

    def change_login(self, **fields: Any) -> None:
        kept = json.loads((self.folder / "auth.json").read_text())
        kept["providers"]["nous"] |= fields
        (self.folder / "auth.json").write_text(json.dumps(kept))

    # In this process.

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Stock code called inside uses this home. One home at a time, because part of it is environment
        variables."""
        names = {
            "HERMES_SHARED_AUTH_DIR": str(self.folder / "shared"),
            "HERMES_PORTAL_BASE_URL": self.agent.printed["portal_url"],
        }
        before = {name: os.environ.get(name) for name in names}
        os.environ.update(names)
        token = set_hermes_home_override(self.folder)
        # 0.20 caches a token for five seconds, whichever home it belongs to. Here every home stands for a separate
        # process.
        auth._RESOLVE_TOKEN_CACHE = None
        try:
            with use_cron_store(self.folder):
                yield
        finally:
            auth._RESOLVE_TOKEN_CACHE = None
            reset_hermes_home_override(token)
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})

    def asks(self, **wish: Any) -> dict[str, Any]:
        """The tool with which an agent creates its own jobs. It arms them before it returns."""
        with self.entered():
            told = json.loads(cronjob(**wish))
        assert told["success"], told
        return told

    def client(self) -> "Client":
        return Client(self)

    def provider(self) -> "Provider":
        return Provider(self)


class Client(NasCronClient):
    """A stock client that records its requests."""

    def __init__(self, home: CronHome) -> None:
        super().__init__(home.agent.printed["portal_url"])
        self.home = home
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def _access_token(self) -> str:
        with self.home.entered():
            return super()._access_token()

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((path.rpartition("/")[2], body))
        return super()._post(path, body)

    def _get(self, path: str, params: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((path.rpartition("/")[2], params))
        return super()._get(path, params)

    # Shortcuts for tests.

    def arm(self, job: str, fire_at: str) -> str:
        """Arms as the stock provider does, and returns the schedule's id."""
        return self.provision(
            job_id=job, fire_at=fire_at, agent_callback_url=self.home.callback_url,
            dedup_key=f"{job}:{fire_at}")["schedule_id"]

    def armed(self) -> dict[str, str]:
        return {arm["job_id"]: arm["fire_at"] for arm in self.list_armed()}


class Provider(ChronosCronScheduler):
    """The stock provider with a client that records its requests."""

    def __init__(self, home: CronHome) -> None:
        super().__init__()
        self.home = home
        self._client = home.client()

    @property
    def asked(self) -> list[str]:
        return [verb for verb, _ in self._client.asked]

    def reconcile(self) -> None:
        with self.home.entered():
            super().reconcile()


def accepts(token: str, agent: Agent, **different: Any) -> dict[str, Any] | None:
    """The claims, if the stock verifier with this agent's settings accepts the token."""
    printed = agent.printed
    named = {
        "expected_audience": printed["audience"], "jwks_or_key": printed["jwks_url"],
        "issuer": printed["portal_url"],
    } | different
    return verify_nas_fire_token(token=token, **named)

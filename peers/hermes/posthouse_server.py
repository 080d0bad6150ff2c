"""The server as a process: every command line and setting that these suites rely on is in this file."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from child import Child, clean_environment, posthouse
from place import Place
from telegram_stand_in import Telegram
from waiting import until

VARIABLE = re.compile(r"^([A-Z_]+)=(.*)$", re.MULTILINE)
CRON_YAML = re.compile(r"config\.yaml:\n\n(cron:\n(?:  .*\n)+)")


@dataclass
class Agent:
    """The output of `posthouse agent create --json`."""

    name: str
    tenant: str
    instance_id: str
    gateway_id: str
    secret: str
    env: dict[str, str]
    printed: dict[str, Any] = field(default_factory=dict)
    """All of it, as it was printed."""


class Server(Child):
    def __init__(self, folder: Path, telegram: Telegram | None = None, **settings: str) -> None:
        """`settings` are overrides such as `relay__ack_lease="3s"`."""
        super().__init__("server", folder / "server.log")
        self.folder = folder / "server"
        self._files = folder
        # A restarted server must use the same port.
        self._place = Place()
        self._telegram = telegram
        self._settings = {f"POSTHOUSE_{key.upper()}": value for key, value in settings.items()}

    # Start and stop.

    def open(self, tables: str = "") -> "Server":
        """`tables` are added to its configuration file."""
        self.run("init", str(self.folder))
        with (self.folder / "posthouse.toml").open("a") as file:
            file.write(tables)
        return self.serve()

    def serve(self) -> "Server":
        command = [posthouse(), "serve", "--config", str(self.folder / "posthouse.toml")]

        def opened() -> bool:
            said = len(self.log())
            try:
                return bool(self.spawn_with_url(command, self._environment()))
            except AssertionError:
                # A process that does not use `place.py` may hold the port for a moment.
                if "in use" not in self.log()[said:]:
                    raise
                return False

        until("the server finds its port free", opened)
        return self

    def _environment(self) -> dict[str, str]:
        extra = {
            "POSTHOUSE_SERVER__LISTEN": f"127.0.0.1:{self._place.port}",
            "POSTHOUSE_PLATFORMS__WEB__PAGE": "true",
        } | self._settings
        if self._telegram is not None:
            extra["POSTHOUSE_PLATFORMS__TELEGRAM__API_BASE_URL"] = self._telegram.url
        return clean_environment(extra)

    def kill_and_serve(self) -> None:
        self.kill()
        self.serve()

    # The operator's commands.

    def tenant(self, name: str) -> None:
        self.admin("tenant", "create", name)

    def bot(self, bot: str, mode: str = "webhook", kind: str = "--open") -> str:
        assert self._telegram is not None
        token_file = self._files / f"token-{bot}"
        token_file.write_text(self._telegram.token(bot))
        token_file.chmod(0o600)
        self.admin("bot", "create", "telegram", "--id", bot, "--mode", mode, kind, "--token-file", str(token_file))
        return bot

    def shared_bot(self, bot: str) -> str:
        """A bot that the agents of every tenant may use."""
        self.bot(bot, kind="--shared")
        self.admin("bot", "change", f"telegram:{bot}", "--all-tenants")
        return bot

    def use_bot(self, agent: Agent, bot: str) -> None:
        """Lets an agent use a shared bot, and names the bot in the agent's environment."""
        self.admin("agent", "change", agent.instance_id, "--use-bot", f"telegram:{bot}")
        agent.env["GATEWAY_RELAY_PLATFORMS"] = "telegram"
        agent.env["GATEWAY_RELAY_BOT_IDS"] = json.dumps({"telegram": {"botId": bot}})

    def agent(self, name: str, tenant: str, bots: list[str], *options: str) -> Agent:
        named = [part for bot in bots for part in ("--bot", f"telegram:{bot}")]
        made = self.admin("agent", "create", name, "--tenant", tenant, *named, *options)
        return Agent(name, tenant, made["instance_id"], made["gateway_id"], made["secret"], made["env"], made)

    def client(self, tenant: str) -> dict[str, Any]:
        """A credential for a tenant's own programs."""
        return self.admin("client", "create", "--tenant", tenant)

    def invite(self, person: str, agent: Agent) -> str:
        """The one-time secret of a link to the chat page, for this agent only."""
        made = self.admin("invite", "create", person, "--tenant", agent.tenant, "--agent", agent.name)
        return made["url"].split("#invite=")[1]

    def revoke(self, agent: Agent) -> None:
        self.admin("agent", "revoke", agent.instance_id)

    def remove(self, agent: Agent) -> None:
        self.admin("agent", "remove", agent.instance_id, "--yes")

    def show(self, agent: Agent) -> dict[str, Any]:
        return self.admin("agent", "show", agent.instance_id)

    def connected(self, agent: Agent) -> bool:
        return bool(self.show(agent)["connected"])

    def unread(self, agent: Agent) -> int:
        """Entries that the agent has not acknowledged yet."""
        return int(self.show(agent)["unread"])

    def wait_connected(self, agent: Agent, connected: bool = True, timeout: float = 120.0) -> None:
        state = "connected" if connected else "away"
        until(f"{agent.name} is {state}", lambda: self.connected(agent) == connected, timeout, 0.1)

    def agent_cron(self, agent: Agent, callback_url: str) -> tuple[str, dict[str, str]]:
        """Sets the agent's callback URL. Returns what is printed for its configuration and for its environment."""
        text = self.run("--dir", str(self.folder), "agent", "cron", agent.name, "--callback-url", callback_url)
        pasted = CRON_YAML.search(text)
        assert pasted is not None, text
        return pasted.group(1), dict(VARIABLE.findall(text))

    def job(self, agent: Agent, job: str) -> dict[str, Any]:
        return self.admin("job", "show", agent.instance_id, job)

    def job_history(self, agent: Agent, job: str) -> list[dict[str, Any]]:
        """Every attempt to call the agent for this job, oldest first."""
        return list(reversed(self.listed("job", "history", agent.instance_id, job)))

    def written(self) -> dict[str, bytes]:
        """Its log and every file in its folder, except for the two key files."""
        found = {"its log": self.log().encode()}
        for path in self.folder.rglob("*"):
            if path.is_file() and path.name not in ("vault.key", "admin.token"):
                # The server may delete a file meanwhile.
                with contextlib.suppress(FileNotFoundError):
                    found[path.name] = path.read_bytes()
        return found

    def trace(self, entry: str) -> dict[str, Any]:
        return self.admin("message", "trace", entry)

    def admin(self, *command: str) -> Any:
        return json.loads(self.run("--dir", str(self.folder), *command, "--json"))

    def listed(self, *command: str) -> list[dict[str, Any]]:
        return self.admin(*command)["items"]

    def run(self, *command: str) -> str:
        done = subprocess.run(
            [posthouse(), *command], env=self._environment(), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"posthouse {' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

"""The whole stock gateway, `hermes gateway run`, as a process that can be stopped, killed and frozen."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, Mapping

from child import Child, clean_environment
from scripted_model import CONTEXT_LENGTH, MODEL
from waiting import until


def hermes_command() -> list[str]:
    """The stock entry point of the environment that runs these tests."""
    given = os.environ.get("HERMES_BIN")
    return [given] if given else [sys.executable, str(Path(sys.executable).with_name("hermes"))]


def config(model_base_url: str) -> dict:
    """Stock behaviour, without what would install packages, call external hosts, or start turns by itself."""
    return {
        "model": {
            "default": MODEL, "provider": "custom", "base_url": model_base_url, "api_key": "x",
            "context_length": CONTEXT_LENGTH, "supports_vision": True,
        },
        # One cheap tool, so that a scripted turn can call one. No shell, no browser, no web.
        "toolsets": ["todo"],
        "platform_toolsets": {"telegram": ["todo"], "relay": ["todo"]},
        "memory": {"memory_enabled": False, "user_profile_enabled": False, "nudge_interval": 0},
        "skills": {"creation_nudge_interval": 0},
        "security": {"allow_lazy_installs": False, "tirith_enabled": False},
        "auxiliary": {"title_generation": {"enabled": False}},
        "model_catalog": {"enabled": False},
        "curator": {"enabled": False},
        "kanban": {"dispatch_in_gateway": False},
        "lsp": {"enabled": False},
        "onboarding": {"profile_build": "off"},
        "agent": {"environment_probe": False, "gateway_notify_interval": 0},
        # The suites restart it more often than a supervisor would.
        "gateway": {
            "respawn_storm": {"max_starts": 0},
            "restart_loop_guard": {"max_restarts": 1000, "window_seconds": 1},
        },
    }


class Gateway(Child):
    """One stock agent. Its home folder outlives its process, as on a real machine."""

    def __init__(self, home: Path, relay_env: Mapping[str, str], model_base_url: str, **settings: Any) -> None:
        """`settings` are additional sections of its configuration."""
        home.mkdir(parents=True, exist_ok=True)
        super().__init__("stock gateway", home / "output.log")
        self.home = home
        # JSON is valid YAML, so the stock reader accepts it.
        (home / "config.yaml").write_text(json.dumps(config(model_base_url) | settings, indent=2))
        self._environment = clean_environment() | {
            "HOME": str(home), "HERMES_HOME": str(home), "PYTHONUNBUFFERED": "1",
            "HERMES_DISABLE_LAZY_INSTALLS": "1",
        } | dict(relay_env)
        self._frozen = False

    def start(self) -> "Gateway":
        self.spawn([*hermes_command(), "gateway", "run"], self._environment)
        return self

    def stop(self, timeout: float = 120.0) -> int:
        """An orderly stop: after SIGTERM it sends `going_idle`. The stock exit code is 1."""
        self.thaw()
        return super().stop(timeout)

    def kill(self) -> None:
        super().kill()
        self._frozen = False

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        self._frozen = True
        until("the gateway stands still", lambda: self._state() == "T", 10, 0.01)

    def thaw(self) -> None:
        if self._frozen and self.running():
            os.kill(self.pid, signal.SIGCONT)
        self._frozen = False

    def _state(self) -> str:
        stat = Path(f"/proc/{self.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0]

    def resident_kib(self) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")), 0)

    def origins(self) -> list[dict[str, Any]]:
        """The chats that it has stored, as it read them from the wire."""
        found: list[dict[str, Any]] = []

        def collect(value: Any) -> None:
            if isinstance(value, dict):
                if "chat_id" in value and "platform" in value:
                    found.append(value)
                value = list(value.values())
            for one in value if isinstance(value, list) else []:
                collect(one)

        for path in self.home.rglob("sessions.json"):
            collect(json.loads(path.read_text()))
        return found

    def log(self) -> str:
        """Its complete output, for the report of a failing test and for the search for secrets."""
        parts = [self.log_file, *sorted((self.home / "logs").glob("*"))]
        return "\n".join(f"== {p.name}\n{p.read_text(errors='replace')}" for p in parts if p.is_file())

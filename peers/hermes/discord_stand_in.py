"""Discord, played by Posthouse's own stand-in (`posthouse stand-in discord`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from child import Child, call, clean_environment, posthouse
from waiting import until

APPLICATION = "1100000000000000001"
# Unique, so that the search for leaked secrets finds it.
TOKEN_SECRET = "canary-discord-token"
ANA = {"id": "77", "username": "ana", "global_name": "Ana"}


class Discord(Child):
    """Two servers that the bot is in, each with one channel."""

    CHANNELS = {"900": "910", "950": "960"}

    def __init__(self, folder: Path) -> None:
        super().__init__("discord stand-in", folder / "discord.log")

    def open(self) -> "Discord":
        command = [posthouse(), "stand-in", "discord", "--listen", "127.0.0.1:0"]
        self.spawn_with_url([*command, "--bot", f"{APPLICATION}:{TOKEN_SECRET}@posty"], clean_environment())
        for guild, channel in self.CHANNELS.items():
            channels = [{"id": channel, "name": "general"}]
            members = [{"user": ANA}]
            self._control("POST", "guilds", {
                "id": guild, "name": f"Guild {guild}", "channels": channels, "members": members})
        return self

    @property
    def api_url(self) -> str:
        return f"{self.url}/api/v10"

    def wait_connected(self) -> None:
        """Waits until the bot is connected to the gateway."""
        def connected() -> bool:
            return any(one["connected"] for one in self._control("GET", "sockets")["sessions"])

        until("the bot is connected to Discord's gateway", connected, 60)

    def mention(self, guild: str, text: str) -> None:
        """Ana speaks to the bot in the channel of a server."""
        self._inject("message", text=f"<@{APPLICATION}> {text}", **self._where(guild))

    def command(self, guild: str, name: str) -> None:
        """Ana uses a slash command in the channel of a server."""
        self._inject("command", name=name, unregistered=True, **self._where(guild))

    def sent(self, guild: str) -> list[str]:
        """Messages of the bot in the channel of a server, oldest first."""
        found = self._control("GET", "transcript?" + urlencode({"chat": self.CHANNELS[guild], "kind": "sent"}))
        return [row.get("text") or "" for row in found["rows"]]

    def said(self, guild: str, text: str, timeout: float = 120.0) -> str:
        """Waits until the bot has written a message that contains this text."""
        def look() -> str | None:
            return next((one for one in self.sent(guild) if text in one), None)

        return until(f"{text!r} in server {guild}", look, timeout)

    def _where(self, guild: str) -> dict[str, Any]:
        return {"from": ANA, "in": {"guild_id": guild, "channel_id": self.CHANNELS[guild]}}

    def _inject(self, do: str, **fields: Any) -> Any:
        return self._control("POST", "inject", {"do": do} | fields)

    def _control(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = call(method, f"{self.url}/_stand-in/{path}", body)
        assert 200 <= status < 300, f"stand-in: {method} {path}: {status} {answer}"
        return answer

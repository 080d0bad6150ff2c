"""Every chat platform, each played by a stand-in of its own (`posthouse stand-in PLATFORM`), with one bot and one person
who writes to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping
from urllib.parse import urlencode

from account import PONG
from child import Child, call, clean_environment, posthouse
from posthouse_server import Server
from waiting import until

# Unique, so that the search for leaked secrets finds it. An AES key of WeCom has 43 letters and digits.
SECRET = "canaryOfPlatforms"
AES_KEY = f"{SECRET:a<43}"
POSTY, ROOM = "@posty:hs.test", "!ana"


@dataclass(frozen=True)
class Recipe:
    """How to make a bot of one platform. In texts, `{url}` and `{address}` are those of the stand-in."""

    platform: str
    """Its name on the wire to the agent."""
    stand_in: tuple[str, ...]
    """Words after `posthouse stand-in`."""
    options: tuple[str, ...] = ()
    """Options of `posthouse bot create`."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    setup: tuple[str, Mapping[str, Any]] | None = None
    """The control call that gives the platform the server's address of the bot, without the `url`."""
    before: tuple[Mapping[str, Any], ...] = ()
    """What the person does before the first message."""
    ready: str | None = None
    """Kind of the row that shows that messages can reach the server."""
    message: Mapping[str, Any] = field(default_factory=lambda: {"do": "message"})
    """The person's messages, without the text."""


RECIPES = (
    Recipe(
        "telegram", ("telegram", "--bot", f"7901:{SECRET}"),
        ("--mode", "poll", "--api-base-url", "{url}"), {"token": f"7901:{SECRET}"},
        message={"chat_id": 79, "from": {"id": 79, "is_bot": False, "first_name": "Ana"}}),
    Recipe(
        "discord", ("discord", "--bot", f"1100000000000000079:{SECRET}@posty"),
        ("--api-base-url", "{url}/api/v10"), {"token": SECRET}, ready="identified"),
    Recipe(
        "slack", ("slack", "--app", f"A79:xoxb-{SECRET}:xapp-{SECRET}:{SECRET}-signing@posty"),
        ("--api-base-url", "{url}/api"), {"token": f"xoxb-{SECRET}", "app-token": f"xapp-{SECRET}"},
        ready="connected"),
    Recipe(
        "whatsapp_cloud", ("whatsapp", "--number", f"106:{SECRET}:{SECRET}-app:unused"),
        ("--api-base-url", "{url}", "--set", "phone_number_id=106"),
        {"token": SECRET, "app-secret": f"{SECRET}-app"}, ready="webhook_verified"),
    Recipe(
        "sms", ("twilio", "--account", f"AC1:{SECRET}:+15550100"),
        ("--api-base-url", "{url}", "--set", "account_sid=AC1", "--set", "number=+15550100"),
        {"auth-token": SECRET}, setup=("webhook", {})),
    Recipe(
        # A person of another number: stock keeps one platform for each chat id, whatever platform the id is of.
        "whatsapp", ("twilio", "--account", f"AC2:{SECRET}:+15550101"),
        ("--api-base-url", "{url}", "--set", "account_sid=AC2", "--set", "number=+15550101"),
        {"auth-token": SECRET}, setup=("webhook", {}), message={"do": "message", "from": "whatsapp:+15550178"}),
    Recipe(
        "wecom_callback", ("wecom", "--app", f"ww1:1000002:{SECRET}:{SECRET}:{AES_KEY}"),
        ("--api-base-url", "{url}", "--set", "corp_id=ww1", "--set", "agent_id=1000002"),
        {"api-secret": SECRET, "token": SECRET, "encoding-aes-key": AES_KEY},
        setup=("callback", {}), ready="callback_verified"),
    Recipe(
        "wecom", ("wecom", "--ai-bot", f"AIB1:{SECRET}:{SECRET}:{AES_KEY}"),
        ("--api-base-url", "{url}", "--set", "socket_url=ws://{address}/ws", "--set", "bot_id=AIB1"),
        {"api-secret": SECRET}, ready="connected"),
    Recipe(
        "feishu", ("feishu", "--app", f"cli_a1:{SECRET}:{SECRET}-key:{SECRET}-token@posty"),
        ("--api-base-url", "{url}", "--set", "app_id=cli_a1"),
        {"app-secret": SECRET, "encrypt-key": f"{SECRET}-key", "verification-token": f"{SECRET}-token"},
        setup=("url", {}), ready="url_verified"),
    Recipe(
        "matrix", ("matrix", "--account", f"{POSTY}={SECRET}={SECRET}-hs"), ("--set", "homeserver_url={url}"),
        {"token": SECRET, "hs-token": f"{SECRET}-hs"}, setup=("url", {"user": POSTY}),
        before=(
            {"do": "room", "room": ROOM, "members": ["@ana:hs.test"]},
            {"do": "invite", "room": ROOM, "user": POSTY}),
        ready="joined", message={"do": "message", "room": ROOM}),
)
# Its sender gets no answers.
WEBHOOK = Recipe(
    "webhook", ("webhook",), ("--id", "build", "--set", "schemes=bearer", "--set", "template={{text}}"),
    {"bearer-token": SECRET})


class ChatPlatform(Child):
    """One platform. Only this class knows the requests of its control API."""

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        super().__init__(f"stand-in for {recipe.platform}", folder / f"{recipe.platform}.log")
        self.name = recipe.platform
        self.bot = ""
        """`PLATFORM:ID`."""
        self.door = ""
        """The server's address for this bot."""
        self._recipe = recipe
        self._folder = folder

    def open(self, server: Server) -> "ChatPlatform":
        """Starts it, makes its bot, and tells the platform where the server is."""
        self.spawn_with_url([posthouse(), "stand-in", *self._recipe.stand_in], clean_environment())
        address = self.url.removeprefix("http://")
        words = [word.format(url=self.url, address=address) for word in self._recipe.options]
        for name, secret in self._recipe.secrets.items():
            file = self._folder / f"{self.name}-{name}"
            file.write_text(secret)
            file.chmod(0o600)
            words += [f"--{name}-file", str(file)]
        made = server.admin("bot", "create", self.name, "--open", *words)
        self.bot = f"{self.name}:{made['id']}"
        self.door = f"{server.url}/door/{self.name}/{made['id']}"
        if self._recipe.setup is not None:
            path, body = self._recipe.setup
            self._control("POST", path, {**body, "url": self.door})
        return self

    def wait_ready(self) -> None:
        for injection in self._recipe.before:
            self._control("POST", "inject", injection)
        kind = self._recipe.ready
        if kind is not None:
            until(f"{self.name} has a row {kind}", lambda: self._rows(kind=kind), 120)

    def writes(self, text: str) -> None:
        """The person writes to the bot."""
        self._control("POST", "inject", {**self._recipe.message, "text": text})

    def sends_webhook(self, text: str) -> None:
        """The service sends an event that becomes this text."""
        sent = {"do": "send", "url": self.door, "scheme": "bearer", "secret": SECRET, "body": {"text": text}}
        self._control("POST", "inject", sent)

    def pongs(self) -> list[str]:
        """The numbers that the agent has answered anywhere on this platform, oldest first."""
        return [one for row in self._rows(kind="sent") for one in PONG.findall(row.get("text") or "")]

    def _rows(self, **query: str) -> list[dict[str, Any]]:
        found = self._control("GET", "transcript?" + urlencode(query))
        return found["rows"] if isinstance(found, dict) else found

    def _control(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = call(method, f"{self.url}/_stand-in/{path}", body)
        assert 200 <= status < 300, f"{self.name}: {method} {path}: {status} {answer}"
        return answer

"""The built-in web chat as a person with an open page uses it: over HTTP, reading the room's stream."""

from __future__ import annotations

import json
import threading
import urllib.request
import uuid
from typing import Any

from child import call, direct
from posthouse_server import Agent, Server
from waiting import until


class Page:
    """One person's room with one agent. `with Page(server, agent, "Ann") as page`."""

    def __init__(self, server: Server, agent: Agent, person: str) -> None:
        self._server, self._agent, self._person = server, agent, person
        self._changed = threading.Lock()
        self._shown: dict[str, dict[str, Any]] = {}
        self._delivered: set[str] = set()
        self._turn_is_open = False
        self._draft: str | None = None
        self._cookie = self._sign_in(server.invite(person, agent))
        self._room = self._enter()["room"]
        stream = urllib.request.Request(self._url("stream"), headers={"Cookie": self._cookie})
        self._stream = direct.open(stream, timeout=120)
        self._reader = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Page":
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.fp.raw._sock.shutdown(2)  # Wakes the reader; closing alone would wait for it.
        self._reader.join(10)
        self._stream.close()

    def say(self, text: str, *files: str) -> dict[str, Any]:
        """Writes a message with uploaded files. Returns when the server has accepted it."""
        message = {"text": text, "nonce": uuid.uuid4().hex, "files": list(files)}
        status, answer = self._post(self._url("messages"), message)
        assert status == 200, f"web chat: {status} {answer}"
        return answer

    def upload(self, name: str, mime: str, content: bytes) -> str:
        """Uploads a file for a message. Returns its id."""
        headers = self._own_origin() | {"Content-Type": mime, "X-Media-Filename": name}
        request = urllib.request.Request(self._url("files"), content, headers, method="POST")
        with direct.open(request, timeout=120) as answer:
            return json.load(answer)["media_id"]

    def file(self, name: str, timeout: float = 120.0) -> bytes:
        """Waits for a file of the agent and downloads it."""
        def look() -> str | None:
            with self._changed:
                lines = [line for line in self._shown.values() if line["author"] == "agent"]
            return next((file["media_id"] for line in lines for file in line["files"] if file["filename"] == name), None)

        found = until(f"{name} on the page of {self._person}", look, timeout)
        request = urllib.request.Request(f"{self._url('files')}/{found}", headers={"Cookie": self._cookie})
        with direct.open(request, timeout=120) as answer:
            return answer.read()

    def answers(self) -> list[str]:
        """The agent's messages on the page, oldest first, with the draft of its next one."""
        with self._changed:
            texts = [line["text"] for line in self._shown.values() if line["author"] == "agent"]
            return texts if self._draft is None else [*texts, self._draft]

    def sees(self, text: str, timeout: float = 120.0) -> str:
        def look() -> str | None:
            return next((one for one in self.answers() if text in one), None)

        return until(f"{text!r} on the page of {self._person}", look, timeout)

    def prompt(self) -> dict[str, Any] | None:
        """The latest question with buttons that has no answer yet."""
        with self._changed:
            asked = [line for line in self._shown.values() if line.get("prompt")]
        return asked[-1] if asked and asked[-1]["prompt"]["pressed"] is None else None

    def press(self, message: str, option: str) -> None:
        """Presses a button. Returns when the server has accepted it."""
        status, answer = self._post(self._url("presses"), {"message_id": message, "option_id": option})
        assert status == 200, f"web chat: {status} {answer}"

    def is_delivered(self, message: str, timeout: float = 120.0) -> None:
        """Waits until the page shows that the agent has acknowledged a message."""
        until(f"{message} is delivered", lambda: message in self._delivered, timeout)

    def turn_is(self, is_open: bool, timeout: float = 120.0) -> None:
        """Waits until the page shows that the agent works, or that it does not."""
        until(f"the turn is {'open' if is_open else 'over'}", lambda: self._turn_is_open == is_open, timeout)

    def history(self) -> list[str]:
        """The agent's messages, as a newly opened page shows them."""
        return [line["text"] for line in self._enter()["history"] if line["author"] == "agent"]

    def _enter(self) -> dict[str, Any]:
        status, answer = self._post(f"{self._server.url}/chat/api/rooms", {"agent": self._agent.instance_id})
        assert status == 200, f"web chat: {status} {answer}"
        return answer

    def _sign_in(self, secret: str) -> str:
        """Exchanges the secret of an invitation link for a session cookie."""
        headers = {"Origin": self._server.url, "Content-Type": "application/json"}
        data = json.dumps({"secret": secret}).encode()
        request = urllib.request.Request(f"{self._server.url}/chat/api/session", data, headers, method="POST")
        with direct.open(request, timeout=120) as answer:
            return answer.headers["Set-Cookie"].split(";")[0]

    def _post(self, url: str, body: dict[str, Any]) -> tuple[int, Any]:
        return call("POST", url, body, self._own_origin())

    def _own_origin(self) -> dict[str, str]:
        # Requests that change something must have the page's own origin.
        return {"Origin": self._server.url, "Cookie": self._cookie}

    def _url(self, what: str) -> str:
        return f"{self._server.url}/chat/api/rooms/{self._room}/{what}"

    def _watch(self) -> None:
        event = ""
        try:
            for raw in self._stream:
                name, _, value = raw.decode().rstrip("\r\n").partition(": ")
                if name == "event":
                    event = value
                elif name == "data":
                    self._show(event, json.loads(value))
        except (OSError, ValueError):
            pass  # The page or the server was closed.

    def _show(self, event: str, data: dict[str, Any]) -> None:
        with self._changed:
            if event == "line":
                if data["author"] == "agent":
                    self._draft = None
                self._shown[data["message_id"]] = data
            elif event == "edit" and data["message_id"] in self._shown:
                self._shown[data["message_id"]]["text"] = data["text"]
            elif event == "marks" and data["message_id"] in self._shown:
                self._shown[data["message_id"]].update(data)
            elif event == "draft":
                self._draft = data["text"]
            elif event == "delivered":
                self._delivered.add(data["message_id"])
            elif event == "turn":
                self._turn_is_open = data["open"]

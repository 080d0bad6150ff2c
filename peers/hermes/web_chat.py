"""The built-in web chat, as a person with the page open uses it: over HTTP, watching the room's stream."""

from __future__ import annotations

import json
import threading
import urllib.request
import uuid
from typing import Any

from child import call, direct
from house import Agent, House
from waiting import until


class Page:
    """One person's room with one agent. `with Page(house, agent, "Ann") as page`."""

    def __init__(self, house: House, agent: Agent, person: str) -> None:
        self._house, self._agent, self._person = house, agent, person
        self._changed = threading.Lock()
        self._shown: dict[str, dict[str, Any]] = {}
        self._room = self._enter()["room"]
        self._stream = direct.open(urllib.request.Request(self._url("stream")), timeout=120)
        self._reader = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Page":
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.fp.raw._sock.shutdown(2)  # Wakes the reader; closing alone would wait for it.
        self._reader.join(10)
        self._stream.close()

    def say(self, text: str) -> dict[str, Any]:
        """Types a message; returns when the house has taken it."""
        status, answer = self._post(self._url("messages"), {"text": text, "nonce": uuid.uuid4().hex})
        assert status == 200, f"web chat: {status} {answer}"
        return answer

    def answers(self) -> list[str]:
        """What the page shows of the agent, oldest first."""
        with self._changed:
            return [line["text"] for line in self._shown.values() if line["author"] == "agent"]

    def sees(self, text: str, timeout: float = 30.0) -> str:
        def look() -> str | None:
            return next((one for one in self.answers() if text in one), None)

        return until(f"{text!r} on the page of {self._person}", look, timeout)

    def history(self) -> list[str]:
        """What the agent said, as a page that is opened anew finds it."""
        return [line["text"] for line in self._enter()["history"] if line["author"] == "agent"]

    def _enter(self) -> dict[str, Any]:
        entering = {"agent": self._agent.instance_id, "person": self._person}
        status, answer = self._post(f"{self._house.url}/chat/api/rooms", entering)
        assert status == 200, f"web chat: {status} {answer}"
        return answer

    def _post(self, url: str, body: dict[str, Any]) -> tuple[int, Any]:
        # Whatever changes something must say that it comes from the page itself.
        return call("POST", url, body, {"Origin": self._house.url})

    def _url(self, what: str) -> str:
        return f"{self._house.url}/chat/api/rooms/{self._room}/{what}"

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
            pass  # The page was closed, or the house was.

    def _show(self, event: str, data: dict[str, Any]) -> None:
        with self._changed:
            if event == "line":
                self._shown[data["message_id"]] = data
            elif event == "edit" and data["message_id"] in self._shown:
                self._shown[data["message_id"]]["text"] = data["text"]

"""Telegram, played by Posthouse's own stand-in (`posthouse stand-in telegram`)."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from child import Child, call, clean_environment, direct, posthouse
from waiting import until

# Unique, so that the search for leaked secrets finds it.
TOKEN_SECRET = "canary-telegram-token"


class Telegram(Child):
    def __init__(self, folder: Path, bots: range) -> None:
        super().__init__("telegram stand-in", folder / "telegram.log")
        self._spare = list(bots)
        self._bots = list(bots)

    def open(self) -> "Telegram":
        command = [posthouse(), "stand-in", "telegram", "--listen", "127.0.0.1:0"]
        for bot in self._bots:
            command += ["--bot", self.token(bot)]
        self.spawn_with_url(command, clean_environment())
        return self

    @staticmethod
    def token(bot: int | str) -> str:
        return f"{bot}:{TOKEN_SECRET}-{bot}"

    def spare_bot(self) -> str:
        """A bot that was not used before, so that tests can share a stand-in."""
        return str(self._spare.pop(0))

    # Its control API. Only this file knows the request formats.

    def inject(self, bot: str, chat: int, text: str, **more: Any) -> dict[str, Any]:
        """A person writes to the bot. Returns the update's ids."""
        person = {"id": abs(chat), "is_bot": False, "first_name": "Ann"}
        return self._control("POST", "inject", {"bot": int(bot), "chat_id": chat, "text": text, "from": person} | more)

    def press(self, bot: str, chat: int, message: int, payload: str) -> dict[str, Any]:
        """A person presses a button below a message of the bot."""
        person = {"id": abs(chat), "is_bot": False, "first_name": "Ann"}
        pressed = {"bot": int(bot), "chat_id": chat, "from": person, "callback_data": payload, "message_id": message}
        return self._control("POST", "inject", pressed)

    def photo(self, bot: str, chat: int, picture: bytes, caption: str) -> int:
        """A person sends a picture to the bot. Returns the update's id."""
        request = urllib.request.Request(f"{self.url}/_stand-in/files?name=cat.png", picture, method="POST")
        with direct.open(request, timeout=120) as answer:
            file_id = json.load(answer)["file_id"]
        person = {"id": abs(chat), "is_bot": False, "first_name": "Ann"}
        message = {"chat": {"id": chat, "type": "private", "first_name": "Ann"}, "from": person, "caption": caption,
                   "photo": [{"file_id": file_id, "file_unique_id": file_id, "width": 1, "height": 1}]}
        return self._control("POST", "inject", {"bot": int(bot), "update": {"message": message}})["update_id"]

    def rows(self, **filter: Any) -> list[dict[str, Any]]:
        found = self._control("GET", "transcript?" + urlencode(filter))
        return found["rows"] if isinstance(found, dict) else found

    def sent(self, chat: int) -> list[str]:
        """Messages of bots in this chat, oldest first."""
        return [row["text"] or "" for row in self.rows(chat=chat) if row["kind"] == "sent"]

    def said(self, chat: int, text: str, timeout: float = 120.0) -> str:
        """Waits until a bot has written a message that contains this text."""
        def look() -> str | None:
            return next((one for one in self.sent(chat) if text in one), None)

        return until(f"{text!r} in chat {chat}", look, timeout)

    def confirmed(self) -> set[int]:
        """Updates that the server has taken over (2xx, or a later offset confirmed them)."""
        return {one["update_id"] for one in self._control("GET", "deliveries")["confirmed"]}

    def fault(self, fault: str, **more: Any) -> Any:
        return self._control("POST", "faults", {"fault": fault} | more)

    def clear_faults(self) -> None:
        self._control("DELETE", "faults")

    def release(self) -> None:
        """Lets calls continue that a fault made hang."""
        self._control("POST", "release", {})

    def _control(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = call(method, f"{self.url}/_stand-in/{path}", body)
        assert 200 <= status < 300, f"stand-in: {method} {path}: {status} {answer}"
        return answer

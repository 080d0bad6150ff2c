"""Programs that write to agents: over HTTP, with the credential of a tenant or of an agent."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Mapping
from urllib.parse import quote

from child import call
from house import House
from scene import Scene, number
from waiting import until
from wake_listener import WakeListener

# How long one call may wait, and some more.
LONGEST_CALL_S = 70.0


class Program:
    """Somebody's script. It may write to every agent of its tenant."""

    def __init__(self, house: House, papers: dict[str, Any]) -> None:
        """`papers` are what the house printed when it made the client."""
        self._house = house
        self.secret = papers["client_secret"]
        pair = base64.b64encode(f"{papers['client_id']}:{self.secret}".encode()).decode()
        self._credential = {"Authorization": f"Basic {pair}"}

    # The three verbs.

    def notify(self, agent: str, message: str, key: str | None = None, **more: Any) -> dict[str, Any]:
        """`key` makes a repetition the same notify again."""
        headers = {} if key is None else {"Idempotency-Key": key}
        return self._good("POST", "notify", {"agent": agent, "message": message} | more, headers)

    def wake(self, agent: str, context: str, **more: Any) -> dict[str, Any]:
        return self._good("POST", "wake", {"agent_id": agent, "context": context} | more)

    def ask(self, agent: str, message: str, **more: Any) -> tuple[int, Any]:
        """The status says how it stands: 200 answered, 202 open, 504 timed out."""
        return self._call("POST", "exchange", {"agent": agent, "message": message} | more)

    def attach(self, correlation: str, wait: float = 0.0) -> tuple[int, Any]:
        return self._call("GET", f"exchanges/{quote(correlation)}?wait={wait:g}")

    # What became of it.

    def question(self, correlation: str) -> dict[str, Any]:
        """A question as it stands on record."""
        items = self._good("GET", "exchanges?limit=200")["items"]
        return next(one for one in items if one["correlation_id"] == correlation)

    def receipts(self) -> list[dict[str, Any]]:
        """All that it may know of, newest first."""
        return self._good("GET", "receipts?limit=200")["items"]

    def receipt(self, sent: dict[str, Any]) -> dict[str, Any]:
        """The one receipt of what went down the line."""
        items = self._good("GET", f"receipts/{sent['dispatch_id']}")["items"]
        assert [one["connector"] for one in items] == ["relay"], items
        return items[0]

    def wait_state(self, sent: dict[str, Any], state: str, timeout: float = 30.0) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            found = self.receipt(sent)
            return found if found["state"] == state else None

        return until(f"{sent['dispatch_id']} is {state}", look, timeout)

    def wait_said(self, sent: dict[str, Any], text: str, timeout: float = 60.0) -> dict[str, Any]:
        """Waits until the agent has taken it and said this to it, and returns the receipt."""
        def look() -> dict[str, Any] | None:
            found = self.receipt(sent)
            return found if found["state"] == "acknowledged" and text in said(found) else None

        return until(f"{text!r} is said to {sent['dispatch_id']}", look, timeout)

    def status(self, agent: str) -> str:
        return self._good("GET", f"agents/{quote(agent)}")["status"]

    def _good(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = {}) -> dict[str, Any]:
        status, answer = self._call(method, path, body, headers)
        assert status == 200, f"{method} /v1/{path}: {status} {answer}"
        return answer

    def _call(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = {}) -> tuple[int, Any]:
        said = self._credential | dict(headers)
        return call(method, f"{self._house.url}/v1/{path}", body, said, LONGEST_CALL_S)


def said(receipt: dict[str, Any]) -> list[str]:
    """What the agent said to it, oldest first."""
    return [reply["text"] for reply in receipt["replies"]]


def kinds(receipt: dict[str, Any]) -> list[tuple[str, str]]:
    """The same with what it was taken for."""
    return [(reply["kind"], reply["text"]) for reply in receipt["replies"]]


def warnings(woken: dict[str, Any]) -> str:
    return "\n".join(woken.get("warnings", []))


def pong(ping: str) -> str:
    """What the scripted model answers."""
    return ping.replace("ping", "pong")


def headed(text: str, sender: str, kind: str = "augment") -> str:
    """What a stock agent is to see of a text."""
    return f"[posthouse {kind} from {sender}]\n\n{text}"


@dataclass
class Office(Scene):
    """A stock gateway that programs write to, and that is started by whoever listens at its wake URL."""

    program: Program
    listener: WakeListener

    @property
    def name(self) -> str:
        return self.agent.name

    def sender(self) -> str:
        """A name that nobody has written under, and so a conversation that nobody has had."""
        return f"desk-{number()}"

    def sleep(self) -> None:
        """The agent goes in good order, and nothing of it runs."""
        self.gateway.stop()
        self.connected(False)

    def settled(self) -> None:
        """Whoever has just dialed in is left alone for a while; one message through is the sign that it is over."""
        sent = self.program.notify(self.name, "ping settled", **{"from": self.sender()})
        self.program.wait_said(sent, "pong settled")

    def seen(self, text: str) -> list[str]:
        """Everything the model was given in which this text stands, as it was given: the newest user text of
        each turn."""
        return [turn.text for turn in self.model.asked("") if text in turn.text and not turn.after_tool]

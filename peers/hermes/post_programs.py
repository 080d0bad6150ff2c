"""Programs that write to agents over HTTP, with the credential of a tenant or of an agent."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any, Mapping
from urllib.parse import quote

from child import call
from posthouse_server import Server
from stock_agent import StockAgent, number
from waiting import until
from wake_listener import WakeListener

# A little longer than the longest wait of a call.
LONGEST_CALL_S = 70.0


class Program:
    """A program. It may write to every agent of its tenant."""

    def __init__(self, server: Server, credential: dict[str, Any]) -> None:
        """`credential` is what the server printed when it created the client."""
        self._server = server
        self.secret = credential["client_secret"]
        pair = base64.b64encode(f"{credential['client_id']}:{self.secret}".encode()).decode()
        self._credential = {"Authorization": f"Basic {pair}"}

    # The three operations.

    def notify(self, agent: str, message: str, key: str | None = None, **more: Any) -> dict[str, Any]:
        """With the same `key`, a repetition is the same notify."""
        headers = {} if key is None else {"Idempotency-Key": key}
        return self._good("POST", "notify", {"agent": agent, "message": message} | more, headers)

    def wake(self, agent: str, context: str, **more: Any) -> dict[str, Any]:
        return self._good("POST", "wake", {"agent_id": agent, "context": context} | more)

    def ask(self, agent: str, message: str, **more: Any) -> tuple[int, Any]:
        """The status shows the state: 200 answered, 202 open, 504 timed out."""
        return self._call("POST", "exchange", {"agent": agent, "message": message} | more)

    def attach(self, correlation: str, wait: float = 0.0) -> tuple[int, Any]:
        return self._call("GET", f"exchanges/{quote(correlation)}?wait={wait:g}")

    # Skills.

    def execute(self, skill: str, **inputs: str) -> dict[str, Any]:
        """Runs a stored skill, and returns its result."""
        params = {"name": "execute_skill", "arguments": {"name": skill, "inputs": inputs}}
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        status, answer = call("POST", f"{self._server.url}/rpc", request, self._credential, LONGEST_CALL_S)
        assert status == 200 and "result" in answer, f"{status} {answer}"
        return json.loads(answer["result"]["content"][0]["text"])

    def event(self, name: str, cause: str, **parameters: str) -> dict[str, Any]:
        """Sends an event that the message `cause` led to."""
        status, answer = self._call("POST", f"events/{quote(name)}", parameters, {"Posthouse-Cause": cause})
        assert status == 202, f"{status} {answer}"
        return answer

    # State and results.

    def question(self, correlation: str) -> dict[str, Any]:
        """The stored state of a question."""
        items = self._good("GET", "exchanges?limit=200")["items"]
        return next(one for one in items if one["correlation_id"] == correlation)

    def receipts(self) -> list[dict[str, Any]]:
        """All receipts that it may see, newest first."""
        return self._good("GET", "receipts?limit=200")["items"]

    def receipt(self, sent: dict[str, Any]) -> dict[str, Any]:
        """The one receipt of the delivery by relay."""
        items = self._good("GET", f"receipts/{sent['dispatch_id']}")["items"]
        assert [one["connector"] for one in items] == ["relay"], items
        return items[0]

    def wait_state(self, sent: dict[str, Any], state: str, timeout: float = 120.0) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            found = self.receipt(sent)
            return found if found["state"] == state else None

        return until(f"{sent['dispatch_id']} is {state}", look, timeout)

    def wait_said(self, sent: dict[str, Any], text: str, timeout: float = 60.0) -> dict[str, Any]:
        """Waits until the agent has accepted it and replied with this text, and returns the receipt."""
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
        return call(method, f"{self._server.url}/v1/{path}", body, said, LONGEST_CALL_S)


def said(receipt: dict[str, Any]) -> list[str]:
    """The agent's replies to it, oldest first."""
    return [reply["text"] for reply in receipt["replies"]]


def kinds(receipt: dict[str, Any]) -> list[tuple[str, str]]:
    """The same with the kind of each reply."""
    return [(reply["kind"], reply["text"]) for reply in receipt["replies"]]


def warnings(woken: dict[str, Any]) -> str:
    return "\n".join(woken.get("warnings", []))


def pong(ping: str) -> str:
    """The answer of the scripted model."""
    return ping.replace("ping", "pong")


def headed(text: str, sender: str, kind: str = "augment") -> str:
    """The text as a stock agent should see it."""
    return f"[posthouse {kind} from {sender}]\n\n{text}"


@dataclass
class PostAgent(StockAgent):
    """A stock gateway that programs write to, started by a call to its wake URL."""

    program: Program
    listener: WakeListener

    @property
    def name(self) -> str:
        return self.agent.name

    def sender(self) -> str:
        """A sender name that was not used before, and so a new conversation."""
        return f"desk-{number()}"

    def sleep(self) -> None:
        """The agent stops in an orderly way, and no process of it runs."""
        self.gateway.stop()
        self.connected(False)

    def settled(self) -> None:
        """Waits until the settling time after the connection is over: one delivered message shows it."""
        sent = self.program.notify(self.name, "ping settled", **{"from": self.sender()})
        self.program.wait_said(sent, "pong settled")

    def seen(self, text: str) -> list[str]:
        """The newest user texts, as the model got them, of all turns that contain this text."""
        return [turn.text for turn in self.model.asked("") if text in turn.text and not turn.after_tool]

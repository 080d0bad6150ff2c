"""Scripted model: OpenAI chat-completions on loopback.

For the stock agent it is a custom endpoint. Unless a rule says otherwise, every line `ping N` of the newest user text
is answered by a line `pong N`, so that messages which the agent joined into one turn can still be counted. Any other
text is answered with `echo: TEXT`.

In a test: `with ScriptedModel() as model: model.base_url`. By hand: `python scripted_model.py` prints its base URL;
post rules to `/_model/rules` and read requests at `/_model/requests`.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable
from urllib.parse import urlsplit

MODEL = "scripted"
# Large enough that the agent never asks for a summary of its history.
CONTEXT_LENGTH = 1_000_000
# A held answer is sent after this time even if no test releases it, so that a failing test ends.
LONGEST_HOLD_S = 300.0

PING = re.compile(r"^ping (\S+)$", re.MULTILINE)
# Notes that the stock gateway itself writes into the user's text (first contact, a turn cut off by a restart). The
# person did not write them.
NOTE = re.compile(r"\[System note:.*?\](?=\s*(?:\n\n|\Z))", re.DOTALL)
# Additional calls that the stock agent makes for itself. They have their own prompts and no tools. An echo would put
# nonsense into its session titles.
SIDE_CALL = re.compile(r"Generate a short, descriptive title|summar(y|ize|ise)|compress", re.I)


@dataclass
class Rule:
    """The answer if `pattern` is found in the newest user text. The latest rule wins."""

    pattern: str
    answer: str | None = None
    """`re.Match.expand` template; None means the default answer."""
    hold: str | None = None
    """Think until `release(hold)`."""
    tool: str | None = None
    """Call this tool first; the answer follows its result."""
    arguments: dict[str, Any] = field(default_factory=dict)
    talk: str | None = None
    """What it says beside the tool call."""
    times: int | None = None
    """How many requests the rule serves; None is for ever."""
    pause: tuple[int, str] | None = None
    """Write so many characters of the answer, and the rest after `release` of that name."""

    def names(self) -> list[str]:
        """The names under which its parts are released."""
        return [name for name in (self.hold, self.pause and self.pause[1]) if name]

    def match(self, text: str) -> re.Match[str] | None:
        if self.times is not None and self.times <= 0:
            return None
        return re.search(self.pattern, text, re.MULTILINE)


@dataclass
class Turn:
    """One request for an answer, as the model received it."""

    text: str
    """The newest user text, without the gateway's own notes."""
    messages: list[dict[str, Any]]
    side: bool
    started: float
    after_tool: bool = False
    pause: tuple[int, str] | None = None
    answer: str | None = None
    finished: float | None = None
    """None while held, and for ever when the agent hung up before the answer was written."""


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def default_answer(text: str) -> str:
    pings = PING.findall(text)
    return "\n".join(f"pong {n}" for n in pings) if pings else f"echo: {text}"


class ScriptedModel:
    def __init__(self, port: int = 0) -> None:
        self._changed = threading.Condition()
        self._rules: list[Rule] = []
        self._released: set[str] = set()
        self._numbers = itertools.count(1)
        self.turns: list[Turn] = []
        self._server = _Server(("127.0.0.1", port), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> "ScriptedModel":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    # Control by tests.

    def rule(self, pattern: str, answer: str | None = None, **kind: Any) -> Rule:
        made = Rule(pattern, answer, **kind)
        with self._changed:
            for name in made.names():
                self._released.discard(name)
            self._rules.append(made)
        return made

    def forget_rules(self) -> None:
        with self._changed:
            self._released.update(name for rule in self._rules for name in rule.names())
            self._rules.clear()
            self._changed.notify_all()

    def release(self, hold: str) -> None:
        with self._changed:
            self._released.add(hold)
            self._changed.notify_all()

    def release_all(self) -> None:
        self.forget_rules()

    # Queries by tests.

    def asked(self, pattern: str) -> list[Turn]:
        """The agent's own turns whose newest user text matches."""
        with self._changed:
            return [t for t in self.turns if not t.side and re.search(pattern, t.text, re.M)]

    def wait_asked(self, pattern: str, timeout: float = 120.0, times: int = 1) -> list[Turn]:
        return self._wait(lambda: self.asked(pattern), times, timeout, f"asked /{pattern}/")

    def wait_finished(self, pattern: str, timeout: float = 120.0, times: int = 1) -> list[Turn]:
        def finished() -> list[Turn]:
            return [t for t in self.asked(pattern) if t.finished is not None]

        return self._wait(finished, times, timeout, f"answered /{pattern}/")

    def _wait(self, seen: Callable[[], list[Turn]], times: int, timeout: float, what: str) -> list[Turn]:
        deadline = time.monotonic() + timeout
        with self._changed:
            while len(found := seen()) < times:
                left = deadline - time.monotonic()
                if left <= 0:
                    texts = [t.text[-80:] for t in self.turns[-8:]]
                    raise TimeoutError(f"model was not {what} {times}x in {timeout}s; last texts: {texts}")
                self._changed.wait(left)
            return found

    # Answering.

    def answer(self, body: dict[str, Any]) -> tuple[Turn, dict[str, Any]]:
        """Returns the turn and the assistant message. Blocks while a rule holds it."""
        messages = [m for m in body.get("messages", []) if isinstance(m, dict)]
        users = [m for m in messages if m.get("role") == "user"]
        text = NOTE.sub("", text_of(users[-1])).strip() if users else ""
        prompts = "\n".join(text_of(m) for m in messages if m.get("role") in ("system", "developer"))
        side = not body.get("tools") and bool(SIDE_CALL.search(prompts or text))
        after_tool = bool(messages) and messages[-1].get("role") == "tool"
        turn = Turn(text, messages, side, time.monotonic(), after_tool)
        with self._changed:
            self.turns.append(turn)
            rule, found = None, None
            if not side:
                for candidate in reversed(self._rules):
                    if found := candidate.match(text):
                        rule = candidate
                        break
            tool_first = rule is not None and rule.tool is not None and not after_tool
            if rule is not None and rule.times is not None and not tool_first:
                rule.times -= 1
            self._changed.notify_all()
            if tool_first:
                return turn, self._tool_call(rule)
            if rule is not None and rule.hold is not None:
                self._changed.wait_for(lambda: rule.hold in self._released, LONGEST_HOLD_S)
            if side:
                turn.answer = "A scripted title"
            elif rule is not None and rule.answer is not None:
                turn.answer, turn.pause = found.expand(rule.answer), rule.pause
            else:
                turn.answer = default_answer(text)
            return turn, {"role": "assistant", "content": turn.answer}

    def _tool_call(self, rule: Rule) -> dict[str, Any]:
        function = {"name": rule.tool, "arguments": json.dumps(rule.arguments)}
        call = {"id": f"call_{next(self._numbers)}", "type": "function", "function": function}
        return {"role": "assistant", "content": rule.talk, "tool_calls": [call]}

    def wait_released(self, name: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: name in self._released, LONGEST_HOLD_S)

    def finish(self, turn: Turn) -> None:
        with self._changed:
            turn.finished = time.monotonic()
            self._changed.notify_all()

    def number(self) -> int:
        return next(self._numbers)

    def report(self) -> list[dict[str, Any]]:
        with self._changed:
            return [{"text": t.text, "side": t.side, "answer": t.answer} for t in self.turns]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Agents are killed in these tests, so a broken connection is not an error."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def _handler(model: ScriptedModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            if path.rstrip("/") == "/v1/models":
                entry = {"id": MODEL, "object": "model", "created": 0, "owned_by": "script",
                         "context_length": CONTEXT_LENGTH}
                self._json(200, {"object": "list", "data": [entry]})
            elif path == "/_model/requests":
                self._json(200, model.report())
            else:
                self._json(404, {"error": {"message": "not here", "type": "not_found"}})

        def do_POST(self) -> None:
            path = urlsplit(self.path).path
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            try:
                body = json.loads(raw or b"{}")
            except ValueError:
                return self._json(400, {"error": {"message": "not JSON", "type": "invalid_request_error"}})
            if path == "/v1/chat/completions":
                return self._complete(body)
            if path == "/_model/rules":
                model.rule(**body)
            elif path == "/_model/release":
                model.release(body["hold"])
            elif path == "/_model/forget":
                model.forget_rules()
            else:
                return self._json(404, {"error": {"message": "not here", "type": "not_found"}})
            return self._json(200, {"ok": True})

        def _complete(self, body: dict[str, Any]) -> None:
            turn, message = model.answer(body)
            number = model.number()
            base = {"id": f"chatcmpl-{number}", "created": 1_700_000_000 + number,
                    "model": body.get("model") or MODEL}
            reason = "tool_calls" if message.get("tool_calls") else "stop"
            usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
            try:
                if body.get("stream"):
                    self._stream(base, message, reason, usage, turn.pause)
                else:
                    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
                    self._json(200, base | {"object": "chat.completion", "choices": [choice], "usage": usage})
            except (BrokenPipeError, ConnectionResetError):
                # The agent died or interrupted this turn, so the turn stays unfinished.
                self.close_connection = True
                return
            model.finish(turn)

        def _stream(
                self, base: dict, message: dict, reason: str, usage: dict, pause: tuple[int, str] | None) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            base = base | {"object": "chat.completion.chunk"}

            def event(data: str) -> None:
                line = f"data: {data}\n\n".encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()

            def delta(piece: dict, finish: str | None = None) -> None:
                choice = {"index": 0, "delta": piece, "finish_reason": finish, "logprobs": None}
                event(json.dumps(base | {"choices": [choice]}))

            delta({"role": "assistant", "content": ""})
            content = message.get("content") or ""
            if pause is not None:
                at, name = pause
                delta({"content": content[:at]})
                model.wait_released(name)
                content = content[at:]
            for start in range(0, len(content), 64):
                delta({"content": content[start:start + 64]})
            for index, call in enumerate(message.get("tool_calls") or []):
                delta({"tool_calls": [call | {"index": index}]})
            delta({}, reason)
            event(json.dumps(base | {"choices": [], "usage": usage}))
            event("[DONE]")
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()

        def _json(self, status: int, body: Any) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler


if __name__ == "__main__":
    with ScriptedModel() as scripted:
        print(scripted.base_url, flush=True)
        threading.Event().wait()

"""Test receiver at an agent's callback address: records every fire and answers as told."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Mapping

import jwt

from loopback import Answer, Loopback
from waiting import until

FIRE_PATH = "/api/cron/fire"
ACCEPTED = Answer(202, '{"status":"accepted"}')


@dataclass
class Fire:
    at: float
    """The wall clock's reading when it came."""
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def job(self) -> str:
        return self.body["job_id"]

    @property
    def token(self) -> str:
        word, _, token = self.headers["authorization"].partition(" ")
        assert word == "Bearer", "the stock handler matches this word and its case"
        return token

    @property
    def claims(self) -> dict[str, Any]:
        """The claims of the token, unverified. The stock verifier checks them elsewhere."""
        return jwt.decode(self.token, options={"verify_signature": False})

    @property
    def late(self) -> float:
        """Seconds after the requested time; a negative number is too early."""
        return self.at - datetime.fromisoformat(self.body["fire_at"]).timestamp()


class Callback(Loopback):
    def __init__(self) -> None:
        super().__init__()
        self.fires: list[Fire] = []
        self.strays: list[str] = []
        """Requests that are not fires: there must be none."""
        self._answers: dict[str, list[Answer]] = {}

    def answers(self, job: str, *answers: Answer) -> None:
        """Sets the answers to the job's next fires. Later fires are accepted again."""
        with self.changed:
            self._answers[job] = list(answers)

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        now = time.time()
        with self.changed:
            if method != "POST" or path != FIRE_PATH:
                self.strays.append(f"{method} {path}")
                return Answer(404, "{}")
            fire = Fire(now, headers, json.loads(body))
            self.fires.append(fire)
            waiting = self._answers.get(fire.job)
            return waiting.pop(0) if waiting else ACCEPTED

    def of(self, job: str) -> list[Fire]:
        with self.changed:
            return [fire for fire in self.fires if fire.job == job]

    def wait(self, job: str, times: int = 1, timeout: float = 60.0) -> list[Fire]:
        """The job's fires once there are this many, none of them early."""
        until(f"{times} fires of {job}", lambda: len(self.of(job)) >= times, timeout, 0.01)
        seen = self.of(job)
        assert all(fire.late >= 0 for fire in seen), f"early: {[fire.late for fire in seen]}"
        return seen


def seconds_from_now(seconds: float) -> str:
    """A time as the stock agent writes it."""
    return (datetime.now(timezone.utc) + timedelta(seconds=seconds)).isoformat()

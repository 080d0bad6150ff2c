"""Checks of a stock agent's jobs, for whichever of its processes receives the fires: up to a limit, once, and by an
agent that sleeps. The tests of the dashboard and of the gateway use the same checks."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timedelta, timezone

from callback import seconds_from_now
from clock_fixture import Clock
from stock_agent import number
from scripted_model import ScriptedModel
from stock_cron import CronHome
from stock_gateway import Gateway
from stock_serve import Serve
from waiting import until
from wake_listener import WakeListener

EVERY_TWO_SECONDS = "* * * * * */2"
# A time before which something else must be done: far enough for a slow machine, near enough to wait for it.
AHEAD_S = 15.0
# More than an orderly stop of all its processes takes, on a busy machine too. Less than half a minute, which lies
# between two fires.
TO_STOP_S = 12.0


def seconds_until(moment: str) -> float:
    return (datetime.fromisoformat(moment) - datetime.now(timezone.utc)).total_seconds()


def every_half_minute(seconds: float) -> str:
    """A schedule whose first time is this many seconds from now, or up to one more."""
    first = datetime.now() + timedelta(seconds=seconds + 1)
    return f"* * * * * {first.second % 30},{first.second % 30 + 30}"


def runs_up_to_its_limit(clock: Clock, home: CronHome, model: ScriptedModel) -> None:
    """A recurring job with three runs: each arms the next, and after the last it is gone."""
    answered = number()
    asked = rf"^ping {answered}$"
    job = home.create(EVERY_TWO_SECONDS, f"ping {answered}", repeat=3)
    until("the job is done with", lambda: home.is_done(job), 60)
    turns = model.wait_finished(asked, times=3)
    assert [turn.answer for turn in turns] == [f"pong {answered}"] * 3
    # Two more occurrences pass without a fire.
    clock.pass_by(clock.home(), 4)
    assert len(model.asked(asked)) == 3, "it ran more often than it was to"
    assert job not in home.client().armed()
    history = clock.server.job_history(home.agent, job)
    # Stock may arm the next time during a run. A fire that finds this run unfinished starts nothing, and stock arms
    # again when the run has ended. 0.20.5 answers such a fire with 200 "duplicate"; the gateway of 0.19.0 answers 202
    # before it looks. An arm that arrives in the moment before such a fire replaces it. How often either happens depends
    # on the machine's speed.
    outcomes = [(attempt["what"], attempt["status"]) for attempt in history]
    assert set(outcomes) <= {("delivered", 202), ("duplicate", 200), ("superseded", None)}, history
    assert outcomes.count(("delivered", 202)) >= 3, history
    times = [attempt["fire_at"] for attempt in history]
    assert times == sorted(set(times)), f"each run arms a later one: {times}"
    assert all(attempt["late_ms"] >= 0 for attempt in history if attempt["status"]), history


def runs_once_at_its_time(clock: Clock, home: CronHome, model: ScriptedModel) -> None:
    """A one-shot job: not early, not twice, and gone afterwards."""
    answered = number()
    asked = rf"^ping {answered}$"
    job = home.asks(action="create", schedule=seconds_from_now(AHEAD_S), prompt=f"ping {answered}")["job_id"]
    fire_at = home.jobs()[job]["next_run_at"]
    due = time.monotonic() + seconds_until(fire_at)
    assert home.client().armed()[job] == fire_at
    [turn] = model.wait_finished(asked)
    assert turn.started >= due, f"it ran {due - turn.started} s before its time"
    until("the job is done with", lambda: home.is_done(job), 60)
    assert job not in home.client().armed()
    clock.pass_by(clock.home(), 1)
    assert len(model.asked(asked)) == 1, "it ran again"
    assert [attempt["status"] for attempt in clock.server.job_history(home.agent, job)] == [202]


class ScaledToZero:
    """The processes of one agent in one home, started and stopped together. A wake during the stop starts it
    afterwards, as on a platform that suspends machines."""

    def __init__(self, home: CronHome, *processes: Gateway | Serve) -> None:
        self.home = home
        self.starts = 0
        self._processes = processes
        self._changing = threading.Lock()

    def start(self) -> None:
        with self._changing:
            if not self.running():
                self.starts += 1
                for process in self._processes:
                    process.start()

    def stop(self) -> None:
        with self._changing:
            for process in reversed(self._processes):
                process.stop()
            assert not self.running()

    def running(self) -> bool:
        return any(process.running() for process in self._processes)

    def kill(self) -> None:
        for process in reversed(self._processes):
            process.kill()


def is_woken_for_each_fire(
        clock: Clock, agent: ScaledToZero, listener: WakeListener, model: ScriptedModel, sleeps: int) -> None:
    """No process of the agent runs when the fire is due: its wake URL is called once, and it runs the job once."""
    home, client, answered = agent.home, agent.home.client(), number()
    asked = rf"^ping {answered}$"
    clock.server.wait_connected(home.agent)
    schedule = every_half_minute(TO_STOP_S + 2)
    job = home.asks(action="create", schedule=schedule, prompt=f"ping {answered}")["job_id"]

    def is_idle() -> bool:
        return not home.jobs()[job].get("fire_claim")

    def time_to_sleep() -> str | None:
        # A fire that is due soon finds it awake and does not count; the sleep begins after it. An armed fire is not
        # enough either: stock may arm it during a run, and a run that is cut short blocks the next for 300 s.
        next_fire = client.armed().get(job)
        return next_fire if is_idle() and next_fire and seconds_until(next_fire) > TO_STOP_S else None

    for sleep in range(1, sleeps + 1):
        fire_at = until("a fire lies far enough ahead", time_to_sleep, 70)
        turns, pokes, starts = len(model.asked(asked)), len(listener.pokes), agent.starts
        agent.stop()

        listener.wait_poked(pokes + 1, timeout=120)
        assert seconds_until(fire_at) <= 0, "the agent was woken before its time"
        until("somebody starts it", lambda: agent.starts == starts + 1, 120)
        model.wait_finished(asked, timeout=120, times=turns + 1)
        until("the next fire is armed", lambda: client.armed().get(job) not in (None, fire_at), 120)
        until("the run is at its end", is_idle, 120)
        assert home.jobs()[job]["last_status"] == "ok"
        assert len(model.asked(asked)) == turns + 1, f"sleep {sleep}: one fire, one turn"
        assert len(listener.pokes) == pokes + 1, f"sleep {sleep}: one poke for one series"
        history = [attempt for attempt in clock.server.job_history(home.agent, job) if attempt["fire_at"] == fire_at]
        assert [attempt["what"] for attempt in history].count("delivered") == 1, history
    home.asks(action="remove", job_id=job)

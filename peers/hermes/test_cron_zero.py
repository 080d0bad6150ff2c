"""The whole stock agent sleeps to zero between its fires: nothing of it runs, and it is still on time."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Iterator

import pytest

from clock_scene import Clock
from scripted_model import ScriptedModel
from stock_cron import CronHome
from stock_gateway import Gateway
from stock_serve import Serve
from waiting import until
from wake_listener import WakeListener

SCHEDULE = "* * * * * */15"
# What an orderly stop of both processes takes, on a busy machine.
TO_STOP_S = 5.0


class Body:
    """`hermes gateway run` and `hermes serve` in one home, started and stopped together."""

    def __init__(self, home: CronHome, serve: Serve, gateway: Gateway) -> None:
        self.home, self.serve, self.gateway = home, serve, gateway
        self.starts = 0

    def start(self) -> None:
        if not self.running():
            self.starts += 1
            self.gateway.start()
            self.serve.start()

    def stop(self) -> None:
        self.serve.stop()
        self.gateway.stop()

    def running(self) -> bool:
        return self.serve.running() or self.gateway.running()

    def kill(self) -> None:
        self.serve.kill()
        self.gateway.kill()


@pytest.fixture(scope="module")
def listener() -> Iterator[WakeListener]:
    with WakeListener() as listening:
        yield listening


@pytest.fixture(scope="module")
def body(clock: Clock, model: ScriptedModel, listener: WakeListener) -> Iterator[Body]:
    agent = clock.agent("--wake-url", f"{listener.url}/wake")
    home = clock.home(agent, callback_url="", model_base_url=model.base_url)
    serve = Serve(home)
    gateway = None
    try:
        # Its first start tells the address at which it will always be called.
        serve.start()
        gateway = Gateway(home.folder, home.environment | agent.env, model.base_url, **home.settings)
        made = Body(home, serve, gateway)
        gateway.start()
        listener.wake = made.start
        yield made
    finally:
        listener.wake = lambda: None
        serve.kill()
        if gateway is not None:
            gateway.kill()


def seconds_until(time: str) -> float:
    return (datetime.fromisoformat(time) - datetime.now(timezone.utc)).total_seconds()


def test_three_fires_in_a_row_find_a_sleeping_agent(
        clock: Clock, body: Body, listener: WakeListener, model: ScriptedModel) -> None:
    home, client = body.home, body.home.client()
    clock.house.wait_connected(home.agent)
    job = home.create(SCHEDULE, "ping morning")

    for sleep in range(1, 4):
        # A fire that is about to come finds it awake and does not count; the sleep begins after it. Nor is
        # an armed fire enough: stock arms while it still runs, and a run cut short blocks the next for 300 s.
        def time_to_sleep() -> str | None:
            next_fire = client.armed().get(job)
            idle = not home.jobs()[job].get("fire_claim")
            return next_fire if idle and next_fire and seconds_until(next_fire) > TO_STOP_S else None

        next_fire = until("a fire lies far enough ahead", time_to_sleep, 40)
        turns, pokes, starts = len(model.asked(r"^ping morning$")), len(listener.pokes), body.starts
        body.stop()
        assert not body.running()

        listener.wait_poked(pokes + 1, timeout=40)
        assert seconds_until(next_fire) <= 0, "the agent was woken before its time"
        until("somebody starts it", lambda: body.starts == starts + 1, 30)
        model.wait_finished(r"^ping morning$", timeout=60, times=turns + 1)
        until("the next fire is armed", lambda: client.armed().get(job) not in (None, next_fire), 30)
        until("the run is at its end", lambda: not home.jobs()[job].get("fire_claim"), 30)
        assert len(model.asked(r"^ping morning$")) == turns + 1, f"sleep {sleep}: one fire, one turn"
        assert len(listener.pokes) == pokes + 1, f"sleep {sleep}: one poke for one series"

    told = [attempt["status"] for attempt in clock.house.job_history(home.agent, job)]
    assert told.count(202) == len(model.asked(r"^ping morning$"))
    assert home.jobs()[job]["last_status"] == "ok"


def test_an_agent_with_nothing_due_hears_nothing(clock: Clock, body: Body, listener: WakeListener) -> None:
    client = body.home.client()
    for job in client.armed():
        client.cancel(job_id=job)
    body.stop()
    pokes = len(listener.pokes)
    clock.pass_by(clock.home(), 5)
    assert len(listener.pokes) == pokes and not body.running()

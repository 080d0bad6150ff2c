"""The whole stock agent sleeps to zero between its fires: no process of it runs, and it is still on time."""

from __future__ import annotations

from typing import Iterator

import pytest

import job_checks
from clock_fixture import Clock
from job_checks import ScaledToZero
from scripted_model import ScriptedModel
from stock_gateway import Gateway
from stock_serve import Serve
from stock_version import dashboard_runs_jobs
from wake_listener import WakeListener


@pytest.fixture(scope="module")
def agent(clock: Clock, model: ScriptedModel, listener: WakeListener) -> Iterator[ScaledToZero]:
    created = clock.agent("--wake-url", f"{listener.url}/wake")
    home = clock.home(created, callback_url="", model_base_url=model.base_url)
    serve = Serve(home)
    gateway = None
    try:
        # Its first start reports the address at which it is always called.
        serve.start()
        gateway = Gateway(home.folder, home.environment | created.env, model.base_url, **home.settings)
        made = ScaledToZero(home, gateway, serve)
        gateway.start()
        listener.wake = made.start
        yield made
    finally:
        listener.wake = lambda: None
        serve.kill()
        if gateway is not None:
            gateway.kill()


@dashboard_runs_jobs
def test_three_fires_in_a_row_find_a_sleeping_agent(
        clock: Clock, agent: ScaledToZero, listener: WakeListener, model: ScriptedModel) -> None:
    job_checks.is_woken_for_each_fire(clock, agent, listener, model, sleeps=3)


def test_an_agent_with_nothing_due_hears_nothing(clock: Clock, agent: ScaledToZero, listener: WakeListener) -> None:
    client = agent.home.client()
    for job in client.armed():
        client.cancel(job_id=job)
    agent.stop()
    pokes = len(listener.pokes)
    clock.pass_by(clock.home(), 5)
    assert len(listener.pokes) == pokes and not agent.running()

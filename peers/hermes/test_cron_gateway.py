"""Fires at the API server of `hermes gateway run`, as the cron guide configures it: a job runs up to its limit, once
at its time, and after a sleep to zero."""

from __future__ import annotations

from typing import Iterator

import pytest

import job_checks
from clock_fixture import Clock
from job_checks import ScaledToZero
from place import Place
from scripted_model import ScriptedModel
from stock_gateway import Gateway
from waiting import until
from wake_listener import WakeListener


@pytest.fixture(scope="module")
def agent(clock: Clock, model: ScriptedModel, listener: WakeListener) -> Iterator[ScaledToZero]:
    """Only a gateway: no dashboard runs beside it."""
    created, place = clock.agent("--wake-url", f"{listener.url}/wake"), Place()
    _, variables = clock.server.agent_cron(created, place.url)
    home = clock.home(created, callback_url=place.url, model_base_url=model.base_url)
    gateway = Gateway(home.folder, home.environment | created.env | variables, model.base_url, **home.settings)
    made = ScaledToZero(home, gateway)
    try:
        made.start()
        clock.server.wait_connected(created)
        until("its API server listens", place.is_listening, 40)
        listener.wake = made.start
        yield made
    finally:
        listener.wake = lambda: None
        made.kill()


def test_a_job_runs_re_arms_and_stops_at_its_limit(clock: Clock, agent: ScaledToZero, model: ScriptedModel) -> None:
    job_checks.runs_up_to_its_limit(clock, agent.home, model)


def test_a_job_of_one_time_runs_once_and_is_gone(clock: Clock, agent: ScaledToZero, model: ScriptedModel) -> None:
    job_checks.runs_once_at_its_time(clock, agent.home, model)


def test_two_fires_in_a_row_find_a_sleeping_agent(
        clock: Clock, agent: ScaledToZero, listener: WakeListener, model: ScriptedModel) -> None:
    job_checks.is_woken_for_each_fire(clock, agent, listener, model, sleeps=2)

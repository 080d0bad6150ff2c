"""`hermes serve`, the stock app that receives fires, and agents that fail: repeated until 202, then never again."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Iterator

import pytest

import job_checks
from callback import FIRE_PATH, seconds_from_now
from child import call
from clock_fixture import Clock
from job_checks import AHEAD_S
from loopback import HANG_UP, Answer
from place import Place
from scripted_model import ScriptedModel
from stock_cron import CronHome
from stock_serve import Serve
from stock_version import dashboard_runs_jobs
from waiting import until

NOT_FOUND = Answer(404, "<html><body>nothing here</body></html>", kind="text/html")


@pytest.fixture(scope="module")
def home(clock: Clock, model: ScriptedModel) -> CronHome:
    return clock.home(model_base_url=model.base_url, callback_url="")


@pytest.fixture(scope="module")
def serve(home: CronHome) -> Iterator[Serve]:
    process = Serve(home)
    try:
        yield process.start()
    finally:
        process.kill()


def fire(serve: Serve, token: str, body: Any) -> tuple[int, Any]:
    return call("POST", serve.url + FIRE_PATH, body, {"Authorization": f"Bearer {token}"})


# The stock app.


@dashboard_runs_jobs
def test_a_scripted_job_runs_re_arms_and_stops_at_its_limit(
        clock: Clock, home: CronHome, serve: Serve, model: ScriptedModel) -> None:
    job_checks.runs_up_to_its_limit(clock, home, model)


@dashboard_runs_jobs
def test_a_job_of_one_time_runs_once_and_is_gone(clock: Clock, home: CronHome, serve: Serve, model: ScriptedModel) -> None:
    job_checks.runs_once_at_its_time(clock, home, model)


def test_a_job_removed_by_its_owner_never_fires(clock: Clock, home: CronHome, serve: Serve, model: ScriptedModel) -> None:
    job = home.asks(action="create", schedule=seconds_from_now(AHEAD_S), prompt="ping never")["job_id"]
    assert job in home.client().armed()
    home.asks(action="remove", job_id=job)
    assert job not in home.client().armed()
    clock.pass_by(clock.home(), AHEAD_S)
    assert model.asked(r"^ping never$") == []
    assert clock.server.job_history(home.agent, job)[-1]["what"] == "cancelled"


def test_a_fire_for_a_job_that_is_gone_settles(clock: Clock, home: CronHome, serve: Serve) -> None:
    client, job = home.client(), clock.job()
    client.arm(job, seconds_from_now(-1))
    until("it is settled", lambda: job not in client.armed())
    told = clock.server.job_history(home.agent, job)
    assert [attempt["status"] for attempt in told] == [200], "the stock app says: gone"


def test_the_stock_app_refuses_what_is_not_for_it(clock: Clock, home: CronHome, serve: Serve) -> None:
    stranger, job = clock.home(), clock.job()
    stranger.client().arm(job, seconds_from_now(-1))
    [foreign] = clock.callback.wait(job)
    refused = (401, {"error": "invalid fire token"})
    for token in (foreign.token, home.agent.printed["access_token"], home.agent.secret, "nonsense", ""):
        assert fire(serve, token, {"job_id": "any"}) == refused


# Agents that fail.


def test_a_failing_agent_is_tried_until_it_accepts_and_then_left_alone(clock: Clock) -> None:
    ways = {
        "lost": [NOT_FOUND, NOT_FOUND],
        "draining": [Answer(503, "{}", {"Retry-After": "1"}), Answer(401, '{"error":"invalid fire token"}')],
        "mute": [HANG_UP, Answer(500, "{}")],
        "moved": [Answer(302, "", {"Location": f"{clock.callback.url}/elsewhere"}), Answer(405, "no")],
    }
    # One agent each, because an answer from one would speed up its other retries.
    clients = {way: clock.home().client() for way in ways}
    jobs = {way: clock.job() for way in ways}
    for way, answers in ways.items():
        clock.callback.answers(jobs[way], *answers)
        clients[way].arm(jobs[way], seconds_from_now(-1))
    for way, job in jobs.items():
        fires = clock.callback.wait(job, times=3, timeout=60)
        assert len({f.claims["jti"] for f in fires}) == 3, f"{way}: a token was used twice"
        assert [f.body for f in fires] == [fires[0].body] * 3
        first, second = (after.at - before.at for before, after in zip(fires, fires[1:]))
        # A receiver that may have got the fire is given time to answer.
        soonest = 9.5 if way == "mute" else 0.8
        assert first >= soonest, f"{way}: tried again after {first} s"
        assert second >= 1.7, f"{way}: tried again after {second} s"
    clock.pass_by(clock.home(), 3)
    assert {way: len(clock.callback.of(job)) for way, job in jobs.items()} == dict.fromkeys(ways, 3)
    assert [client.armed() for client in clients.values()] == [{}] * 4


def test_a_job_that_is_being_retried_is_listed_and_a_word_from_its_agent_hastens_it(clock: Clock) -> None:
    client, job = clock.home().client(), clock.job()
    clock.callback.answers(job, *[NOT_FOUND] * 5)
    fire_at = seconds_from_now(-1)
    client.arm(job, fire_at)
    clock.callback.wait(job, times=5, timeout=60)

    def next_attempt() -> str | None:
        shown = clock.server.job(client.home.agent, job)
        return shown["next_attempt"] if shown["attempts"] == 5 else None

    planned = until("the fifth is settled", next_attempt)
    assert client.armed() == {job: fire_at}
    sixth = clock.callback.wait(job, times=6, timeout=40)[5]
    assert sixth.at < datetime.fromisoformat(planned).timestamp(), "it was left to itself"


def test_an_agent_that_is_not_there_yet_is_found_by_a_retry(clock: Clock) -> None:
    # No process listens there. A stock app will listen later, at an address of its own.
    deserted = Place()
    home = clock.home(callback_url=deserted.url)
    client, job = home.client(), clock.job()
    client.arm(job, seconds_from_now(-1))
    until("it was tried", lambda: clock.server.job_history(home.agent, job))
    # The agent starts at another address and arms with the same key: the address changes, nothing fires twice.
    home.callback_url = clock.callback.url
    client.arm(job, client.armed()[job])
    clock.callback.wait(job)
    clock.pass_by(home, 1)
    assert len(clock.callback.of(job)) == 1


def test_a_new_time_and_a_cancel_stop_the_retries(clock: Clock) -> None:
    replaced, cancelled = clock.home().client(), clock.home().client()
    jobs = {replaced: clock.job(), cancelled: clock.job()}
    for client, job in jobs.items():
        clock.callback.answers(job, *[NOT_FOUND] * 20)
        client.arm(job, seconds_from_now(-1))
        clock.callback.wait(job)
    replaced.arm(jobs[replaced], seconds_from_now(3600))
    cancelled.cancel(job_id=jobs[cancelled])
    # A fire that was already on its way may still arrive.
    clock.pass_by(clock.home(), 2)
    tried = {job: len(clock.callback.of(job)) for job in jobs.values()}
    clock.pass_by(clock.home(), 4)
    assert {job: len(clock.callback.of(job)) for job in tried} == tried


# A server that is killed.


def test_a_restart_of_the_server_loses_no_arm(clock: Clock) -> None:
    home = clock.home()
    client = home.client()
    # The server must be gone before the first is due. A machine that is too slow for that gets more time.
    for ahead in (AHEAD_S, 4 * AHEAD_S, 16 * AHEAD_S):
        while_it_is_down = {clock.job(): seconds_from_now(ahead) for _ in range(8)}
        afterwards = {clock.job(): seconds_from_now(ahead + 5 + number / 20) for number in range(8)}
        jobs = while_it_is_down | afterwards
        for job, fire_at in jobs.items():
            client.arm(job, fire_at)
        clock.server.kill()
        if datetime.now(timezone.utc) < datetime.fromisoformat(min(while_it_is_down.values())):
            break
        clock.server.serve()
        until("the clock is empty again", lambda: client.armed() == {})
    assert not any(clock.callback.of(job) for job in jobs), "the kill came too late to tell"
    due = datetime.fromisoformat(max(while_it_is_down.values()))
    until("the first are overdue", lambda: datetime.now(timezone.utc) > due)
    clock.server.serve()
    for job in jobs:
        [fire] = clock.callback.wait(job, timeout=40)
        assert fire.body["fire_at"] == jobs[job]
    clock.pass_by(home, 1)
    assert {job: len(clock.callback.of(job)) for job in jobs} == dict.fromkeys(jobs, 1)
    assert client.armed() == {}


def test_a_retry_goes_on_after_a_restart(clock: Clock) -> None:
    home = clock.home()
    client, job = home.client(), clock.job()
    clock.callback.answers(job, NOT_FOUND)
    client.arm(job, seconds_from_now(-1))
    clock.callback.wait(job)
    clock.server.kill_and_serve()
    clock.callback.wait(job, times=2, timeout=60)
    clock.pass_by(home, 1)
    assert len(clock.callback.of(job)) == 2

"""The stock portal client in this process: it arms, lists, cancels and refreshes against the server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import requests
from cron.jobs import create_job, remove_job
from hermes_cli.auth import AuthError, refresh_nous_oauth_pure
from hermes_cli.nous_auth_keepalive import refresh_nous_auth_keepalive_once

from callback import seconds_from_now
from child import call
from clock_fixture import Clock
from posthouse_server import Agent
from stock_cron import CronHome, NasCronClientError

LONG_AGO = "2020-01-01T00:00:00+00:00"
# A time that is changed before it comes: far enough for a slow machine, near enough to wait for it.
AHEAD_S = 15.0


@pytest.fixture
def home(clock: Clock) -> CronHome:
    return clock.home()


def portal(agent: Agent, method: str, verb: str, body: Any = None, bearer: str | None = None) -> tuple[int, Any]:
    """A call to the portal with any bearer, or none."""
    headers = {} if bearer is None else {"Authorization": f"Bearer {bearer}"}
    return call(method, f"{agent.printed['portal_url']}/api/agent-cron/{verb}", body, headers)


# Arms.


@pytest.mark.parametrize("offset", [timezone.utc, timezone(timedelta(hours=5, minutes=45)), timezone(-timedelta(hours=9))])
def test_the_list_returns_the_time_byte_for_byte(clock: Clock, home: CronHome, offset: timezone) -> None:
    client = home.client()
    times = {
        "microseconds": (datetime.now(offset) + timedelta(hours=1)).replace(microsecond=123450).isoformat(),
        "seconds": (datetime.now(offset) + timedelta(hours=2)).replace(microsecond=0).isoformat(),
        "zulu": (datetime.now(timezone.utc) + timedelta(hours=3)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "far": (datetime.now(offset) + timedelta(days=9 * 365)).isoformat(),
    }
    schedules = {job: client.arm(job, fire_at) for job, fire_at in times.items()}
    assert client.armed() == times
    assert {arm["job_id"]: arm["schedule_id"] for arm in client.list_armed()} == schedules


def test_a_job_fires_at_its_time_with_the_time_that_was_asked_for(clock: Clock, home: CronHome) -> None:
    client, job, fire_at = home.client(), clock.job(), seconds_from_now(1)
    client.arm(job, fire_at)
    [fire] = clock.callback.wait(job)
    assert fire.body == {"job_id": job, "fire_at": fire_at}
    assert fire.headers["content-type"] == "application/json"
    clock.pass_by(home, 0.2)
    assert len(clock.callback.of(job)) == 1, "an accepted fire was sent again"
    assert job not in client.armed(), "an accepted fire is still listed"


def test_a_past_time_fires_at_once(clock: Clock, home: CronHome) -> None:
    job = clock.job()
    home.client().arm(job, seconds_from_now(-3600))
    clock.callback.wait(job)


def test_the_same_key_twice_is_one_fire(clock: Clock, home: CronHome) -> None:
    client, job, fire_at = home.client(), clock.job(), seconds_from_now(0.7)
    first = client.arm(job, fire_at)
    assert client.arm(job, fire_at) == first, "the same arm got another id"
    clock.callback.wait(job)
    assert client.arm(job, fire_at) == first, "the key was forgotten with its delivery"
    clock.pass_by(home, 0.3)
    assert len(clock.callback.of(job)) == 1
    assert client.armed() == {}


def test_a_new_time_replaces_the_old_one(clock: Clock, home: CronHome) -> None:
    client, job = home.client(), clock.job()
    client.arm(job, seconds_from_now(AHEAD_S))
    later = seconds_from_now(AHEAD_S + 1)
    client.arm(job, later)
    assert client.armed() == {job: later}
    [fire] = clock.callback.wait(job, timeout=AHEAD_S + 60)
    assert fire.body["fire_at"] == later


def test_an_earlier_time_replaces_a_later_one_and_wakes_the_clock(clock: Clock, home: CronHome) -> None:
    client, job = home.client(), clock.job()
    client.arm(job, seconds_from_now(600))
    client.arm(job, seconds_from_now(0.5))
    clock.callback.wait(job)


def test_a_cancelled_job_is_silent(clock: Clock, home: CronHome) -> None:
    client, job = home.client(), clock.job()
    client.arm(job, seconds_from_now(AHEAD_S))
    assert client.cancel(job_id=job) == {"ok": True}
    assert client.armed() == {}
    assert client.cancel(job_id=job) == {"ok": True}, "nothing is armed any more, and that is fine"
    assert client.cancel(job_id="never-heard-of") == {"ok": True}
    clock.pass_by(home, AHEAD_S)
    assert clock.callback.of(job) == []


def test_a_job_can_be_armed_again_after_cancel(clock: Clock, home: CronHome) -> None:
    client, job, fire_at = home.client(), clock.job(), seconds_from_now(-1)
    client.arm(job, fire_at)
    clock.callback.wait(job)
    client.cancel(job_id=job)
    client.arm(job, fire_at)
    clock.callback.wait(job, times=2)


# The stock provider with the same client.


def test_reconcile_arms_what_is_missing_and_then_has_nothing_to_do(clock: Clock, home: CronHome) -> None:
    with home.entered():
        kept = [create_job("ping 1", schedule)["id"] for schedule in ("every 5m", "0 9 * * *")]
        gone = create_job("ping 2", "every 7m")["id"]
    first = home.provider()
    first.reconcile()
    assert sorted(first.asked) == ["list", "provision", "provision", "provision"]
    # Stock makes a provider for every change. The listed time must be what it wrote, byte for byte.
    second = home.provider()
    second.reconcile()
    assert second.asked == ["list"]
    with home.entered():
        remove_job(gone)
    third = home.provider()
    third.reconcile()
    assert third.asked == ["list", "cancel"]
    assert sorted(home.client().armed()) == sorted(kept)


# Login.


def test_the_credentials_name_the_agent_and_the_server(clock: Clock, home: CronHome) -> None:
    printed = home.agent.printed
    assert printed["audience"] == f"agent:{home.agent.instance_id}"
    assert printed["portal_url"] == clock.server.url
    login = home.login()
    assert login["access_token"] == printed["access_token"] and login["refresh_token"] == printed["refresh_token"]
    assert login["portal_base_url"] == printed["portal_url"]
    assert home.client().list_armed() == []
    assert home.login()["access_token"] == printed["access_token"], "a fresh token was refreshed"


def test_an_old_token_is_refreshed_and_both_tokens_change(clock: Clock, home: CronHome) -> None:
    before = home.login()
    home.change_login(expires_at=LONG_AGO)
    client = home.client()
    client.arm("keeps", "2031-01-01T00:00:00+00:00")
    after = home.login()
    assert after["access_token"] != before["access_token"]
    assert after["refresh_token"] != before["refresh_token"]
    left = datetime.fromisoformat(after["expires_at"]) - datetime.now(timezone.utc)
    assert left > timedelta(minutes=14), "a short life makes stock refresh before every call"
    assert client.armed() == {"keeps": "2031-01-01T00:00:00+00:00"}, "the new token stands for the same agent"
    assert home.login() == after, "one refresh was enough"


def test_two_processes_of_one_agent_may_refresh_with_the_same_token(clock: Clock, home: CronHome) -> None:
    # They read auth.json at the same moment, and each stores its own answer.
    other = clock.home(home.agent)
    for _ in range(2):
        home.change_login(expires_at=LONG_AGO)
        home.client().list_armed()
        other.change_login(expires_at=LONG_AGO)
        other.client().list_armed()


def test_whoever_loses_the_race_for_a_refresh_is_not_locked_out(clock: Clock, home: CronHome) -> None:
    # The stock keepalive holds no lock during its request, and the answer written last is kept.
    login = home.login()

    def refresh(token: str) -> dict[str, Any]:
        told: list[dict[str, Any]] = []
        with pytest.raises(AuthError, match="not a usable inference JWT"):
            refresh_nous_oauth_pure(
                login["access_token"], token, login["client_id"], login["portal_base_url"], "",
                on_state_update=lambda state, _: told.append(state))
        return told[0]

    with ThreadPoolExecutor(6) as racers:
        answers = list(racers.map(refresh, [login["refresh_token"]] * 6))
    for answer in answers:
        status, listed = portal(home.agent, "GET", "list", bearer=answer["access_token"])
        assert (status, listed) == (200, {"armed": []})
        refresh(answer["refresh_token"])


def test_the_stock_keepalive_finds_a_portal_that_answers(clock: Clock, home: CronHome) -> None:
    # A minute after its start, and every six hours, stock refreshes whatever the token's age.
    before = home.login()
    with home.entered():
        assert refresh_nous_auth_keepalive_once()
    assert home.login()["access_token"] != before["access_token"]
    assert home.client().list_armed() == []


def test_a_refresh_token_that_nobody_was_given_ends_the_login(clock: Clock, home: CronHome) -> None:
    home.change_login(expires_at=LONG_AGO, refresh_token="x" * 43)
    with pytest.raises(NasCronClientError) as refused:
        home.client().list_armed()
    reason = refused.value.__cause__
    assert isinstance(reason, AuthError) and reason.code == "invalid_grant" and reason.relogin_required
    assert not home.login().get("access_token"), "stock wipes its login on this answer, so it must be meant"


# Refused callers.


def test_no_token_a_wrong_one_and_one_for_another_door_are_refused(clock: Clock, home: CronHome) -> None:
    agent, job = home.agent, clock.job()
    home.client().arm(job, seconds_from_now(-1))
    [fire] = clock.callback.wait(job)
    printed = agent.printed
    wrong = {
        "none": None, "nonsense": "nonsense", "empty": "", "a gateway's secret": agent.secret,
        "a client's secret": printed["client_secret"], "a refresh token": printed["refresh_token"],
        "a fire token": fire.token, "cut short": printed["access_token"][:-1],
    }
    arm = {"job_id": job, "fire_at": seconds_from_now(60), "agent_callback_url": clock.callback.url, "dedup_key": "k"}
    for what, bearer in wrong.items():
        for method, verb, body in [("POST", "provision", arm), ("POST", "cancel", {"job_id": job}), ("GET", "list", None)]:
            status, said = portal(agent, method, verb, body, bearer)
            assert (status, said["error"]) == (401, "invalid_token"), f"{what} at {verb}: {status} {said}"
    assert home.client().armed() == {}


def test_a_foreign_token_neither_sees_nor_touches_an_arm(clock: Clock, home: CronHome) -> None:
    stranger = clock.home().client()
    client, job, fire_at = home.client(), clock.job(), seconds_from_now(AHEAD_S)
    client.arm(job, fire_at)
    assert stranger.armed() == {}
    assert stranger.cancel(job_id=job) == {"ok": True}
    # The same job id is another job for another agent.
    elsewhere = seconds_from_now(300)
    stranger.arm(job, elsewhere)
    assert client.armed() == {job: fire_at} and stranger.armed() == {job: elsewhere}
    [fire] = clock.callback.wait(job, timeout=AHEAD_S + 60)
    assert fire.claims["aud"] == home.agent.printed["audience"]
    assert stranger.armed() == {job: elsewhere}


def test_a_refusal_reaches_the_stock_client_with_its_reason(clock: Clock, home: CronHome) -> None:
    client = home.client()
    for fire_at, url in [("2031-01-01T00:00:00", clock.callback.url), ("soon", clock.callback.url),
                         ("2031-01-01T00:00:00+00:00", "ftp://127.0.0.1"), ("2031-01-01T00:00:00+00:00", "")]:
        with pytest.raises(NasCronClientError, match="returned 4(00|22)"):
            client.provision(job_id="j", fire_at=fire_at, agent_callback_url=url, dedup_key=f"j:{fire_at}")
    with pytest.raises(NasCronClientError, match="returned 400"):
        client.cancel(job_id="")
    assert client.armed() == {}


def test_an_agent_that_was_removed_is_refused_and_never_called_again(clock: Clock, home: CronHome) -> None:
    client, job = home.client(), clock.job()
    client.arm(job, seconds_from_now(AHEAD_S))
    clock.server.remove(home.agent)
    with pytest.raises(NasCronClientError, match="returned 401: .*invalid_token"):
        client.list_armed()
    clock.pass_by(clock.home(), AHEAD_S)
    assert clock.callback.of(job) == []


# The other identities.


def granted(agent: Agent, client_id: str, client_secret: str) -> str:
    """An access token for the client's own credential, without a login."""
    told = requests.post(f"{agent.printed['portal_url']}/oauth/token", timeout=60, data={
        "grant_type": "client_credentials", "client_id": client_id, "client_secret": client_secret})
    assert told.status_code == 200, told.text
    return told.json()["access_token"]


def test_the_agents_own_client_stands_for_the_same_agent(clock: Clock, home: CronHome) -> None:
    client, job, fire_at = home.client(), clock.job(), seconds_from_now(300)
    client.arm(job, fire_at)
    printed = home.agent.printed
    assert printed["client_id"] == printed["audience"] and home.login()["client_id"] != printed["client_id"]
    bearer = granted(home.agent, printed["client_id"], printed["client_secret"])
    # A stock agent could use it as well: stock never parses a token.
    home.change_login(access_token=bearer)
    assert client.armed() == {job: fire_at}


def test_a_good_credential_that_is_no_agents_is_told_so_for_good(clock: Clock, home: CronHome) -> None:
    made = clock.server.admin("client", "create", "--tenant", home.agent.tenant)
    bearer = granted(home.agent, made["client_id"], made["client_secret"])
    for method, verb, body in [("POST", "cancel", {"job_id": "j"}), ("GET", "list", None)]:
        status, said = portal(home.agent, method, verb, body, bearer)
        assert (status, said["error"]) == (403, "invalid_client") and said["error_description"]


def test_a_login_that_was_ended_is_refused(clock: Clock, home: CronHome) -> None:
    login = next(each["id"] for each in clock.server.listed("client", "list", "--tenant", home.agent.tenant)
                 if each["id"].startswith("log_"))
    client = home.client()
    client.arm("keeps", "2031-01-01T00:00:00+00:00")
    clock.server.admin("client", "revoke", login)
    with pytest.raises(NasCronClientError, match="returned 401: .*invalid_token"):
        client.list_armed()
    # A new client finds what the old one armed.
    again = clock.server.admin(
        "client", "create", "--tenant", home.agent.tenant, "--agent", home.agent.name, "--login")
    home.change_login(**again["auth"]["providers"]["nous"])
    assert client.armed() == {"keeps": "2031-01-01T00:00:00+00:00"}

"""The stock verifier checks tokens that the server really sent, against the keys that it really publishes."""

from __future__ import annotations

import base64
import hmac
import json
import time
from datetime import datetime, timezone
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from jwt import api_jwt
from plugins.cron_providers.chronos import verify

from callback import Fire, seconds_from_now
from child import call
from clock_fixture import Clock
from stock_cron import CronHome, accepts

LEEWAY_S = 30


@pytest.fixture(scope="module")
def home(clock: Clock) -> CronHome:
    return clock.home()


def fired(clock: Clock, home: CronHome) -> Fire:
    job = clock.job()
    home.client().arm(job, seconds_from_now(-1))
    return clock.callback.wait(job)[0]


@pytest.fixture(scope="module")
def fire(clock: Clock, home: CronHome) -> Fire:
    return fired(clock, home)


def keys(home: CronHome) -> dict[str, dict[str, Any]]:
    status, published = call("GET", home.agent.printed["jwks_url"])
    assert status == 200
    return {key["kid"]: key for key in published["keys"]}


def forget_keys() -> None:
    """As in a process that has just started."""
    verify._JWK_CLIENTS.clear()


def repacked(fire: Fire, header: dict[str, Any] = {}, **claims: Any) -> str:
    """The same token with other content, under the old signature."""
    _, _, signature = fire.token.split(".")
    parts = [jwt.get_unverified_header(fire.token) | header, fire.claims | claims]
    return ".".join([*(base64.urlsafe_b64encode(json.dumps(p).encode()).rstrip(b"=").decode() for p in parts), signature])


@pytest.fixture
def agents_clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the clock that the stock verifier uses."""

    def set_to(seconds: float) -> None:
        class Then(datetime):
            @classmethod
            def now(cls, tz: timezone | None = None) -> datetime:
                return datetime.fromtimestamp(seconds, tz)

        monkeypatch.setattr(api_jwt, "datetime", Then)

    return set_to


# Accepted tokens.


def test_a_token_that_was_sent_is_accepted(home: CronHome, fire: Fire) -> None:
    claims = accepts(fire.token, home.agent)
    assert claims == fire.claims
    assert claims["iss"] == home.agent.printed["portal_url"]
    assert claims["aud"] == home.agent.printed["audience"]
    assert claims["purpose"] == "cron_fire"
    assert {name: claims[name] for name in ("job_id", "fire_at")} == fire.body
    assert 60 <= claims["exp"] - claims["iat"] <= 120
    assert claims["nbf"] <= time.time()


def test_the_key_set_is_public_cacheable_and_holds_no_secret(home: CronHome, fire: Fire) -> None:
    kid = jwt.get_unverified_header(fire.token)["kid"]
    published = keys(home)
    assert kid in published
    for key in published.values():
        assert key["kty"] in ("EC", "RSA") and key.get("use", "sig") == "sig"
        assert not {"d", "p", "q", "dp", "dq", "qi", "k"} & set(key)


def test_every_attempt_has_a_token_of_its_own(clock: Clock, home: CronHome, fire: Fire) -> None:
    other = fired(clock, home)
    assert other.token != fire.token and other.claims["jti"] != fire.claims["jti"]


def test_a_pinned_key_works_as_well_as_the_set(home: CronHome, fire: Fire) -> None:
    published = keys(home)[jwt.get_unverified_header(fire.token)["kid"]]
    pem = jwt.PyJWK(published).key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()
    assert accepts(fire.token, home.agent, jwks_or_key=pem)


def test_a_token_lives_as_long_as_it_says_and_half_a_minute_more(home: CronHome, fire: Fire, agents_clock: Any) -> None:
    until = fire.claims["exp"]
    agents_clock(until + LEEWAY_S - 1)
    assert accepts(fire.token, home.agent)
    agents_clock(until + LEEWAY_S)
    assert accepts(fire.token, home.agent) is None


def test_an_agent_whose_clock_is_half_a_minute_behind_still_accepts(home: CronHome, fire: Fire, agents_clock: Any) -> None:
    agents_clock(max(fire.claims["iat"], fire.claims["nbf"]) - LEEWAY_S)
    assert accepts(fire.token, home.agent)


# Refused tokens.


def test_another_agents_token_is_refused(clock: Clock, home: CronHome, fire: Fire) -> None:
    stranger = clock.home()
    foreign = fired(clock, stranger)
    assert accepts(foreign.token, stranger.agent)
    assert accepts(foreign.token, home.agent) is None
    assert accepts(fire.token, stranger.agent) is None


@pytest.mark.parametrize("changed", [
    {"aud": "agent:somebody-else"}, {"purpose": "login"}, {"purpose": None}, {"exp": 9_999_999_999},
    {"iss": "http://127.0.0.1:1"}, {"job_id": "another"}, {"aud": ["agent:somebody-else"]},
], ids=str)
def test_one_changed_word_breaks_it(home: CronHome, fire: Fire, changed: dict[str, Any]) -> None:
    forged = repacked(fire, **changed)
    audience = changed.get("aud", home.agent.printed["audience"])
    expected = audience if isinstance(audience, str) else audience[0]
    assert accepts(forged, home.agent, expected_audience=expected, issuer=None) is None


def test_a_tampered_signature_is_refused(home: CronHome, fire: Fire) -> None:
    head, body, signature = fire.token.split(".")
    for broken in ("", signature[:-8], signature[4:] + signature[:4], "A" * len(signature)):
        assert accepts(f"{head}.{body}.{broken}", home.agent) is None


def test_a_portal_of_another_name_is_refused(home: CronHome, fire: Fire) -> None:
    # For the stock verifier a trailing slash makes a different issuer, so the server must not add one.
    url = home.agent.printed["portal_url"]
    assert not url.endswith("/")
    assert accepts(fire.token, home.agent, issuer=f"{url}/") is None


def test_no_algorithm_and_a_symmetric_one_are_refused(home: CronHome, fire: Fire) -> None:
    unsigned = repacked(fire, {"alg": "none"}).rpartition(".")[0] + "."
    assert accepts(unsigned, home.agent) is None
    # Algorithm confusion: the public key used as a shared secret.
    kid = jwt.get_unverified_header(fire.token)["kid"]
    key = jwt.PyJWK(keys(home)[kid]).key
    for form in (serialization.Encoding.PEM, serialization.Encoding.DER):
        secret = key.public_bytes(form, serialization.PublicFormat.SubjectPublicKeyInfo)
        signed = repacked(fire, {"alg": "HS256"}).rpartition(".")[0]
        mark = base64.urlsafe_b64encode(hmac.digest(secret, signed.encode(), "sha256")).rstrip(b"=").decode()
        assert accepts(f"{signed}.{mark}", home.agent) is None


def test_a_forgers_key_is_refused_under_any_name(home: CronHome, fire: Fire) -> None:
    forger = ec.generate_private_key(ec.SECP256R1())
    kid = jwt.get_unverified_header(fire.token)["kid"]
    for name in ({"kid": kid}, {"kid": "unknown"}, {}):
        assert accepts(jwt.encode(fire.claims, forger, algorithm="ES256", headers=name), home.agent) is None
    # An unknown key id made stock fetch the set again. The valid token still works.
    assert accepts(fire.token, home.agent)


def test_tokens_for_other_doors_are_refused(home: CronHome) -> None:
    printed = home.agent.printed
    for token in (printed["access_token"], printed["refresh_token"], home.agent.secret, printed["client_secret"], ""):
        assert accepts(token, home.agent) is None


# Key rotation.


def test_a_new_key_is_published_first_and_signs_later(clock: Clock, home: CronHome, fire: Fire) -> None:
    old = jwt.get_unverified_header(fire.token)["kid"]
    before = time.time()
    made = clock.server.admin("signing-key", "rotate")
    assert set(keys(home)) >= {old, made["kid"]}
    assert datetime.fromisoformat(made["signs_from"]).timestamp() - before > 590
    assert {key["kid"] for key in clock.server.listed("signing-key", "list")} >= {old, made["kid"]}
    other = fired(clock, home)
    assert jwt.get_unverified_header(other.token)["kid"] == old
    forget_keys()
    assert accepts(other.token, home.agent)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_key_that_replaces_a_lost_one_at_once_is_found_by_its_name(
        clock: Clock, home: CronHome, fire: Fire, algorithm: str) -> None:
    # The stock verifier has cached the old set and does not know this key.
    assert accepts(fired(clock, home).token, home.agent)
    made = clock.server.admin("signing-key", "rotate", "--at-once", "--algorithm", algorithm)
    other = fired(clock, home)
    header = jwt.get_unverified_header(other.token)
    assert (header["kid"], header["alg"]) == (made["kid"], algorithm)
    assert accepts(other.token, home.agent)
    assert accepts(fire.token, home.agent), "what was signed before is still good"


def test_the_keys_outlive_the_server(clock: Clock, home: CronHome, fire: Fire) -> None:
    before = keys(home)
    clock.server.kill_and_serve()
    assert keys(home) == before
    forget_keys()
    assert accepts(fire.token, home.agent)
    assert accepts(fired(clock, home).token, home.agent)

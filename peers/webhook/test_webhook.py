"""The sender of signed webhooks, judged by the library of Standard Webhooks."""

import base64
import hashlib
import hmac
import http.server
import json
import queue
import threading

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from stand_in import StandIn, running

SECRET = "whsec_" + base64.b64encode(b"a stand-in secret of 24b").decode()


@pytest.fixture(scope="session")
def webhook_url():
    with running("webhook") as url:
        yield url


@pytest.fixture
def stand_in(webhook_url):
    stand_in = StandIn(webhook_url)
    stand_in.control("POST", "reset", {})
    return stand_in


@pytest.fixture
def door():
    heard = queue.Queue()

    class Door(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            heard.put((dict(self.headers.items()), body))
            self.send_response(heard.answers.pop(0) if heard.answers else 200)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    heard.url, heard.answers = f"http://127.0.0.1:{server.server_port}/door", []
    yield heard
    server.shutdown()


def test_the_library_of_standard_webhooks_accepts_what_is_sent(stand_in, door):
    door.answers = [500]
    body = {"type": "invoice.paid", "text": "olá 🦉"}
    sent = stand_in.inject("send", url=door.url, scheme="standard", secret=SECRET, body=body)
    for _ in range(2):
        headers, raw = door.get(timeout=60)
        assert Webhook(SECRET).verify(raw, headers) == body
        assert headers["webhook-id"] == sent["delivery"]
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(raw + b" ", headers)
    stand_in.wait(kind="acknowledged")
    assert SECRET not in json.dumps(stand_in.rows())


def test_other_schemes_have_their_headers(stand_in, door):
    send = lambda scheme: stand_in.inject("send", url=door.url, scheme=scheme, secret="s3cret", body={"a": 1})
    sign = lambda text: hmac.new(b"s3cret", text, hashlib.sha256).hexdigest()
    send("github")
    headers, raw = door.get(timeout=60)
    assert headers["x-hub-signature-256"] == "sha256=" + sign(raw)
    send("gitlab")
    assert door.get(timeout=60)[0]["x-gitlab-token"] == "s3cret"
    send("stripe")
    headers, raw = door.get(timeout=60)
    time, signature = (part.split("=")[1] for part in headers["stripe-signature"].split(","))
    assert signature == sign(time.encode() + b"." + raw)
    send("bearer")
    assert door.get(timeout=60)[0]["authorization"] == "Bearer s3cret"

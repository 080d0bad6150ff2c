"""The Twilio stand-in, judged by the platform's own client library."""

import http.server
import queue
import threading
import urllib.parse
import urllib.request
from contextlib import contextmanager

import pytest
from twilio.base.exceptions import TwilioRestException
from twilio.request_validator import RequestValidator
from twilio.rest import Client

from stand_in import StandIn, running

ACCOUNT, TOKEN, NUMBER = "AC" + "0" * 31 + "1", "stand-in-token", "+15550100"
PERSON = "+15550177"


@pytest.fixture(scope="session")
def twilio_url():
    with running("twilio", "--account", f"{ACCOUNT}:{TOKEN}:{NUMBER}") as url:
        yield url


@pytest.fixture
def stand_in(twilio_url):
    stand_in = StandIn(twilio_url)
    stand_in.control("POST", "webhook", {"url": None})
    stand_in.control("POST", "reset", {})
    return stand_in


@pytest.fixture
def client(stand_in):
    return library(stand_in)


def library(stand_in, token=TOKEN):
    client = Client(ACCOUNT, token)
    client.api.base_url = stand_in.url
    return client


def refused(status, code, call, *arguments, **fields):
    with pytest.raises(TwilioRestException) as refusal:
        call(*arguments, **fields)
    assert (refusal.value.status, refusal.value.code) == (status, code)


@contextmanager
def webhook():
    """Checks signatures with the library's own validator and puts accepted forms into a queue."""
    heard = queue.Queue()
    validator = RequestValidator(TOKEN)

    class Door(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            fields = dict(urllib.parse.parse_qsl(body, keep_blank_values=True))
            url = f"http://127.0.0.1:{self.server.server_port}{self.path}"
            is_genuine = validator.validate(url, fields, self.headers["X-Twilio-Signature"])
            self.send_response(200 if is_genuine else 403)
            self.send_header("content-type", "text/xml")
            self.end_headers()
            self.wfile.write(b"<Response/>")
            heard.put(fields if is_genuine else "forged")

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/sms?bot=1", heard
    finally:
        server.shutdown()


def test_messages_come_in_signed_and_answers_go_out(stand_in, client):
    with webhook() as (url, heard):
        stand_in.control("POST", "webhook", {"url": url})
        sent = stand_in.inject("message", text="olá & 1+1=2 🦉 ")
        fields = heard.get(timeout=60)
        assert (fields["Body"], fields["From"], fields["To"]) == ("olá & 1+1=2 🦉 ", PERSON, NUMBER)
        assert (fields["MessageSid"], fields["NumMedia"]) == (sent["message_id"], "0")
        answer = client.messages.create(to=PERSON, from_=NUMBER, body="hello", status_callback=url)
        assert (answer.status, answer.direction, answer.body) == ("queued", "outbound-api", "hello")
        assert [heard.get(timeout=60)["MessageStatus"] for _ in range(2)] == ["sent", "delivered"]
        stand_in.wait(kind="delivered")
        assert client.messages(answer.sid).fetch().status == "delivered"
        assert {one.sid for one in client.messages.list()} == {answer.sid, sent["message_id"]}
    assert [row["text"] for row in stand_in.rows(kind="sent", chat=PERSON)] == ["hello"]


def test_people_on_whatsapp_have_names_and_may_hide_their_number(stand_in, client):
    with webhook() as (url, heard):
        stand_in.control("POST", "webhook", {"url": url})
        stand_in.inject("message", text="hi", **{"from": f"whatsapp:{PERSON}"})
        fields = heard.get(timeout=60)
        assert (fields["WaId"], fields["ProfileName"], fields["To"]) == (PERSON[1:], "Ana", f"whatsapp:{NUMBER}")
        hidden = "whatsapp:US.13491208655302741918"
        stand_in.inject("message", text="psst", **{"from": hidden})
        fields = heard.get(timeout=60)
        assert (fields["ExternalUserIdentifier"], "WaId" in fields) == (hidden[9:], False)
        client.messages.create(to=hidden, from_=f"whatsapp:{NUMBER}", body="yes?")
    assert stand_in.rows(kind="sent")[0]["chat"] == hidden


def test_media_needs_credentials_and_redirects_to_storage(stand_in, client):
    with webhook() as (url, heard):
        stand_in.control("POST", "webhook", {"url": url})
        stand_in.inject("message", text="look", files=[{"content_type": "image/png", "base64": "d29yZHM="}])
        fields = heard.get(timeout=60)
        assert (fields["NumMedia"], fields["MediaContentType0"]) == ("1", "image/png")
        with pytest.raises(urllib.error.HTTPError) as refusal:
            urllib.request.urlopen(fields["MediaUrl0"], timeout=30)
        assert refusal.value.code == 401
        passwords = urllib.request.HTTPPasswordMgrWithPriorAuth()
        passwords.add_password(None, stand_in.url, ACCOUNT, TOKEN, is_authenticated=True)
        opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(passwords))
        with opener.open(fields["MediaUrl0"], timeout=30) as answer:
            assert (answer.read(), answer.headers["content-type"]) == (b"words", "image/png")
            assert "/storage/" in answer.url


def test_errors_have_the_codes_of_the_platform(stand_in, client):
    create = client.messages.create
    refused(400, 21211, create, to="nonsense", from_=NUMBER, body="x")
    refused(400, 21606, create, to=PERSON, from_="+15550199", body="x")
    refused(400, 21617, create, to=PERSON, from_=NUMBER, body="x" * 1601)
    refused(401, 20003, library(stand_in, token="wrong").messages.create, to=PERSON, from_=NUMBER, body="x")
    stand_in.fails("too_many_requests", retry_after=1)
    refused(429, 20429, create, to=PERSON, from_=NUMBER, body="x")
    with webhook() as (url, heard):
        stand_in.control("POST", "webhook", {"url": url})
        stand_in.inject("opt_out")
        assert heard.get(timeout=60)["OptOutType"] == "STOP"
    refused(400, 21610, create, to=PERSON, from_=NUMBER, body="x")
    assert TOKEN not in str(stand_in.rows()) + str(stand_in.refusals())

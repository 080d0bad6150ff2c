"""The WhatsApp stand-in, judged by pywa, a client library that knows the real platform."""

import http.server
import json
import queue
import threading
import urllib.parse
from contextlib import contextmanager

import pytest
from pywa import WhatsApp, types
from pywa.errors import WhatsAppError

from stand_in import StandIn, running

NUMBER, TOKEN, SECRET, VERIFY = "106", "stand-in-token", "stand-in-secret", "stand-in-verify"
PERSON = "15550177"


@pytest.fixture(scope="session")
def whatsapp_url():
    with running("whatsapp", "--number", f"{NUMBER}:{TOKEN}:{SECRET}:{VERIFY}") as url:
        yield url


@pytest.fixture
def stand_in(whatsapp_url):
    stand_in = StandIn(whatsapp_url)
    stand_in.control("POST", "webhook", {"url": None})
    stand_in.control("POST", "reset", {})
    return stand_in


@pytest.fixture
def wa(stand_in):
    return library(stand_in)


def library(stand_in, token=TOKEN, version="26.0"):
    wa = WhatsApp(
        phone_id=NUMBER, token=token, server=None, verify_token=VERIFY, app_secret=SECRET, api_version=version
    )
    wa.api._session.base_url = f"{stand_in.url}/v{version}"
    return wa


def refused(code, call, *arguments, **fields):
    with pytest.raises(WhatsAppError) as refusal:
        call(*arguments, **fields)
    assert refusal.value.code == code, refusal.value


@contextmanager
def webhook(wa):
    """The library behind HTTP. It checks tokens and signatures by itself, and puts what happens into a queue."""
    heard, verdicts = queue.Queue(), []
    wa.on_message(lambda _, message: heard.put(message))
    wa.on_callback_button(lambda _, button: heard.put(button))
    wa.on_message_status(lambda _, status: heard.put(status))

    class Door(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
            assert query["hub.mode"] == "subscribe"
            self.reply(*wa.webhook_challenge_handler(vt=query["hub.verify_token"], ch=query["hub.challenge"]))

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            assert body.isascii()
            wrong = wa.webhook_update_validator(body, self.headers["X-Hub-Signature-256"])
            verdicts.append(wrong)
            self.reply(*(wrong or wa.webhook_update_handler(body)))

        def reply(self, text, status):
            self.send_response(status)
            self.end_headers()
            self.wfile.write((text or "").encode())

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/webhook", heard, verdicts
    finally:
        server.shutdown()


def test_a_webhook_is_verified_and_its_updates_are_signed(stand_in, wa):
    with webhook(wa) as (url, heard, verdicts):
        stand_in.control("POST", "webhook", {"url": url})
        assert stand_in.wait(kind="webhook_verified,webhook_refused")[0]["kind"] == "webhook_verified"
        sent = stand_in.inject("message", text="olá 🦉")
        message = heard.get(timeout=60)
        assert (message.text, message.id, message.from_user.wa_id) == ("olá 🦉", sent["message_id"], PERSON)
        assert message.from_user.name == "Ana"
        answer = message.reply("hello")
        statuses = {heard.get(timeout=60).status, heard.get(timeout=60).status}
        assert statuses == {types.MessageStatusType.SENT, types.MessageStatusType.DELIVERED}
        stand_in.inject("message", text="thanks", reply_to=answer.id)
        assert heard.get(timeout=60).reply_to_message.id == answer.id
        assert verdicts and not any(verdicts)


def test_a_number_can_have_a_webhook_of_its_own(stand_in, wa):
    refused(2200, wa.override_phone_callback_url, "http://127.0.0.1:9/nobody", VERIFY)
    with webhook(wa) as (url, heard, verdicts):
        refused(2200, wa.override_phone_callback_url, url, "another token")
        assert wa.override_phone_callback_url(url, VERIFY).success
        stand_in.inject("message", text="to the number")
        assert heard.get(timeout=60).text == "to the number"
        assert wa.delete_phone_callback_url().success
        assert verdicts == [None]


def test_a_person_without_a_number_is_answered_by_id(stand_in, wa):
    with webhook(wa) as (url, heard, verdicts):
        stand_in.control("POST", "webhook", {"url": url})
        stand_in.wait(kind="webhook_verified")
        hidden = {"number": None, "user_id": "US.13491208655302741918", "username": "ana"}
        stand_in.inject("message", text="psst", **{"from": hidden})
        message = heard.get(timeout=60)
        assert (message.from_user.wa_id, message.from_user.bsuid) == (None, hidden["user_id"])
        message.reply("yes?")
    (row,) = stand_in.rows(kind="sent")
    assert (row["chat"], row["raw"]["recipient"]) == (hidden["user_id"], hidden["user_id"])
    assert "to" not in row["raw"]


def test_messages_have_the_limits_of_the_platform(stand_in, wa):
    refused(131047, wa.send_message, PERSON, "unasked")
    sent = stand_in.inject("message", text="hi")
    wa.send_message(PERSON, "x" * 4096)
    refused(100, wa.send_message, PERSON, "x" * 4097)
    refused(131009, wa.send_message, PERSON, "x", reply_to_message_id="wamid.nonsense")
    wa.send_reaction(PERSON, "👍", sent["message_id"])
    wa.indicate_typing(sent["message_id"])
    wa.mark_message_as_read(sent["message_id"])
    refused(100, wa.indicate_typing, "wamid.nonsense")
    stand_in.control("POST", "clock", {"advance_ms": 24 * 3600 * 1000})
    refused(131047, wa.send_message, PERSON, "too late")
    kinds = [row["kind"] for row in stand_in.rows(chat=PERSON)]
    assert kinds == ["received", "sent", "reaction", "typing", "read"]


def test_credentials_and_versions_are_checked(stand_in):
    stand_in.inject("message", text="hi")
    refused(190, library(stand_in, token="wrong").send_message, PERSON, "x")
    refused(2635, library(stand_in, version="20.0").send_message, PERSON, "x")
    stand_in.fails("too_many_requests", retry_after=1, **{"global": True})
    refused(130429, library(stand_in).send_message, PERSON, "x")
    stand_in.fails("too_many_requests", retry_after=1)
    refused(131056, library(stand_in).send_message, PERSON, "x")


def test_buttons_are_pressed(stand_in, wa):
    with webhook(wa) as (url, heard, verdicts):
        stand_in.control("POST", "webhook", {"url": url})
        stand_in.wait(kind="webhook_verified")
        stand_in.inject("message", text="hi")
        heard.get(timeout=60)
        buttons = [types.Button("Yes", callback_data="yes"), types.Button("No", callback_data="no")]
        sent = wa.send_message(PERSON, "sure?", buttons=buttons)
        stand_in.inject("press", message_id=sent.id, id="yes")
        pressed = heard.get(timeout=60)
        while not isinstance(pressed, types.CallbackButton):
            pressed = heard.get(timeout=60)
        assert (pressed.data, pressed.title, pressed.reply_to_message.id) == ("yes", "Yes", sent.id)


def test_media_goes_both_ways(stand_in, wa):
    with webhook(wa) as (url, heard, verdicts):
        stand_in.control("POST", "webhook", {"url": url})
        stand_in.wait(kind="webhook_verified")
        stand_in.inject("media", kind="image", mime_type="image/png", base64="d29yZHM=", caption="look")
        message = heard.get(timeout=60)
        assert (message.caption, message.image.mime_type) == ("look", "image/png")
        assert message.image.get_bytes() == b"words"
        assert wa.get_media_url(message.image.id).mime_type == "image/png"
        stand_in.control("POST", "clock", {"advance_ms": 300_000})
        wa.send_image(PERSON, b"\x89PNG words", caption="here", mime_type="image/png")
    row = stand_in.rows(kind="sent")[0]
    assert (row["text"], "id" in row["raw"]["image"]) == ("here", True)
    assert TOKEN not in json.dumps(stand_in.rows())

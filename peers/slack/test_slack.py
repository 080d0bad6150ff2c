"""The Slack stand-in, judged by slack_sdk and slack_bolt, the platform's own client libraries."""

import contextlib
import http.server
import json
import queue
import threading
import time
import urllib.request

import pytest
from slack_bolt import App, BoltRequest
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_handlers import RateLimitErrorRetryHandler
from slack_sdk.models.blocks import ActionsBlock, ButtonElement, SectionBlock
from slack_sdk.webhook import WebhookClient

from stand_in import StandIn, running

APP, BOT_TOKEN, APP_TOKEN, SECRET = "A1", "xoxb-stand-in", "xapp-stand-in", "stand-in-secret"
BOT_USER = "UBOT1"
CHANNEL = "C500"


@pytest.fixture(scope="session")
def slack_url():
    with running("slack", "--app", f"{APP}:{BOT_TOKEN}:{APP_TOKEN}:{SECRET}@posty") as url:
        yield url


@pytest.fixture
def stand_in(slack_url):
    stand_in = StandIn(slack_url)
    stand_in.control("POST", "reset", {})
    stand_in.control("POST", "urls", {})
    return stand_in


@pytest.fixture
def client(stand_in):
    return WebClient(BOT_TOKEN, base_url=f"{stand_in.url}/api/")


def refused(error, call, *arguments, **fields):
    with pytest.raises(SlackApiError) as refusal:
        call(*arguments, **fields)
    assert refusal.value.response["error"] == error
    return refusal.value.response


@contextlib.contextmanager
def bolt(client, path=None):
    """A Bolt app behind HTTP that puts what happens into a queue. Bolt checks signatures by itself."""
    heard = queue.Queue()
    app = App(client=client, signing_secret=SECRET, process_before_response=True)

    @app.event("message")
    def on_message(body):
        heard.put(("message", body))

    @app.event("app_mention")
    def on_mention(body):
        heard.put(("app_mention", body))

    @app.action("yes")
    def on_action(ack, body):
        ack()
        heard.put(("yes", body))

    @app.command("/ask")
    def on_command(ack, body):
        ack("on it")
        heard.put(("/ask", body))

    @app.view("form")
    def on_view(ack, body):
        ack()
        heard.put(("form", body))

    answers = []

    class Door(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            headers = {name.lower(): [value] for name, value in self.headers.items()}
            if app_fails.is_set():
                app_fails.clear()
                answers.append((500, headers))
                self.send_response(500)
                self.end_headers()
                return
            answer = app.dispatch(BoltRequest(body=body, headers=headers))
            answers.append((answer.status, headers))
            self.send_response(answer.status)
            for name, value in answer.first_headers_without_set_cookie().items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write((answer.body or "").encode())

        def log_message(self, *arguments):
            pass

    app_fails = threading.Event()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield app, heard, f"http://127.0.0.1:{server.server_port}/slack/events", answers, app_fails
    finally:
        server.shutdown()


def test_an_app_knows_itself_and_a_wrong_token_is_refused(stand_in, client):
    identity = client.auth_test()
    assert (identity["user_id"], identity["team_id"], identity["bot_id"]) == (BOT_USER, "T1", "B1")
    refused("invalid_auth", WebClient("xoxb-wrong", base_url=f"{stand_in.url}/api/").auth_test)
    refused("not_allowed_token_type", client.apps_connections_open, app_token=BOT_TOKEN)


def test_messages_are_posted_updated_and_deleted(stand_in, client):
    said = stand_in.inject("message", text="hi", channel=CHANNEL, user="U5", user_name="ana")
    answer = client.chat_postMessage(channel=CHANNEL, text="hello", thread_ts=said["ts"])
    assert answer["message"]["bot_id"] == "B1"
    client.chat_update(channel=CHANNEL, ts=answer["ts"], text="hello *you*")
    replies = client.conversations_replies(channel=CHANNEL, ts=said["ts"])["messages"]
    assert [one["text"] for one in replies] == ["hi", "hello *you*"]
    client.reactions_add(channel=CHANNEL, timestamp=said["ts"], name="eyes")
    refused("already_reacted", client.reactions_add, channel=CHANNEL, timestamp=said["ts"], name="eyes")
    refused("cant_update_message", client.chat_update, channel=CHANNEL, ts=said["ts"], text="x")
    refused("message_not_found", client.chat_update, channel=CHANNEL, ts="1.000001", text="x")
    client.chat_delete(channel=CHANNEL, ts=answer["ts"])
    assert client.users_info(user="U5")["user"]["name"] == "ana"
    kinds = [row["kind"] for row in stand_in.rows(chat=CHANNEL)]
    assert kinds == ["received", "sent", "edited", "reaction", "deleted"]


def test_errors_are_told_in_the_body(stand_in, client):
    stand_in.inject("message", text="hi", channel=CHANNEL)
    refused("channel_not_found", client.chat_postMessage, channel="C999", text="x")
    refused("no_text", client.chat_postMessage, channel=CHANNEL, text="")
    long = {"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3001}}
    refused("invalid_blocks", client.chat_postMessage, channel=CHANNEL, text="x", blocks=[long])
    refused("msg_too_long", client.chat_postMessage, channel=CHANNEL, markdown_text="x" * 12_001)
    cut = client.chat_postMessage(channel=CHANNEL, text="x" * 40_001)
    assert len(cut["message"]["text"]) == 40_000


def test_a_rate_limit_is_told_with_its_seconds(stand_in, client):
    stand_in.inject("message", text="hi", channel=CHANNEL)
    stand_in.fails("too_many_requests", retry_after=1, call="chat.postMessage")
    limited = refused("ratelimited", client.chat_postMessage, channel=CHANNEL, text="x")
    assert (limited.status_code, limited.headers["Retry-After"]) == (429, "1")
    patient = WebClient(BOT_TOKEN, base_url=f"{stand_in.url}/api/")
    patient.retry_handlers.append(RateLimitErrorRetryHandler(max_retry_count=2))
    stand_in.fails("too_many_requests", retry_after=1, call="chat.postMessage")
    patient.chat_postMessage(channel=CHANNEL, text="at last")
    assert [row["text"] for row in stand_in.rows(kind="sent")] == ["at last"]


def test_direct_messages_are_opened(stand_in, client):
    said = stand_in.inject("message", text="psst", user="U5")
    opened = client.conversations_open(users="U5")["channel"]["id"]
    assert opened == said["channel"]
    assert client.conversations_info(channel=opened)["channel"]["is_im"]
    client.chat_postMessage(channel="U5", text="yes?")
    assert [row["text"] for row in stand_in.rows(kind="sent", chat=opened)] == ["yes?"]


def test_files_are_uploaded_and_downloaded(stand_in, client):
    file = {"name": "notes.txt", "mimetype": "text/plain", "base64": "d29yZHM="}
    said = stand_in.inject("message", text="look", channel=CHANNEL, files=[file])
    (shared,) = client.conversations_history(channel=CHANNEL)["messages"][0]["files"]
    request = urllib.request.Request(shared["url_private"], headers={"Authorization": f"Bearer {BOT_TOKEN}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert (answer.read(), answer.headers["content-type"]) == (b"words", "text/plain")
    with urllib.request.urlopen(shared["url_private"], timeout=30) as answer:
        assert b"Sign in" in answer.read()
    content = bytes(range(256)) * 10
    sent = client.files_upload_v2(
        channel=CHANNEL, filename="cat.png", content=content, initial_comment="here", thread_ts=said["ts"]
    )
    assert (sent["file"]["name"], sent["file"]["size"]) == ("cat.png", len(content))
    assert stand_in.rows(kind="sent")[0]["text"] == "here[cat.png]"


def test_a_message_streams(stand_in, client):
    said = stand_in.inject("message", text="tell me", channel=CHANNEL, user="U5")
    refused("missing_recipient_user_id", client.chat_startStream, channel=CHANNEL, thread_ts=said["ts"])
    stream = client.chat_stream(
        channel=CHANNEL, thread_ts=said["ts"], recipient_team_id="T1", recipient_user_id="U5", buffer_size=1
    )
    stream.append(markdown_text="one ")
    stream.append(markdown_text="two")
    answer = stream.stop()
    assert answer["message"]["text"] == "one two"
    refused("message_not_in_streaming_state", client.chat_appendStream, channel=CHANNEL, ts=answer["ts"], markdown_text="x")
    client.assistant_threads_setStatus(channel_id=CHANNEL, thread_ts=said["ts"], status="is thinking")
    assert stand_in.rows(kind="typing")[0]["text"] == "is thinking"


def test_events_are_signed_verified_and_repeated(stand_in, client):
    with bolt(client) as (app, heard, url, answers, app_fails):
        stand_in.control("POST", "urls", {"events": url})
        assert stand_in.wait(kind="events_url_verified,events_url_refused")[0]["kind"] == "events_url_verified"
        stand_in.inject("message", text=f"<@{BOT_USER}> hello", channel=CHANNEL, user="U5")
        both = dict(heard.get(timeout=60) for _ in range(2))
        assert both["message"]["event"]["ts"] == both["app_mention"]["event"]["ts"]
        assert both["message"]["event_id"] != both["app_mention"]["event_id"]
        app_fails.set()
        again = stand_in.inject("message", text="again", channel=CHANNEL, user="U5")
        kind, body = heard.get(timeout=60)
        assert body["event_id"] == again["events"][0]
        assert answers[-1][1]["x-slack-retry-num"] == ["1"]
        assert answers[-1][1]["x-slack-retry-reason"] == ["http_error"]
        assert all(status in (200, 500) for status, _ in answers)


def test_buttons_commands_and_forms_reach_the_app(stand_in, client):
    with bolt(client) as (app, heard, url, answers, app_fails):
        stand_in.control("POST", "urls", {"events": url})
        stand_in.inject("message", text="hi", channel=CHANNEL, user="U5")
        heard.get(timeout=60)
        blocks = [SectionBlock(text="sure?"), ActionsBlock(elements=[ButtonElement(text="Yes", action_id="yes", value="1")])]
        sent = client.chat_postMessage(channel=CHANNEL, text="sure?", blocks=blocks)
        stand_in.inject("press", channel=CHANNEL, ts=sent["ts"], action_id="yes", user="U5")
        kind, body = heard.get(timeout=60)
        while kind != "yes":
            kind, body = heard.get(timeout=60)
        assert (body["actions"][0]["value"], body["user"]["id"], body["container"]["message_ts"]) == ("1", "U5", sent["ts"])
        view = {"type": "modal", "callback_id": "form", "title": {"type": "plain_text", "text": "Why?"}, "blocks": []}
        client.views_open(trigger_id=body["trigger_id"], view=view)
        refused("exchanged_trigger_id", client.views_open, trigger_id=body["trigger_id"], view=view)
        hook = WebhookClient(body["response_url"])
        assert hook.send(text="thanks", replace_original=True).status_code == 200
        for _ in range(4):
            assert hook.send(text="more", response_type="in_channel").status_code == 200
        used = hook.send(text="too often")
        assert (used.status_code, json.loads(used.body)["error"]) == (404, "used_url")
        asked = stand_in.inject("command", command="/ask", text="why?", channel=CHANNEL, user="U5")
        kind, body = heard.get(timeout=60)
        assert (kind, body["text"], body["channel_id"]) == ("/ask", "why?", CHANNEL)
        assert stand_in.wait(call="acknowledgement")[0]["text"] == "on it"
        stand_in.control("POST", "clock", {"advance_ms": 1_800_000})
        late = WebhookClient(asked["response_url"]).send(text="late")
        assert (late.status_code, json.loads(late.body)["error"]) == (404, "expired_url")
        stand_in.control("POST", "urls", {})
    assert [row["text"] for row in stand_in.rows(kind="edited")] == ["thanks"]
    assert "xoxb" not in json.dumps(stand_in.rows()) and "response-token" not in json.dumps(stand_in.rows())


def test_socket_mode_delivers_and_repeats_what_was_not_acknowledged(stand_in, client):
    with bolt(client) as (app, heard, url, answers, app_fails):
        handler = SocketModeHandler(app, APP_TOKEN, web_client=client)
        handler.connect()
        try:
            stand_in.wait(kind="connected")
            stand_in.inject("message", text="by socket", channel=CHANNEL, user="U5")
            assert heard.get(timeout=60)[1]["event"]["text"] == "by socket"
            stand_in.wait(kind="acknowledged")
            assert stand_in.control("POST", "sockets", {"do": "disconnect", "reason": "refresh_requested"})["sockets"] == 1
            stand_in.wait(kind="connected", count=2)
            stand_in.inject("command", command="/ask", text="why?", channel=CHANNEL, user="U5")
            kind, body = heard.get(timeout=60)
            assert (kind, body["command"]) == ("/ask", "/ask")
            assert stand_in.wait(call="acknowledgement")[0]["text"] == "on it"
        finally:
            handler.close()
    assert "ticket-" not in json.dumps(stand_in.rows())

"""The Feishu stand-in, judged by lark-oapi, the platform's own client library."""

import contextlib
import http.server
import io
import json
import queue
import threading

import lark_oapi as lark
import pytest
from lark_oapi.api.cardkit.v1 import (
    Card,
    ContentCardElementRequest,
    ContentCardElementRequestBody,
    CreateCardRequest,
    CreateCardRequestBody,
    IdConvertCardRequest,
    IdConvertCardRequestBody,
    SettingsCardRequest,
    SettingsCardRequestBody,
    UpdateCardRequest,
    UpdateCardRequestBody,
)
from lark_oapi.api.im.v1 import (
    CreateFileRequest,
    CreateFileRequestBody,
    CreateMessageReactionRequest,
    CreateMessageReactionRequestBody,
    CreateMessageRequest,
    CreateMessageRequestBody,
    DeleteMessageReactionRequest,
    DeleteMessageRequest,
    Emoji,
    GetChatRequest,
    GetMessageRequest,
    GetMessageResourceRequest,
    ListMessageReactionRequest,
    ReplyMessageRequest,
    ReplyMessageRequestBody,
    UpdateMessageRequest,
    UpdateMessageRequestBody,
)
from lark_oapi.core.exception import ObtainAccessTokenException
from lark_oapi.core.model import RawRequest
from lark_oapi.event.callback.model.p2_card_action_trigger import P2CardActionTriggerResponse

from stand_in import StandIn, running

APP, SECRET, ENCRYPT_KEY, TOKEN = "cli_a1", "stand-in-secret", "stand-in-key", "stand-in-token"
CARD = {"schema": "2.0", "config": {"streaming_mode": True},
        "body": {"elements": [{"tag": "markdown", "element_id": "text", "content": "a"}]}}


@pytest.fixture(scope="session")
def feishu_url():
    with running("feishu", "--app", f"{APP}:{SECRET}:{ENCRYPT_KEY}:{TOKEN}@posty") as url:
        yield url


@pytest.fixture
def stand_in(feishu_url):
    stand_in = StandIn(feishu_url)
    stand_in.control("POST", "reset", {})
    stand_in.control("POST", "url", {})
    return stand_in


@pytest.fixture
def client(stand_in):
    return lark.Client.builder().app_id(APP).app_secret(SECRET).domain(stand_in.url).build()


@pytest.fixture
def chat(stand_in):
    return stand_in.inject("message", text="hello")["chat"]


def done(answer):
    assert answer.success(), (answer.code, answer.msg)
    return getattr(answer, "data", None)


def send(client, chat, text, uuid=None, kind="text"):
    content = text if kind != "text" else json.dumps({"text": text})
    body = CreateMessageRequestBody.builder().receive_id(chat).msg_type(kind).content(content)
    body = body.uuid(uuid).build() if uuid else body.build()
    request = CreateMessageRequest.builder().receive_id_type("chat_id").request_body(body).build()
    return client.im.v1.message.create(request)


def edit(client, message, text):
    body = UpdateMessageRequestBody.builder().msg_type("text").content(json.dumps({"text": text})).build()
    request = UpdateMessageRequest.builder().message_id(message).request_body(body).build()
    return client.im.v1.message.update(request)


def handler(heard):
    def on_message(event):
        heard.put(("message", event))

    def on_press(event):
        heard.put(("press", event))
        return P2CardActionTriggerResponse({"toast": {"type": "info", "content": "on it"}})

    builder = lark.EventDispatcherHandler.builder(ENCRYPT_KEY, TOKEN)
    builder = builder.register_p2_im_message_receive_v1(on_message)
    return builder.register_p2_card_action_trigger(on_press).build()


@contextlib.contextmanager
def door(heard):
    """An app behind HTTP. The library decrypts, and checks signature and token by itself."""
    events = handler(heard)

    class Door(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            request = RawRequest()
            request.uri = self.path
            request.body = self.rfile.read(int(self.headers["content-length"]))
            # The library looks for the names with these capitals.
            request.headers = {name.title(): value for name, value in self.headers.items()}
            answer = events.do(request)
            self.send_response(answer.status_code)
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/feishu"
    finally:
        server.shutdown()


def test_a_message_is_sent_once_answered_edited_twenty_times_and_recalled(stand_in, client, chat):
    sent = done(send(client, chat, "one", uuid="u-1"))
    assert done(send(client, chat, "one", uuid="u-1")).message_id == sent.message_id
    body = ReplyMessageRequestBody.builder().msg_type("text").content('{"text":"two"}').reply_in_thread(True)
    reply = ReplyMessageRequest.builder().message_id(sent.message_id).request_body(body.build()).build()
    replied = done(client.im.v1.message.reply(reply))
    assert replied.thread_id and replied.parent_id == sent.message_id
    for number in range(20):
        done(edit(client, sent.message_id, f"edit {number}"))
    assert edit(client, sent.message_id, "late").code == 230072
    get = GetMessageRequest.builder().message_id(sent.message_id).build()
    assert done(client.im.v1.message.get(get)).items[0].chat_id == chat
    done(client.im.v1.message.delete(DeleteMessageRequest.builder().message_id(sent.message_id).build()))
    assert client.im.v1.message.get(get).code == 230011
    assert [row["text"] for row in stand_in.rows(kind="sent")] == ["one", "two"]


def test_what_feishu_refuses_is_refused(stand_in, client, chat):
    assert send(client, "oc_404", "psst").code == 230002
    assert send(client, chat, '{"zh_cn":{"content":[[{"tag":"blink"}]]}}', kind="post").code == 230001
    done(send(client, chat, '{"zh_cn":{"content":[[{"tag":"md","text":"**a**"}]]}}', kind="post"))
    # The library keeps the token of an app, so that a wrong secret of a known app would not be noticed.
    wrong = lark.Client.builder().app_id("cli_404").app_secret("wrong").domain(stand_in.url).build()
    with pytest.raises(ObtainAccessTokenException, match="10003"):
        send(wrong, chat, "psst")
    stand_in.fails("too_many_requests", retry_after=1)
    assert send(client, chat, "too fast").code == 99991400


def test_reactions_and_files_and_chats(stand_in, client, chat):
    message = done(send(client, chat, "one")).message_id
    body = CreateMessageReactionRequestBody.builder()
    body = body.reaction_type(Emoji.builder().emoji_type("THUMBSUP").build()).build()
    react = CreateMessageReactionRequest.builder().message_id(message).request_body(body).build()
    added = done(client.im.v1.message_reaction.create(react)).reaction_id
    listing = ListMessageReactionRequest.builder().message_id(message).reaction_type("THUMBSUP").build()
    assert [item.reaction_id for item in done(client.im.v1.message_reaction.list(listing)).items] == [added]
    remove = DeleteMessageReactionRequest.builder().message_id(message).reaction_id(added).build()
    done(client.im.v1.message_reaction.delete(remove))
    assert not done(client.im.v1.message_reaction.list(listing)).items

    content = io.BytesIO(b"some words")
    body = CreateFileRequestBody.builder().file_type("stream").file_name("a.txt").file(content).build()
    key = done(client.im.v1.file.create(CreateFileRequest.builder().request_body(body).build())).file_key
    sent = done(send(client, chat, json.dumps({"file_key": key}), kind="file")).message_id
    fetch = GetMessageResourceRequest.builder().message_id(sent).file_key(key).type("file").build()
    assert client.im.v1.message_resource.get(fetch).file.read() == b"some words"
    assert done(client.im.v1.chat.get(GetChatRequest.builder().chat_id(chat).build())).chat_mode == "p2p"


def test_the_text_of_a_card_grows_until_it_ends(stand_in, client, chat):
    cards = client.cardkit.v1.card
    body = CreateCardRequestBody.builder().type("card_json").data(json.dumps(CARD)).build()
    card = done(cards.create(CreateCardRequest.builder().request_body(body).build())).card_id
    content = json.dumps({"type": "card", "data": {"card_id": card}})
    message = done(send(client, chat, content, kind="interactive")).message_id

    def grow(text, sequence):
        body = ContentCardElementRequestBody.builder().content(text).sequence(sequence).uuid(f"g-{sequence}").build()
        request = ContentCardElementRequest.builder().card_id(card).element_id("text").request_body(body).build()
        return client.cardkit.v1.card_element.content(request)

    done(grow("ab", 1))
    assert grow("abc", 1).code == 300317
    done(grow("abc", 2))
    body = SettingsCardRequestBody.builder().settings('{"config":{"streaming_mode":false}}').sequence(3).build()
    done(cards.settings(SettingsCardRequest.builder().card_id(card).request_body(body).build()))
    assert grow("abcd", 4).code == 300309
    whole = Card.builder().type("card_json").data(json.dumps({**CARD, "config": {}})).build()
    body = UpdateCardRequestBody.builder().card(whole).sequence(5).build()
    done(cards.update(UpdateCardRequest.builder().card_id(card).request_body(body).build()))
    body = IdConvertCardRequestBody.builder().message_id(message).build()
    assert done(cards.id_convert(IdConvertCardRequest.builder().request_body(body).build())).card_id == card
    assert [row["text"] for row in stand_in.rows(kind="edited")] == ["ab", "abc", "a"]


def press_and_replace(stand_in, client, chat, heard):
    button = {"tag": "button", "text": {"tag": "plain_text", "content": "Yes"},
              "behaviors": [{"type": "callback", "value": {"answer": "yes"}}]}
    card = {"schema": "2.0", "body": {"elements": [button]}}
    message = done(send(client, chat, json.dumps(card), kind="interactive")).message_id
    stand_in.inject("press", message=message, value="yes")
    kind, pressed = heard.get(timeout=60)
    assert (kind, pressed.event.action.value) == ("press", {"answer": "yes"})
    assert (pressed.event.context.open_message_id, pressed.event.context.open_chat_id) == (message, chat)
    assert pressed.event.operator.user_id == "u77"
    rows = stand_in.wait("acknowledged", 2)
    assert rows[-1]["raw"] == {"toast": {"type": "info", "content": "on it"}}

    def replace():
        request = lark.BaseRequest.builder().http_method(lark.HttpMethod.POST)
        request = request.uri("/open-apis/interactive/v1/card/update")
        request = request.token_types({lark.AccessTokenType.TENANT})
        body = {"token": pressed.event.token, "card": {**CARD, "config": {}}}
        return client.request(request.body(body).build())

    assert [replace().success() for _ in range(3)] == [True, True, False]


def test_events_are_encrypted_and_signed_as_the_library_wants_them(stand_in, client):
    heard = queue.Queue()
    with door(heard) as url:
        stand_in.control("POST", "url", {"url": url})
        stand_in.wait("url_verified")
        chat = stand_in.inject("message", text="good morning", chat="oc_1", mention=True)["chat"]
        kind, message = heard.get(timeout=60)
        assert (kind, json.loads(message.event.message.content)) == ("message", {"text": "@_user_1 good morning"})
        assert message.event.message.mentions[0].id.open_id == "ou_bot_a1"
        assert message.event.sender.sender_id.union_id == "on_u77"
        press_and_replace(stand_in, client, chat, heard)


def test_an_address_that_does_not_know_the_token_is_refused(stand_in):
    class Door(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    stand_in.control("POST", "url", {"url": f"http://127.0.0.1:{server.server_port}/"})
    stand_in.wait("url_refused")
    server.shutdown()


def test_the_long_connection_carries_events_in_one_frame_and_in_parts(stand_in, client):
    heard = queue.Queue()
    socket = lark.ws.Client(APP, SECRET, event_handler=handler(heard), domain=stand_in.url)
    # It runs until the end of the process; the library has no call that stops it.
    threading.Thread(target=socket.start, daemon=True).start()
    stand_in.wait("connected")
    chat = stand_in.inject("message", text="over the connection")["chat"]
    kind, message = heard.get(timeout=60)
    assert (kind, json.loads(message.event.message.content)) == ("message", {"text": "over the connection"})
    press_and_replace(stand_in, client, chat, heard)
    stand_in.control("POST", "sockets", {"do": "split", "parts": 3})
    stand_in.inject("message", text="in parts")
    assert json.loads(heard.get(timeout=60)[1].event.message.content) == {"text": "in parts"}
    assert not stand_in.rows(kind="unreadable")

"""The WeCom stand-in, judged by wechatpy and by the SDK for AI bots, which know the real platform."""

import asyncio
import http.server
import json
import queue
import threading
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager

import pytest
import requests
from wechatpy.enterprise import WeChatClient, parse_message
from wechatpy.enterprise.crypto import WeChatCrypto
from wechatpy.enterprise.exceptions import InvalidCorpIdException
from wechatpy.exceptions import InvalidSignatureException, WeChatClientException
from wecom_aibot_sdk import WSClient, decrypt_file

from stand_in import StandIn, running

CORP, AGENT, SECRET, TOKEN = "wwcorp", 1000002, "stand-in-secret", "stand-in-token"
KEY = "0123456789012345678901234567890123456789abc"
APP, BOT = f"{CORP}-{AGENT}", "AIB"
PATIENCE = 60


@pytest.fixture(scope="session")
def wecom_url():
    app = f"{CORP}:{AGENT}:{SECRET}:{TOKEN}:{KEY}"
    with running("wecom", "--app", app, "--ai-bot", f"{BOT}:{SECRET}:{TOKEN}:{KEY}") as url:
        yield url


@pytest.fixture
def stand_in(wecom_url):
    stand_in = StandIn(wecom_url)
    stand_in.control("POST", "reset", {})
    return stand_in


@pytest.fixture
def client(stand_in):
    query = urllib.parse.urlencode({"corpid": CORP, "corpsecret": SECRET})
    with urllib.request.urlopen(f"{stand_in.url}/cgi-bin/gettoken?{query}", timeout=PATIENCE) as answer:
        granted = json.load(answer)
    assert (granted["errcode"], granted["expires_in"]) == (0, 7200)

    class Client(WeChatClient):
        API_BASE_URL = f"{stand_in.url}/cgi-bin/"

    client = Client(CORP, SECRET, access_token=granted["access_token"], auto_retry=False)
    # Without this the library asks the real platform for a token of its own.
    client.session.set(client.access_token_key, granted["access_token"], 7000)
    client.expires_at = int(time.time()) + 7000
    return client


@contextmanager
def callbacks(receive_id, answer):
    """The library behind HTTP: it checks signatures, decrypts, and seals what `answer` returns for a body."""
    crypto = WeChatCrypto(TOKEN, KEY, receive_id)

    class Door(http.server.BaseHTTPRequestHandler):
        def query(self):
            names = ("msg_signature", "timestamp", "nonce", "echostr")
            query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
            return [query.get(name) for name in names]

        def do_GET(self):
            self.reply(crypto.check_signature(*self.query()))

        def do_POST(self):
            signature, timestamp, nonce, _ = self.query()
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            if not receive_id:
                # The library reads XML only.
                body = f"<xml><Encrypt>{json.loads(body)['encrypt']}</Encrypt></xml>"
            text = crypto.decrypt_message(body, signature, timestamp, nonce)
            reply = answer(text)
            self.reply(crypto.encrypt_message(reply, "nonce", timestamp) if reply else "success")

        def reply(self, text):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text if isinstance(text, bytes) else text.encode())

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/callback"
    finally:
        server.shutdown()


def test_callbacks_of_an_application_can_be_verified_decrypted_and_answered(stand_in):
    heard = queue.Queue()

    def answer(text):
        message = parse_message(text)
        heard.put(message)
        return (
            f"<xml><ToUserName><![CDATA[{message.source}]]></ToUserName><FromUserName><![CDATA[{CORP}]]></FromUserName>"
            "<CreateTime>1</CreateTime><MsgType>text</MsgType><Content><![CDATA[你好]]></Content></xml>"
        )

    with callbacks(CORP, answer) as url:
        stand_in.control("POST", "callback", {"url": url, "account": APP})
        assert stand_in.wait(kind="callback_verified,callback_refused")[0]["kind"] == "callback_verified"
        sent = stand_in.inject("message", text="olá ]]> 🦉", account=APP)
        message = heard.get(timeout=PATIENCE)
        assert (message.type, message.content, message.source) == ("text", "olá ]]> 🦉", "ana")
        assert (str(message.id), message.target, str(message.agent)) == (sent["message_id"], CORP, str(AGENT))
        reply = stand_in.wait(kind="passive_reply,passive_reply_refused")[0]
        assert (reply["kind"], reply["text"], reply["chat"]) == ("passive_reply", "你好", f"{CORP}:ana")
        stand_in.inject("press", key="menu_1", menu=True, account=APP)
        click = heard.get(timeout=PATIENCE)
        assert (click.event, click.key) == ("click", "menu_1")


def test_envelopes_of_another_company_or_token_are_told_apart(stand_in):
    crypto = WeChatCrypto(TOKEN, KEY, CORP)
    sealed = crypto.encrypt_message("<xml></xml>", "n", "1")
    parts = [sealed.split(f"<{name}><![CDATA[")[1].split("]]>")[0] for name in ("Encrypt", "MsgSignature")]
    body = f"<xml><Encrypt>{parts[0]}</Encrypt></xml>"
    assert "<xml>" in crypto.decrypt_message(body, parts[1], "1", "n")
    with pytest.raises(InvalidCorpIdException):
        WeChatCrypto(TOKEN, KEY, "other").decrypt_message(body, parts[1], "1", "n")
    with pytest.raises(InvalidSignatureException):
        WeChatCrypto("other", KEY, CORP).decrypt_message(body, parts[1], "1", "n")


def test_an_application_sends_messages_and_files_with_its_access_token(stand_in, client):
    sent = client.message.send_text(AGENT, "ana", "hello")
    assert sent["msgid"]
    row = stand_in.wait(chat=f"{CORP}:ana")[0]
    assert (row["text"], row["message_id"]) == ("hello", sent["msgid"])
    assert client.agent.get(AGENT)["name"] == "Stand-in"
    uploaded = client.media.upload("file", ("notes.txt", b"content", "text/plain"))
    assert client.message.send_file(AGENT, "ana", uploaded["media_id"])["errcode"] == 0
    # The library writes this one address with the host of WeCom, whatever its base URL is.
    address = client.media.get_url(uploaded["media_id"]).replace("https://qyapi.weixin.qq.com", stand_in.url)
    assert requests.get(address, timeout=PATIENCE).content == b"content"
    for code, call in [
        (81013, lambda: client.message.send_text(AGENT, "nobody", "x")),
        (40056, lambda: client.message.send_text(AGENT + 1, "ana", "x")),
        (40007, lambda: client.message.send_file(AGENT, "ana", "unknown")),
    ]:
        with pytest.raises(WeChatClientException) as refusal:
            call()
        assert refusal.value.errcode == code
    stand_in.control("POST", "clock", {"advance_ms": 7_200_000})
    with pytest.raises(WeChatClientException) as refusal:
        client.message.send_text(AGENT, "ana", "too late")
    assert refusal.value.errcode == 42001


def bot_client(stand_in, secret=SECRET):
    url = stand_in.url.replace("http://", "ws://") + "/ws"
    return WSClient(bot_id=BOT, secret=secret, ws_url=url, max_reconnect_attempts=0)


async def authenticated(client):
    ready = asyncio.Event()
    client.on("authenticated", lambda *_: ready.set())
    await client.connect()
    await asyncio.wait_for(ready.wait(), PATIENCE)


def test_the_sdk_of_ai_bots_talks_over_the_long_connection(stand_in):
    async def conversation():
        client, heard = bot_client(stand_in), asyncio.Queue()
        client.on("message", heard.put_nowait)
        await authenticated(client)
        await asyncio.to_thread(stand_in.inject, "message", text="status?", chat="wrG1", account=BOT)
        frame = await asyncio.wait_for(heard.get(), PATIENCE)
        body = frame["body"]
        assert (body["text"]["content"], body["chatid"], body["chattype"]) == ("@Posty status?", "wrG1", "group")
        assert body["from"]["userid"] == "ana"
        await client.reply_stream(frame, "s1", "fine", finish=True)
        await client.send_message("wrG1", {"msgtype": "markdown", "markdown": {"content": "**later**"}})
        await asyncio.to_thread(stand_in.inject, "image", base64="aGk=", account=BOT)
        image = (await asyncio.wait_for(heard.get(), PATIENCE))["body"]["image"]
        hidden = await asyncio.to_thread(lambda: urllib.request.urlopen(image["url"], timeout=PATIENCE).read())
        assert decrypt_file(hidden, image["aeskey"]) == b"hi"
        await client.disconnect()

    asyncio.run(conversation())
    rows = stand_in.wait(count=2)
    assert [(row["call"], row["text"]) for row in rows] == [
        ("aibot_respond_msg", "fine"),
        ("aibot_send_msg", "**later**"),
    ]


def test_a_newer_connection_displaces_the_older_which_does_not_fight_back(stand_in):
    async def displaced():
        older, newer, ended = bot_client(stand_in), bot_client(stand_in), asyncio.Event()
        older.on("disconnected", lambda *_: ended.set())
        await authenticated(older)
        await authenticated(newer)
        await asyncio.wait_for(ended.wait(), PATIENCE)
        await newer.send_message("ana", {"msgtype": "markdown", "markdown": {"content": "marker"}})
        await newer.disconnect()

    asyncio.run(displaced())
    stand_in.wait(text="marker")
    assert len(stand_in.rows(kind="connected")) == 2


def test_a_wrong_secret_is_refused(stand_in):
    async def refused():
        client, failed = bot_client(stand_in, "wrong"), asyncio.Event()
        client.on("error", lambda *_: failed.set())
        await client.connect()
        await asyncio.wait_for(failed.wait(), PATIENCE)
        await client.disconnect()

    asyncio.run(refused())
    assert stand_in.rows(kind="connected") == []

"""The Telegram stand-in, judged by a client library that knows the real platform.

Needs `python-telegram-bot` and `pytest`, and one of:
  POSTHOUSE_BIN            the `posthouse` binary, which is started as `posthouse stand-in telegram`
  POSTHOUSE_STAND_IN_URL   the base URL of a stand-in already running with the bot below
"""

import asyncio
import http.server
import json
import os
import subprocess
import threading
import urllib.request
from datetime import timedelta

import pytest
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, ReactionTypeEmoji, ReplyParameters
from telegram.error import BadRequest, Conflict, Forbidden, InvalidToken, NetworkError, RetryAfter
from telegram.ext import Application, MessageHandler, filters
from telegram.request import HTTPXRequest

TOKEN = "42:stand-in-secret"
CHAT = 5


class StandIn:
    def __init__(self, url):
        self.url = url

    def bot(self, token=TOKEN, **timeouts):
        return Bot(
            token,
            base_url=f"{self.url}/bot",
            base_file_url=f"{self.url}/file/bot",
            request=HTTPXRequest(**timeouts),
        )

    def control(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/_stand-in/{path}", data=data, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def says(self, text, **fields):
        return self.control("POST", "inject", {"bot": "posty_bot", "chat_id": CHAT, "text": text, **fields})

    def fails(self, **fault):
        return self.control("POST", "faults", fault)

    def sent(self, chat=CHAT):
        return [row["text"] for row in self.control("GET", f"transcript?chat={chat}&kind=sent")["rows"]]


@pytest.fixture(scope="session")
def running():
    url = os.environ.get("POSTHOUSE_STAND_IN_URL")
    if url:
        yield url.rstrip("/")
        return
    binary = os.environ.get("POSTHOUSE_BIN")
    assert binary, "set POSTHOUSE_BIN to the posthouse binary, or POSTHOUSE_STAND_IN_URL to a running stand-in"
    command = [binary, "stand-in", "telegram", "--listen", "127.0.0.1:0", "--bot", f"{TOKEN}@posty_bot"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:"), f"the first line should be the base URL, got {url!r}"
        yield url
    finally:
        process.terminate()
        assert process.wait(timeout=60) is not None


@pytest.fixture
def stand_in(running):
    stand_in = StandIn(running)
    stand_in.control("POST", "reset", {})
    return stand_in


def with_bot(stand_in, talk, **timeouts):
    """Runs one conversation with a bot that is properly opened and closed."""

    async def conversation():
        async with stand_in.bot(**timeouts) as bot:
            return await talk(bot)

    return asyncio.run(conversation())


def test_a_bot_learns_who_it_is(stand_in):
    me = with_bot(stand_in, lambda bot: bot.get_me())
    assert (me.id, me.username, me.is_bot) == (42, "posty_bot", True)


def test_a_wrong_token_is_refused(stand_in):
    async def enter():
        async with stand_in.bot("42:wrong"):
            pass

    with pytest.raises(InvalidToken):
        asyncio.run(enter())


def test_polling_brings_updates_once_and_in_order(stand_in):
    async def talk():
        application = (
            Application.builder().token(TOKEN).base_url(f"{stand_in.url}/bot").build()
        )
        heard, done = [], asyncio.Event()

        async def hear(update, context):
            heard.append(update.message.text)
            await update.message.reply_text(f"heard {update.message.text}")
            if len(heard) == 3:
                done.set()

        application.add_handler(MessageHandler(filters.TEXT, hear))
        async with application:
            await application.updater.start_polling(timeout=5)
            await application.start()
            for text in ["one", "two", "three"]:
                await asyncio.to_thread(stand_in.says, text)
            await asyncio.wait_for(done.wait(), 60)
            await application.updater.stop()
            await application.stop()
        return heard

    assert asyncio.run(talk()) == ["one", "two", "three"]
    assert stand_in.sent() == ["heard one", "heard two", "heard three"]
    assert [one["by"] for one in stand_in.control("GET", "deliveries")["confirmed"]] == ["offset"] * 3


def test_a_command_and_a_mention_are_marked(stand_in):
    stand_in.says("/ask@posty_bot 🦉 for @posty_bot", chat_id=-100, title="Team", **{"from": {"id": 7}})

    async def talk(bot):
        (update,) = await bot.get_updates()
        return update.message

    message = with_bot(stand_in, talk)
    assert message.chat.title == "Team"
    assert {e.type: message.parse_entity(e) for e in message.entities} == {
        "bot_command": "/ask@posty_bot",
        "mention": "@posty_bot",
    }


def test_send_reply_edit_and_delete(stand_in):
    hello = stand_in.says("hello")["message_id"]

    async def talk(bot):
        sent = await bot.send_message(CHAT, "good morning", reply_parameters=ReplyParameters(hello))
        assert (sent.text, sent.chat.id, sent.from_user.id) == ("good morning", CHAT, 42)
        assert sent.reply_to_message.text == "hello"
        edited = await bot.edit_message_text("good evening", CHAT, sent.message_id)
        assert edited.text == "good evening" and edited.edit_date is not None
        with pytest.raises(BadRequest, match="(?i)message is not modified"):
            await bot.edit_message_text("good evening", CHAT, sent.message_id)
        with pytest.raises(BadRequest, match="(?i)message to edit not found"):
            await bot.edit_message_text("x", CHAT, 999)
        with pytest.raises(BadRequest, match="(?i)message to be replied not found"):
            await bot.send_message(CHAT, "x", reply_parameters=ReplyParameters(999))
        alone = await bot.send_message(
            CHAT, "alone", reply_parameters=ReplyParameters(999, allow_sending_without_reply=True)
        )
        assert alone.reply_to_message is None
        assert await bot.delete_message(CHAT, sent.message_id)

    with_bot(stand_in, talk)
    assert stand_in.sent() == ["good morning", "alone"]


def test_markdown_is_strict_and_plain_text_is_the_way_out(stand_in):
    stand_in.says("hello")

    async def talk(bot):
        with pytest.raises(BadRequest, match="(?i)can't parse entities: Character '.' is reserved"):
            await bot.send_message(CHAT, "v1.0", parse_mode="MarkdownV2")
        with pytest.raises(BadRequest, match="(?i)can't find end of bold entity at byte offset 0"):
            await bot.send_message(CHAT, "*v1", parse_mode="MarkdownV2")
        await bot.send_message(CHAT, "v1.0")
        message = await bot.send_message(
            CHAT, "🦉 *bold _both_* `a.b` [here](https://e.example/x)\\.", parse_mode="MarkdownV2"
        )
        assert message.text == "🦉 bold both a.b here."
        spans = {message.parse_entity(entity): entity for entity in message.entities}
        assert {text: entity.type for text, entity in spans.items()} == {
            "bold both": "bold",
            "both": "italic",
            "a.b": "code",
            "here": "text_link",
        }
        assert spans["here"].url == "https://e.example/x"
        # The library's own output for these entities is parsed to the same result.
        again = await bot.send_message(CHAT, message.text_markdown_v2, parse_mode="MarkdownV2")
        assert (again.text, again.entities) == (message.text, message.entities)

    with_bot(stand_in, talk)


def test_length_is_counted_in_utf16_units(stand_in):
    stand_in.says("hello")

    async def talk(bot):
        await bot.send_message(CHAT, "🦉" * 2048)
        with pytest.raises(BadRequest, match="(?i)message is too long"):
            await bot.send_message(CHAT, "🦉" * 2048 + "x")
        with pytest.raises(BadRequest, match="(?i)message text is empty"):
            await bot.send_message(CHAT, "  ")

    with_bot(stand_in, talk)


def test_signs_of_life(stand_in):
    hello = stand_in.says("hello")["message_id"]

    async def talk(bot):
        assert await bot.send_chat_action(CHAT, "typing")
        assert await bot.set_message_reaction(CHAT, hello, ReactionTypeEmoji("👍"))
        chat = await bot.get_chat(CHAT)
        assert (chat.id, chat.type, chat.first_name) == (CHAT, "private", "Ana")
        with pytest.raises(BadRequest, match="(?i)chat not found"):
            await bot.get_chat(77)
        with pytest.raises(BadRequest, match="(?i)chat not found"):
            await bot.send_message(77, "hello?")

    with_bot(stand_in, talk)
    kinds = [row["kind"] for row in stand_in.control("GET", f"transcript?chat={CHAT}")["rows"]]
    assert kinds == ["received", "action", "reaction"]


def test_a_pressed_button_is_answered_once(stand_in):
    stand_in.says("hello")
    buttons = InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="yes")]])

    async def talk(bot):
        (update,) = await bot.get_updates()
        sent = await bot.send_message(CHAT, "sure?", reply_markup=buttons)
        assert sent.reply_markup.inline_keyboard[0][0].callback_data == "yes"
        press = {"bot": 42, "chat_id": CHAT, "callback_data": "yes", "message_id": sent.message_id}
        await asyncio.to_thread(stand_in.control, "POST", "inject", press)
        (update,) = await bot.get_updates(offset=update.update_id + 1)
        query = update.callback_query
        assert (query.data, query.message.message_id, query.from_user.id) == ("yes", sent.message_id, CHAT)
        assert await query.answer("thanks")
        with pytest.raises(BadRequest, match="(?i)query is too old"):
            await query.answer("again")

    with_bot(stand_in, talk)


def test_topics(stand_in):
    stand_in.says("in a topic", chat_id=-200, thread_id=77)

    async def talk(bot):
        message = await bot.send_message(-200, "x", message_thread_id=77)
        assert message.message_thread_id == 77 and message.is_topic_message
        topic = await bot.create_forum_topic(-200, "news")
        await bot.send_message(-200, "y", message_thread_id=topic.message_thread_id)
        with pytest.raises(BadRequest, match="(?i)message thread not found"):
            await bot.send_message(-200, "z", message_thread_id=5000)

    with_bot(stand_in, talk)


def test_a_file_is_downloaded(stand_in):
    request = urllib.request.Request(f"{stand_in.url}/_stand-in/files?name=notes.txt", data=b"words", method="POST")
    with urllib.request.urlopen(request, timeout=30) as answer:
        file_id = json.load(answer)["file_id"]

    async def talk(bot):
        file = await bot.get_file(file_id)
        return bytes(await file.download_as_bytearray())

    assert with_bot(stand_in, talk) == b"words"


def test_faults_reach_the_client_as_the_platforms_own(stand_in):
    stand_in.says("hello")

    async def talk(bot):
        stand_in.fails(fault="too_many_requests", retry_after=7, method="sendMessage")
        with pytest.raises(RetryAfter) as limited:
            await bot.send_message(CHAT, "x")
        wait = limited.value.retry_after
        assert (wait.total_seconds() if isinstance(wait, timedelta) else wait) == 7
        stand_in.fails(fault="blocked", chat_id=CHAT)
        with pytest.raises(Forbidden, match="blocked"):
            await bot.send_message(CHAT, "x")
        stand_in.fails(fault="server_error", status=502)
        with pytest.raises(NetworkError):
            await bot.send_message(CHAT, "x")
        stand_in.fails(fault="refuse", method="sendMessage")
        with pytest.raises(NetworkError):
            await bot.send_message(CHAT, "never there")
        stand_in.fails(fault="drop_after_write", method="sendMessage")
        with pytest.raises(NetworkError):
            await bot.send_message(CHAT, "there, unanswered")
        await bot.send_message(CHAT, "all well")

    with_bot(stand_in, talk)
    assert stand_in.sent() == ["there, unanswered", "all well"]


def test_a_webhook_is_called_with_its_secret_and_excludes_polling(stand_in):
    heard, enough = [], threading.Event()

    class Door(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            update = json.loads(self.rfile.read(int(self.headers["content-length"])))
            heard.append((self.headers["X-Telegram-Bot-Api-Secret-Token"], update["message"]["text"]))
            # The first answer is a failure, so the update is delivered again.
            self.send_response(500 if len(heard) == 1 else 200)
            self.end_headers()
            if len(heard) == 3:
                enough.set()

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/door"

    async def talk(bot):
        with pytest.raises(BadRequest, match="(?i)https"):
            await bot.set_webhook("http://server.example/door")
        with pytest.raises(BadRequest, match="(?i)secret token contains unallowed characters"):
            await bot.set_webhook(url, secret_token="not allowed!")
        assert await bot.set_webhook(url, secret_token="s3cret", max_connections=1, allowed_updates=["message"])
        info = await bot.get_webhook_info()
        assert (info.url, info.max_connections, info.allowed_updates) == (url, 1, ("message",))
        with pytest.raises(Conflict):
            await bot.get_updates()
        stand_in.says("one")
        stand_in.says("two")
        assert await asyncio.to_thread(enough.wait, 60)
        assert (await asyncio.to_thread(stand_in.control, "GET", "wait?confirmed=2"))["ok"]
        assert (await bot.get_webhook_info()).pending_update_count == 0
        assert await bot.delete_webhook()
        assert await bot.get_updates(allowed_updates=[]) == ()

    try:
        with_bot(stand_in, talk)
    finally:
        server.shutdown()
    assert heard == [("s3cret", "one"), ("s3cret", "one"), ("s3cret", "two")]

"""The Discord stand-in, judged by discord.py, a client library that knows the real platform."""

import asyncio
import contextlib
import http.server
import io
import json
import threading

import discord
import pytest
import yarl
from discord import app_commands
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from stand_in import StandIn, running

BOT = 4200
TOKEN = "stand-in-token"
GUILD, CHANNEL, HIDDEN, FORUM = 900 << 22, 901, 902, 903
PERSON = {"id": "77", "username": "ana", "global_name": "Ana"}
HERE = {"guild_id": str(GUILD), "channel_id": str(CHANNEL)}


@pytest.fixture(scope="session")
def discord_url():
    with running("discord", "--bot", f"{BOT}:{TOKEN}@posty") as url:
        yield url


def point_library_at(url):
    discord.http.Route.BASE = f"{url}/api/v10"
    discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(url.replace("http://", "ws://"))


@pytest.fixture
def stand_in(discord_url):
    point_library_at(discord_url)
    stand_in = StandIn(discord_url)
    stand_in.control("POST", "reset", {})
    view = str(1 << 10)
    stand_in.control(
        "POST",
        "guilds",
        {
            "id": str(GUILD),
            "name": "Acme",
            "owner_id": "5",
            "members": [{"user": PERSON, "nick": "Boss"}, {"user": {"id": "5", "username": "owner"}}],
            "channels": [
                {"id": str(CHANNEL), "name": "general", "topic": "Daily talk"},
                {
                    "id": str(HIDDEN),
                    "name": "hidden",
                    "permission_overwrites": [{"id": str(GUILD), "type": 0, "allow": "0", "deny": view}],
                },
                {"id": str(FORUM), "type": 15, "name": "help"},
            ],
        },
    )
    return stand_in


class Bot(discord.Client):
    """Puts what happens into a queue."""

    def __init__(self, **options):
        super().__init__(intents=discord.Intents.all(), **options)
        self.heard = asyncio.Queue()
        self.tree = app_commands.CommandTree(self)
        self.resumes = 0

    async def on_message(self, message):
        if message.author != self.user:
            await self.heard.put(message)

    async def on_interaction(self, interaction):
        await self.heard.put(interaction)

    async def on_raw_reaction_add(self, event):
        if event.user_id != self.user.id:
            await self.heard.put(event)

    async def on_raw_message_edit(self, event):
        if event.data["author"]["id"] != str(self.user.id):
            await self.heard.put(event)

    async def on_resumed(self):
        self.resumes += 1
        await self.heard.put("resumed")

    async def next(self):
        return await asyncio.wait_for(self.heard.get(), 60)


@contextlib.asynccontextmanager
async def connected(**options):
    async with Bot(**options) as bot:
        running_bot = asyncio.create_task(bot.start(TOKEN))
        ready = asyncio.create_task(bot.wait_until_ready())
        await asyncio.wait({running_bot, ready}, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        if running_bot.done():
            running_bot.result()
        try:
            yield bot
        finally:
            await bot.close()
            await running_bot


def talk(conversation, **options):
    async def run():
        async with connected(**options) as bot:
            return await asyncio.wait_for(conversation(bot), 120)

    return asyncio.run(run())


def test_a_bot_logs_in_and_knows_its_servers(stand_in):
    async def conversation(bot):
        assert (bot.user.id, bot.user.name, bot.user.bot) == (BOT, "posty", True)
        assert bot.application_id == BOT
        guild = bot.get_guild(GUILD)
        assert (guild.name, guild.owner_id, guild.member_count) == ("Acme", 5, 3)
        assert guild.get_channel(CHANNEL).topic == "Daily talk"
        assert guild.get_member(77).display_name == "Boss"

    talk(conversation)


def test_a_wrong_token_is_refused():
    async def log_in():
        async with Bot() as bot:
            with pytest.raises(discord.LoginFailure):
                await bot.start("wrong")

    asyncio.run(log_in())


def test_messages_come_in_and_answers_go_out(stand_in):
    async def conversation(bot):
        stand_in.inject("message", text=f"<@{BOT}> good morning", **{"from": PERSON, "in": HERE})
        message = await bot.next()
        assert (message.content, message.author.display_name) == (f"<@{BOT}> good morning", "Boss")
        assert (message.guild.id, message.channel.id, message.mentions) == (GUILD, CHANNEL, [bot.user])
        async with message.channel.typing():
            answer = await message.reply("hello **you**", allowed_mentions=discord.AllowedMentions.none())
        assert answer.reference.message_id == message.id
        edited = await answer.edit(content="hello")
        assert (edited.content, edited.edited_at is not None) == ("hello", True)
        await message.add_reaction("👍")
        found = await message.channel.fetch_message(answer.id)
        assert (found.content, found.author.id) == ("hello", BOT)
        assert [one.id async for one in message.channel.history()] == [answer.id, message.id]
        await answer.delete()
        with pytest.raises(discord.NotFound) as gone:
            await message.channel.fetch_message(answer.id)
        assert gone.value.code == 10008

    talk(conversation)
    kinds = [row["kind"] for row in stand_in.rows(chat=CHANNEL)]
    assert kinds == ["received", "typing", "sent", "edited", "reaction", "deleted"]


def test_a_direct_message_has_no_server(stand_in):
    async def conversation(bot):
        stand_in.inject("message", text="psst", **{"from": PERSON})
        message = await bot.next()
        assert (message.guild, message.content, message.author.name) == (None, "psst", "ana")
        await message.channel.send("yes?")
        assert await bot.fetch_user(77) == message.author
        direct = await (await bot.fetch_user(77)).create_dm()
        assert direct.id == message.channel.id

    talk(conversation)
    assert [row["text"] for row in stand_in.wait(kind="sent")] == ["yes?"]


def test_what_people_do_to_messages_is_told(stand_in):
    async def conversation(bot):
        sent = stand_in.inject("message", text="one", **{"from": PERSON, "in": HERE})
        await bot.next()
        stand_in.inject("edit", message_id=sent["message_id"], text="two")
        assert (await bot.next()).data["content"] == "two"
        stand_in.inject("react", message_id=sent["message_id"], emoji="🦉", **{"from": PERSON})
        reaction = await bot.next()
        assert (str(reaction.emoji), reaction.user_id, reaction.guild_id) == ("🦉", 77, GUILD)

    talk(conversation)


def test_threads_and_posts_of_a_forum(stand_in):
    async def conversation(bot):
        stand_in.inject("message", text="long story", **{"from": PERSON, "in": HERE})
        message = await bot.next()
        thread = await message.create_thread(name="story")
        assert (thread.id, thread.parent_id, thread.type) == (message.id, CHANNEL, discord.ChannelType.public_thread)
        await thread.send("in here")
        with pytest.raises(discord.HTTPException) as again:
            await message.create_thread(name="story")
        assert again.value.code == 160004
        alone = await message.channel.create_thread(name="alone", type=discord.ChannelType.public_thread)
        assert alone.parent_id == CHANNEL
        post = await bot.get_channel(FORUM).create_thread(name="printer", content="on fire")
        assert (post.thread.parent_id, post.message.content) == (FORUM, "on fire")
        stand_in.inject("message", text="me too", **{"from": PERSON, "in": {**HERE, "channel_id": str(thread.id)}})
        reply = await bot.next()
        assert (reply.channel.id, reply.channel.parent_id) == (thread.id, CHANNEL)

    talk(conversation)
    assert len(stand_in.rows(kind="thread_created")) == 3


def test_files_go_both_ways(stand_in):
    async def conversation(bot):
        file = {"name": "notes.txt", "content_type": "text/plain", "base64": "d29yZHM="}
        stand_in.inject("message", text="", files=[file], **{"from": PERSON, "in": HERE})
        (attachment,) = (await bot.next()).attachments
        assert (attachment.filename, attachment.size, attachment.content_type) == ("notes.txt", 5, "text/plain")
        assert await attachment.read() == b"words"
        content = b"\x89PNG" + bytes(range(256)) * 20
        sent = await bot.get_channel(CHANNEL).send("look", file=discord.File(io.BytesIO(content), "cat.png"))
        assert (sent.content, sent.attachments[0].filename) == ("look", "cat.png")
        assert await sent.attachments[0].read() == content
        with pytest.raises(discord.HTTPException) as too_large:
            await bot.get_channel(CHANNEL).send(file=discord.File(io.BytesIO(bytes(11 << 20)), "big.bin"))
        assert (too_large.value.status, too_large.value.code) == (413, 40005)

    talk(conversation)


def test_a_lost_connection_is_resumed_and_nothing_is_missed(stand_in):
    async def conversation(bot):
        for order in ({"do": "close", "code": 4000}, {"do": "cut"}, {"do": "reconnect"}):
            assert stand_in.control("POST", "sockets", order)["sockets"] == 1
            stand_in.inject("message", text="meanwhile", **{"from": PERSON, "in": HERE})
            heard = [await bot.next(), await bot.next()]
            assert "resumed" in heard and [one.content for one in heard if one != "resumed"] == ["meanwhile"]
        assert stand_in.control("POST", "sockets", {"do": "invalid_session", "resumable": False})["sockets"] == 1
        await asyncio.to_thread(stand_in.wait, kind="identified", count=2)
        assert bot.resumes == 3

    talk(conversation)


def test_an_uncompressed_gateway_works_too(stand_in):
    async def conversation(bot):
        stand_in.inject("message", text="plain", **{"from": PERSON, "in": HERE})
        assert (await bot.next()).content == "plain"

    class Plain(discord.gateway.DiscordWebSocket):
        @classmethod
        async def from_client(cls, *arguments, **options):
            return await super().from_client(*arguments, **{**options, "compress": False})

    stock = discord.client.DiscordWebSocket
    discord.client.DiscordWebSocket = Plain
    try:
        talk(conversation)
    finally:
        discord.client.DiscordWebSocket = stock


def test_a_heartbeat_is_answered_at_once(stand_in):
    async def conversation(bot):
        assert stand_in.control("POST", "sockets", {"do": "request_heartbeat"})["sockets"] == 1
        # The library measures the latency of heartbeats, so it becomes a number after the acknowledgement.
        stand_in.inject("message", text="marker", **{"from": PERSON, "in": HERE})
        assert (await bot.next()).content == "marker"
        assert bot.latency < 60

    talk(conversation)


def test_permissions_are_those_that_the_library_computes(stand_in):
    view, send = 1 << 10, 1 << 11
    everyone, role, other = str(GUILD), "950", "951"
    cases = [
        [],
        [(everyone, 0, 0, view)],
        [(everyone, 0, 0, send)],
        [(everyone, 0, 0, view), (role, 0, view, 0)],
        [(role, 0, 0, view), (other, 0, view, 0)],
        [(role, 0, view, 0), (str(BOT), 1, 0, view)],
        [(everyone, 0, 0, view | send), (str(BOT), 1, view, 0)],
        [(everyone, 0, 0, view), (str(BOT), 1, send, 0)],
        [(everyone, 0, 0, send), (role, 0, send, 0), (other, 0, 0, send)],
    ]
    overwrite = lambda one: {"id": one[0], "type": one[1], "allow": str(one[2]), "deny": str(one[3])}
    stand_in.control(
        "POST",
        "guilds",
        {
            "id": str(GUILD),
            "name": "Acme",
            "roles": [
                {"id": everyone, "name": "@everyone", "permissions": str(view | send | 1 << 16)},
                {"id": role, "name": "a", "permissions": "0"},
                {"id": other, "name": "b", "permissions": "0"},
            ],
            "members": [{"user": {"id": str(BOT), "username": "posty", "bot": True}, "roles": [role, other]}],
            "channels": [
                {"id": str(1000 + number), "name": f"c{number}", "permission_overwrites": [overwrite(one) for one in case]}
                for number, case in enumerate(cases)
            ],
        },
    )

    async def conversation(bot):
        guild = bot.get_guild(GUILD)
        seen = []
        for number in range(len(cases)):
            channel = guild.get_channel(1000 + number)
            expected = channel.permissions_for(guild.me)
            try:
                await channel.send("x")
                code = None
            except discord.Forbidden as refusal:
                code = refusal.code
            wanted = 50001 if not expected.view_channel else 50013 if not expected.send_messages else None
            assert code == wanted, cases[number]
            seen.append(code)
        assert set(seen) == {None, 50001, 50013}

    talk(conversation)


def test_hidden_channels_stay_hidden(stand_in):
    async def conversation(bot):
        stand_in.inject("message", text="secret", **{"from": PERSON, "in": {**HERE, "channel_id": str(HIDDEN)}})
        stand_in.inject("message", text="public", **{"from": PERSON, "in": HERE})
        assert (await bot.next()).content == "public"
        with pytest.raises(discord.Forbidden) as refused:
            await bot.fetch_channel(HIDDEN)
        assert refused.value.code == 50001

    talk(conversation)


def test_errors_have_the_codes_of_the_platform(stand_in):
    async def conversation(bot):
        channel = bot.get_channel(CHANNEL)
        await channel.send("🦉" * 2000)
        for content, code in (("x" * 2001, 50035), ("  ", 50006)):
            with pytest.raises(discord.HTTPException) as refused:
                await channel.send(content)
            assert (refused.value.status, refused.value.code) == (400, code)
        with pytest.raises(discord.NotFound) as unknown:
            await bot.fetch_channel(1)
        assert unknown.value.code == 10003
        stand_in.inject("message", text="mine", **{"from": PERSON, "in": HERE})
        message = await bot.next()
        with pytest.raises(discord.HTTPException) as emoji:
            await message.add_reaction("nonsense")
        assert emoji.value.code == 10014
        stand_in.fails("answer", status=403, body={"message": "Cannot send messages to this user", "code": 50007})
        with pytest.raises(discord.Forbidden) as closed:
            await channel.send("x")
        assert closed.value.code == 50007

    talk(conversation)


def test_a_rate_limited_call_is_repeated_by_the_library(stand_in):
    async def conversation(bot):
        fault = stand_in.fails("too_many_requests", retry_after=0.05, times=2, call="POST /channels/{channel}/messages")
        await bot.get_channel(CHANNEL).send("at last")
        (state,) = [one for one in stand_in.control("GET", "faults")["faults"] if one["id"] == fault]
        assert state["struck"] == 2
        stand_in.fails("too_many_requests", retry_after=0.05, **{"global": True})
        await bot.get_channel(CHANNEL).send("again")

    talk(conversation)
    assert [row["text"] for row in stand_in.rows(kind="sent")] == ["at last", "again"]


def test_the_library_keeps_to_the_buckets_that_the_headers_tell():
    with running("discord", "--bot", f"{BOT}:{TOKEN}@posty", "--limits") as url:
        point_library_at(url)
        stand_in = StandIn(url)

        async def conversation(bot):
            stand_in.inject("message", text="count", **{"from": PERSON, "in": HERE})
            message = await bot.next()
            for number in range(7):
                await message.channel.send(str(number))

        talk(conversation)
        assert [row["text"] for row in stand_in.rows(kind="sent")] == [str(number) for number in range(7)]
        assert stand_in.refusals() == []


def test_commands_are_registered_and_called_over_the_gateway(stand_in):
    async def conversation(bot):
        @bot.tree.command(name="ask", description="Asks the agent")
        async def ask(interaction, question: str):
            await bot.heard.put((interaction, question))

        (command,) = await bot.tree.sync()
        assert (command.name, command.application_id) == ("ask", BOT)
        options = [{"name": "question", "type": 3, "value": "why?"}]
        called = stand_in.inject("command", name="ask", options=options, **{"from": PERSON, "in": HERE})
        interaction, question = None, None
        while question is None:
            heard = await bot.next()
            interaction, question = heard if isinstance(heard, tuple) else (None, None)
        assert (question, interaction.user.display_name, interaction.channel_id) == ("why?", "Boss", CHANNEL)
        assert interaction.token == called["token"]
        await interaction.response.defer()
        again = discord.webhook.async_.async_context.get()
        with pytest.raises(discord.HTTPException) as twice:
            await again.create_interaction_response(
                interaction.id, interaction.token, session=interaction._session,
                params=discord.webhook.async_.interaction_response_params(5),
            )
        assert twice.value.code == 40060
        original = await interaction.edit_original_response(content="because")
        assert original.content == "because"
        more = await interaction.followup.send("and also", wait=True)
        assert (more.content, more.author.id) == ("and also", BOT)
        await more.edit(content="and besides")
        stand_in.control("POST", "clock", {"advance_ms": 900_000})
        with pytest.raises(discord.HTTPException) as late:
            await interaction.followup.send("too late")
        assert late.value.code == 50027

    talk(conversation)
    rows = [(row["kind"], row.get("text")) for row in stand_in.rows(chat=CHANNEL)]
    assert rows[-3:] == [("sent", "because"), ("sent", "and also"), ("edited", "and besides")]


def test_buttons_are_pressed(stand_in):
    async def conversation(bot):
        view = discord.ui.View(timeout=None)
        view.add_item(discord.ui.Button(label="Yes", custom_id="yes"))
        view.add_item(discord.ui.Select(custom_id="pick", options=[discord.SelectOption(label="a", value="1")]))
        sent = await bot.get_channel(CHANNEL).send("sure?", view=view)
        stand_in.inject("press", message_id=str(sent.id), custom_id="yes", **{"from": PERSON})
        pressed = await bot.next()
        assert (pressed.data["custom_id"], pressed.message.id, pressed.user.id) == ("yes", sent.id, 77)
        await pressed.response.edit_message(content="thanks", view=None)
        assert (await sent.channel.fetch_message(sent.id)).content == "thanks"
        again = await bot.get_channel(CHANNEL).send("which?", view=view)
        stand_in.inject("press", message_id=str(again.id), custom_id="pick", values=["1"], **{"from": PERSON})
        chosen = await bot.next()
        assert chosen.data["values"] == ["1"]
        await chosen.response.send_message("only you see this", ephemeral=True)

    talk(conversation)


def test_interactions_are_posted_with_a_signature_and_probed_with_a_wrong_one(stand_in):
    heard, verdicts = asyncio.Queue(), []

    async def conversation(bot):
        loop = asyncio.get_running_loop()
        application = await bot.application_info()

        def set_url(url):
            # AppInfo.edit of this version never sends the URL.
            route = discord.http.Route("PATCH", "/applications/@me")
            return bot.http.request(route, json={"interactions_endpoint_url": url})

        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(application.verify_key))

        class Door(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                signed = self.headers["X-Signature-Timestamp"].encode() + body
                try:
                    key.verify(bytes.fromhex(self.headers["X-Signature-Ed25519"]), signed)
                    answer = {"type": 1 if json.loads(body)["type"] == 1 else 5}
                    verdicts.append(200)
                    loop.call_soon_threadsafe(heard.put_nowait, json.loads(body))
                except InvalidSignature:
                    answer = {}
                    verdicts.append(401)
                self.send_response(verdicts[-1])
                self.send_header("content-type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

            def log_message(self, *arguments):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Door)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with pytest.raises(discord.HTTPException) as unreachable:
                await set_url("http://127.0.0.1:9/nobody")
            assert unreachable.value.code == 50035
            url = f"http://127.0.0.1:{server.server_port}/interactions"
            assert (await set_url(url))["interactions_endpoint_url"] == url
            assert verdicts == [401, 200]
            stand_in.inject("command", name="ask", unregistered=True, **{"from": PERSON, "in": HERE})
            assert (await heard.get())["type"] == 1
            body = await asyncio.wait_for(heard.get(), 60)
            assert (body["data"]["name"], body["member"]["user"]["id"], body["guild_id"]) == ("ask", "77", str(GUILD))
            await asyncio.to_thread(stand_in.wait, kind="interaction_answered")
            webhook = discord.Webhook.partial(BOT, body["token"], client=bot)
            await webhook.edit_message("@original", content="answered")
            stand_in.control("POST", "probe", {})
            await asyncio.to_thread(stand_in.wait, kind="probe_passed")
            await set_url("")
        finally:
            server.shutdown()

    talk(conversation)
    assert stand_in.rows(kind="sent")[-1]["text"] == "answered"
    assert "interaction-token" not in json.dumps(stand_in.rows())

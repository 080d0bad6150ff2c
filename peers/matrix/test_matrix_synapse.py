"""Matrix end to end: a real Synapse, the real server, and an agent of the SDK. matrix-nio plays the people.

Needs POSTHOUSE_BIN, and the example `echo` of the SDK beside it (`cargo build --workspace --all-targets`).
"""

import asyncio
import json
import os
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
from nio import AsyncClient, RoomMessageImage, RoomMessageNotice, RoomMessageText

from synapse import Synapse, free_port

POSTY, WITHIN = "@posty:hs.test", 90


def binary():
    found = os.environ.get("POSTHOUSE_BIN")
    assert found, "set POSTHOUSE_BIN to the posthouse binary"
    return Path(found).resolve()


class Posthouse:
    """The server and its agents. Every process ends by its own id."""

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._processes = []
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self._environment = kept | {
            "POSTHOUSE_SERVER__LISTEN": f"127.0.0.1:{self.port}", "POSTHOUSE_SERVER__PUBLIC_URL": self.url,
        }

    def run(self, *words):
        done = subprocess.run(
            [binary(), "--json", "--dir", str(self.folder / "server"), *words], env=self._environment, capture_output=True, text=True,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return json.loads(done.stdout) if done.stdout.strip() else {}

    def start(self, command, environment, log):
        with (self.folder / log).open("w") as output:
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        self._processes.append(process)
        return process

    def open(self):
        made = [binary(), "init", str(self.folder / "server")]
        subprocess.run(made, env=self._environment, check=True, capture_output=True)
        self.serve()

    def serve(self):
        config = str(self.folder / "server" / "posthouse.toml")
        self.server = self.start([binary(), "serve", "--config", config], self._environment, "server.log")
        end = time.monotonic() + WITHIN
        while True:
            try:
                return urllib.request.urlopen(f"{self.url}/healthz", timeout=5).read()
            except OSError:
                assert self.server.poll() is None and time.monotonic() < end, (self.folder / "server.log").read_text()
                time.sleep(0.1)

    def restart(self):
        self.server.terminate()
        self.server.wait(60)
        self.serve()

    def secret(self, name, value):
        path = self.folder / name
        path.write_text(value)
        path.chmod(0o600)
        return str(path)

    def echo(self, name, bot):
        """An agent that sends every message back."""
        made = self.run("agent", "create", name, "--tenant", "acme", "--bot", f"matrix:{bot}")
        example = binary().parent / "examples" / "echo"
        self.start([example], self._environment | made["env"], f"{name}.log")

    def close(self):
        for process in reversed(self._processes):
            process.terminate()
            process.wait(60)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("matrix")
    (folder / "synapse").mkdir()
    posthouse = Posthouse(folder)
    with Synapse(folder / "synapse", f"{posthouse.url}/door/matrix/posty.hs.test") as synapse:
        try:
            posthouse.open()
            posthouse.run("tenant", "create", "acme")
            homeserver = ["--open", "--set", f"homeserver_url={synapse.url}"]
            tokens = ["--token-file", posthouse.secret("as", synapse.as_token)]
            hs_token = ["--hs-token-file", posthouse.secret("hs", synapse.hs_token)]
            made = posthouse.run("bot", "create", "matrix", *homeserver, *tokens, *hs_token)
            assert (made["id"], made["delivery"]) == ("posty.hs.test", "webhook")
            _, token = synapse.make_user("otter")
            made = posthouse.run("bot", "create", "matrix", *homeserver, "--token-file", posthouse.secret("user", token))
            assert (made["id"], made["delivery"]) == ("otter.hs.test", "polling")
            posthouse.echo("heron", "posty.hs.test")
            posthouse.echo("otter", "otter.hs.test")
            yield synapse, posthouse
        finally:
            posthouse.close()


class Person:
    """A person with matrix-nio."""

    def __init__(self, synapse, name):
        user, token = synapse.make_user(name)
        self.client = AsyncClient(synapse.url, user)
        self.client.access_token, self.client.user_id = token, user
        self._heard = []
        kinds = (RoomMessageText, RoomMessageNotice, RoomMessageImage)
        self.client.add_event_callback(lambda room, event: self._heard.append((room.room_id, event)), kinds)

    async def room(self, *users, **more):
        """A room with these users, who have joined when it returns."""
        made = await self.client.room_create(invite=users, is_direct=len(users) == 1, **more)
        await self.until(lambda: None not in [self.member(made.room_id, user) for user in users])
        return made.room_id

    def member(self, room, user):
        known = self.client.rooms.get(room)
        return known.users.get(user) if known and user not in known.invited_users else None

    async def until(self, check):
        end = time.monotonic() + WITHIN
        while not (found := check()):
            assert time.monotonic() < end, self._heard
            await self.client.sync(timeout=1000)
        return found

    async def says(self, room, text, **more):
        content = {"msgtype": "m.text", "body": text, **more}
        return (await self.client.room_send(room, "m.room.message", content)).event_id

    async def hears(self, room, text):
        """Waits until the bot has said this."""
        def heard():
            own = self.client.user_id
            found = [event for where, event in self._heard if where == room and event.sender != own]
            return next((event for event in found if text in event.body), None)

        return await self.until(heard)


def as_person(world, name, story):
    async def told():
        person = Person(world[0], name)
        try:
            await story(person)
        finally:
            await person.client.close()

    asyncio.run(told())


@pytest.mark.parametrize("bot", [POSTY, "@otter:hs.test"])
def test_a_person_talks_with_an_agent_in_a_direct_room_of_version_12(world, bot):
    async def story(ana):
        room = await ana.room(bot)
        assert ":" not in room, "the default room version is 12"
        await ana.says(room, "**olá** 🎈")
        answer = await ana.hears(room, "**olá** 🎈")
        assert answer.formatted_body == "<p><strong>olá</strong> 🎈</p>"
        assert answer.source["content"]["msgtype"] == "m.text"

    as_person(world, "ana" + bot[1:6], story)


def test_in_a_larger_room_the_bot_answers_mentions_and_threads(world):
    async def story(bo):
        room = await bo.room(POSTY, "@otter:hs.test")
        await bo.says(room, "among people")
        asked = await bo.says(room, "posty: status", **{"m.mentions": {"user_ids": [POSTY]}})
        await bo.hears(room, "status")
        thread = {"rel_type": "m.thread", "event_id": asked}
        content = {"m.mentions": {"user_ids": [POSTY]}, "m.relates_to": thread}
        await bo.says(room, "in a thread", **content)
        answer = await bo.hears(room, "in a thread")
        assert answer.source["content"]["m.relates_to"]["event_id"] == asked
        assert not [event for _, event in bo._heard if event.sender == POSTY and "among" in event.body]

    as_person(world, "bo", story)


def test_a_long_burst_reaches_the_agent_once_also_over_a_restart(world):
    synapse, posthouse = world

    async def story(cy):
        rooms = [await cy.room(POSTY), await cy.room("@otter:hs.test")]
        await cy.says(rooms[0], "before")
        await cy.hears(rooms[0], "before")
        posthouse.server.terminate()
        posthouse.server.wait(60)
        for room in rooms:
            await cy.says(room, "while it was down")
        posthouse.serve()
        for room in rooms:
            await cy.hears(room, "while it was down")
            await cy.says(room, "marker")
            await cy.hears(room, "marker")
            answers = [e for where, e in cy._heard if where == room and e.sender != cy.client.user_id]
            assert len([answer for answer in answers if answer.body == "while it was down"]) == 1

    as_person(world, "cy", story)


def test_an_encrypted_room_gets_one_notice_and_no_answer(world):
    async def story(di):
        encryption = {"type": "m.room.encryption", "state_key": "", "content": {"algorithm": "m.megolm.v1.aes-sha2"}}
        made = await di.client.room_create(invite=[POSTY], is_direct=True, initial_state=[encryption])
        notice = await di.hears(made.room_id, "cannot read encrypted rooms")
        assert isinstance(notice, RoomMessageNotice)
        gone = lambda: POSTY not in di.client.rooms[made.room_id].users
        await di.until(gone)
        # The marker: another room is answered after it, and nothing more came here.
        room = await di.room(POSTY)
        await di.says(room, "marker")
        await di.hears(room, "marker")
        assert len([event for where, event in di._heard if where == made.room_id]) == 1

    as_person(world, "di", story)


def test_a_wrong_token_of_a_homeserver_is_refused(world):
    _, posthouse = world
    url = f"{posthouse.url}/door/matrix/posty.hs.test/_matrix/app/v1/transactions/1"
    for token, status in [(None, 401), ("Bearer guess", 403)]:
        request = urllib.request.Request(url, b'{"events":[]}', {"Content-Type": "application/json"}, method="PUT")
        if token:
            request.add_header("Authorization", token)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=30)
        assert refused.value.code == status


def test_the_homeserver_reaches_the_server_by_ping(world):
    synapse, _ = world
    answer = synapse.call("POST", "/_matrix/client/v1/appservice/posthouse/ping", {"transaction_id": "p1"}, synapse.as_token)
    assert answer["duration_ms"] >= 0

"""One stock gateway process that fronts Telegram and Discord at once, on one socket."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator

import pytest

from discord_stand_in import APPLICATION, TOKEN_SECRET, Discord
from scripted_model import ScriptedModel
from stock_agent import Chat, StockAgent, number
from stock_gateway import Gateway
from waiting import until

if TYPE_CHECKING:
    from conftest import Actors

ACME, OTHER = Discord.CHANNELS


@dataclass
class Both:
    """The agent with a bot on each platform."""

    stock_agent: StockAgent
    discord: Discord

    def chat(self) -> Chat:
        return self.stock_agent.chat()


@pytest.fixture(scope="module")
def both(actors: Actors, model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder: Path = tmp_path_factory.mktemp("discord")
    discord, server = Discord(folder), actors.server
    gateway = None
    try:
        discord.open()
        token_file = folder / "token"
        token_file.write_text(TOKEN_SECRET)
        token_file.chmod(0o600)
        server.admin("bot", "create", "discord", "--open", "--token-file", str(token_file),
                     "--api-base-url", discord.api_url)
        agent = actors.agent(1, "webhook", None, "--bot", f"discord:{APPLICATION}")
        assert {"telegram", "discord"} <= set(agent.env["GATEWAY_RELAY_PLATFORMS"].split(",")), agent.env
        gateway = Gateway(folder / "hermes", agent.env, model.base_url)
        made = Both(StockAgent(actors, agent, model, gateway), discord)
        made.stock_agent.rise()
        made.stock_agent.connected()
        discord.wait_connected()
        yield made
        written = server.written()
        leaks = [where for where, text in written.items() if TOKEN_SECRET.encode() in text]
        assert not leaks, f"the token was written in {leaks}"
    finally:
        model.forget_rules()
        if gateway is not None:
            gateway.kill()
        discord.kill()


def test_replies_leave_by_the_platform_and_the_server_that_they_came_from(both: Both) -> None:
    chat, discord = both.chat(), both.discord
    in_acme, in_other = number(), number()
    discord.mention(ACME, f"ping {in_acme}")
    on_telegram = chat.ping()
    discord.mention(OTHER, f"ping {in_other}")
    chat.wait_answered(on_telegram)
    discord.said(ACME, f"pong {in_acme}")
    discord.said(OTHER, f"pong {in_other}")
    for guild, foreign in ((ACME, [in_other, *on_telegram]), (OTHER, [in_acme, *on_telegram])):
        assert not any(f"pong {one}" in text for one in foreign for text in discord.sent(guild))
    assert not {in_acme, in_other} & set(chat.answered())
    chat.account().exactly_once()


def test_the_gateway_keeps_the_server_of_each_channel(both: Both) -> None:
    one = number()
    both.discord.mention(ACME, f"ping {one}")
    both.discord.said(ACME, f"pong {one}")

    def scopes() -> dict[str, Any]:
        found = [origin for origin in both.stock_agent.gateway.origins() if origin["platform"] == "discord"]
        return {origin["chat_id"]: origin.get("scope_id") or origin.get("guild_id") for origin in found}

    channel = Discord.CHANNELS[ACME]
    until("the gateway has stored the channel", lambda: channel in scopes(), 60)
    assert scopes()[channel] == ACME


def test_a_slash_command_is_answered_in_the_channel_where_it_was_used(both: Both) -> None:
    # Stock answers it by an ordinary `send`. No version calls `follow_up` by itself.
    chat, discord = both.chat(), both.discord
    before = len(discord.sent(ACME))
    discord.command(ACME, "help")
    until("an answer in the channel", lambda: len(discord.sent(ACME)) > before, 120)
    assert any("/" in text for text in discord.sent(ACME)[before:]), "it lists its commands"
    chat.wait_answered(chat.ping())

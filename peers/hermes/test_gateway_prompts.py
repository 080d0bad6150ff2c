"""Questions with buttons of a whole stock gateway: approvals on Telegram and on the chat page.

0.20.5 asks with buttons where the platform offers them. 0.19.0 cannot ask over the relay.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stock_agent import StockAgent, number
from stock_version import only_0_19, only_0_20
from waiting import until
from web_chat import Page

TOOLS = ["terminal"]
CONFIG = {
    "toolsets": TOOLS,
    "platform_toolsets": {"telegram": TOOLS, "relay": TOOLS},
    "approvals": {"mode": "manual", "timeout": 120},
    "terminal": {"backend": "local"},
}


def wants_to_remove(stock_agent: StockAgent) -> tuple[str, Path, str]:
    """A request for which the model runs a command that stock wants approved: text, folder and final answer."""
    which = number()
    folder = stock_agent.gateway.home / f"waste-{which}"
    folder.mkdir()
    command = {"command": f"rm -rf {folder}"}
    stock_agent.model.rule(rf"^tidy up {which}$", f"tidied {which}", tool="terminal", arguments=command, times=1)
    return f"tidy up {which}", folder, f"tidied {which}"


def buttons(stock_agent: StockAgent, chat: int) -> dict[str, Any] | None:
    """The last message with buttons in a chat of Telegram: its id, and the payload of each button by its option."""
    for row in reversed(stock_agent.actors.telegram.rows(chat=chat)):
        raw = row["raw"] if isinstance(row["raw"], dict) else json.loads(row["raw"])
        keyboard = (raw.get("reply_markup") or {}).get("inline_keyboard") if row["kind"] == "sent" else None
        if keyboard:
            payloads = [button["callback_data"] for line in keyboard for button in line]
            return {"message_id": row["message_id"]} | {one.rsplit(":", 1)[1]: one for one in payloads}
    return None


@only_0_20
def test_an_approval_pressed_on_telegram_reaches_the_agent_that_asked(stock_agent: StockAgent) -> None:
    chat = stock_agent.chat()
    text, folder, answer = wants_to_remove(stock_agent)
    stock_agent.actors.writes(stock_agent.agent, chat.id, text)
    asked = until("the question", lambda: buttons(stock_agent, chat.id), 60)
    assert folder.exists(), "nothing runs before the approval"
    bot = stock_agent.actors.bots[stock_agent.agent.instance_id]
    stock_agent.actors.telegram.press(bot, chat.id, asked["message_id"], asked["once"])
    stock_agent.actors.telegram.said(chat.id, answer, 60)
    assert not folder.exists()
    removed = [row for row in stock_agent.actors.telegram.rows(chat=chat.id) if row["kind"] == "buttons_changed"]
    assert [row["message_id"] for row in removed] == [asked["message_id"]], "an answered question has no buttons"


@only_0_20
def test_a_denial_pressed_on_the_page_reaches_the_agent_that_asked(stock_agent: StockAgent) -> None:
    with Page(stock_agent.actors.server, stock_agent.agent, "Ann") as page:
        text, folder, answer = wants_to_remove(stock_agent)
        page.say(text)
        asked = until("the question", page.prompt, 60)
        page.press(asked["message_id"], "deny")
        page.sees(answer, 60)
        assert folder.exists()
        assert page.prompt() is None, "an answered question takes no further press"


@only_0_19
def test_an_agent_without_prompts_runs_nothing_that_needs_an_approval(stock_agent: StockAgent) -> None:
    chat = stock_agent.chat()
    text, folder, answer = wants_to_remove(stock_agent)
    stock_agent.actors.writes(stock_agent.agent, chat.id, text)
    # Its tool is told that the question could not be sent, and the turn goes on.
    stock_agent.actors.telegram.said(chat.id, answer, 60)
    assert buttons(stock_agent, chat.id) is None and folder.exists()

"""Files between people and the whole stock gateway: pictures reach its model, and files that it makes reach people."""

from __future__ import annotations

import base64
import re
import struct
import urllib.request
import zlib
from pathlib import Path
from typing import Any

from scripted_model import Turn
from stock_agent import StockAgent, number
from stock_version import IS_0_19, only_0_19, only_0_20
from waiting import until
from web_chat import Page

# From 0.20 on, the model gets pictures themselves instead of a description by another model. 0.19.0 has no client for
# files: only where pictures are described, the model gets the URL.
MODE = "text" if IS_0_19 else "native"
CONFIG = {"agent": {"environment_probe": False, "gateway_notify_interval": 0, "image_input_mode": MODE}}


def png() -> bytes:
    """A picture of eight by eight red points."""
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\x00" + b"\xff\x00\x00" * 8 for _ in range(8))
    header = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def images(turn: Turn) -> list[bytes]:
    """The pictures in the newest message of the user."""
    users = [message for message in turn.messages if message.get("role") == "user"]
    content: Any = users[-1]["content"]
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    urls = [part["image_url"]["url"] for part in parts if part.get("type") == "image_url"]
    assert all(url.startswith("data:image/") for url in urls), urls
    return [base64.b64decode(url.partition(",")[2]) for url in urls]


def sends_photo(stock_agent: StockAgent, chat: int, caption: str) -> None:
    actors = stock_agent.actors
    update = actors.telegram.photo(actors.bots[stock_agent.agent.instance_id], chat, png(), caption)
    until("the server takes the photo", lambda: update in actors.telegram.confirmed(), 30)


@only_0_20
def test_a_photo_from_telegram_reaches_the_model_as_an_image(stock_agent: StockAgent) -> None:
    chat, new = stock_agent.chat(), number()
    sends_photo(stock_agent, chat.id, f"ping {new}")
    chat.wait_answered([new])
    (turn,) = stock_agent.model.asked(rf"^ping {new}$")
    assert images(turn) == [png()]


@only_0_19
def test_a_photo_from_telegram_reaches_the_model_as_a_url_that_opens(stock_agent: StockAgent) -> None:
    chat, new = stock_agent.chat(), number()
    sends_photo(stock_agent, chat.id, f"ping {new}")
    chat.wait_answered([new])
    (turn,) = stock_agent.model.asked(rf"^ping {new}$")
    (url,) = re.findall(r"image_url: (http[^\s\]]+)", turn.text)
    # Whoever has the URL can open it: a tool or the model's provider has no credential.
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert (answer.headers.get_content_maintype(), answer.read()) == ("image", png())


@only_0_20
def test_a_picture_from_the_page_reaches_the_model_as_an_image(stock_agent: StockAgent) -> None:
    with Page(stock_agent.actors.server, stock_agent.agent, "Ann") as page:
        new = number()
        page.say(f"ping {new}", page.upload("red.png", "image/png", png()))
        page.sees(f"pong {new}", 60)
        (turn,) = stock_agent.model.asked(rf"^ping {new}$")
        assert images(turn) == [png()]


def report(folder: Path) -> Path:
    made = folder / "report.txt"
    made.write_text("made by the agent\n")
    return made


@only_0_20
def test_a_file_made_by_the_agent_arrives_at_telegram(stock_agent: StockAgent, tmp_path: Path) -> None:
    chat, new = stock_agent.chat(), number()
    stock_agent.model.rule(rf"^ping {new}$", answer=f"pong {new}\nMEDIA:{report(tmp_path)}", times=1)
    stock_agent.actors.writes(stock_agent.agent, chat.id, f"ping {new}")
    rows = until("the document is sent", lambda: [
        row for row in stock_agent.actors.telegram.rows(chat=chat.id) if row["method"] == "sendDocument"], 60)
    assert rows[0]["raw"]["document"] == {"file_name": "report.txt", "file_size": 18}


@only_0_20
def test_a_file_made_by_the_agent_arrives_in_the_web_chat(stock_agent: StockAgent, tmp_path: Path) -> None:
    with Page(stock_agent.actors.server, stock_agent.agent, "Ann") as page:
        new = number()
        stock_agent.model.rule(rf"^ping {new}$", answer=f"pong {new}\nMEDIA:{report(tmp_path)}", times=1)
        page.say(f"ping {new}")
        assert page.file("report.txt") == b"made by the agent\n"


@only_0_19
def test_the_text_of_an_answer_with_a_file_arrives(stock_agent: StockAgent, tmp_path: Path) -> None:
    # This version cannot upload files to the relay.
    chat, new = stock_agent.chat(), number()
    stock_agent.model.rule(rf"^ping {new}$", answer=f"pong {new}\nMEDIA:{report(tmp_path)}", times=1)
    stock_agent.actors.writes(stock_agent.agent, chat.id, f"ping {new}")
    chat.wait_answered([new])

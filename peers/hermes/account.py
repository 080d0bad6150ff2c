"""Account of numbered messages: which were asked, which became a turn, which were answered.

A stock gateway joins messages that arrive during a turn into one next turn, so neither turns nor answers can be
counted directly. Every message has its own number, and the model answers number by number.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from scripted_model import PING, Turn

PONG = re.compile(r"^pong (\S+)$", re.MULTILINE)
# Longest time of an answer from the model through the agent to the server, on a busy machine.
ON_ITS_WAY_S = 4.0


@dataclass
class Account:
    sent: list[str]
    """Numbers for which the platform got its word that they were taken, in order."""
    turns: list[Turn]
    answers: list[str]
    """What stands in the chat, in order."""
    asked: list[str] = field(init=False)
    answered: list[str] = field(init=False)

    def __post_init__(self) -> None:
        ours = set(self.sent)
        self.turns = [t for t in self.turns if not t.side and not t.after_tool and ours & set(PING.findall(t.text))]
        self.asked = [n for t in self.turns for n in PING.findall(t.text) if n in ours]
        self.answered = [n for text in self.answers for n in PONG.findall(text) if n in ours]

    def every_message_became_a_turn_in_order(self) -> None:
        first = list(dict.fromkeys(self.asked))
        assert first == self.sent, f"sent {self.sent}\nbecame turns {first}"

    def repeated(self) -> list[str]:
        """Numbers that the agent got more than once, as often as they were repeated."""
        return list((Counter(self.asked) - Counter(self.sent)).elements())

    def answered_too_often(self) -> list[str]:
        """Answers beyond one for each time the agent was asked."""
        return list((Counter(self.answered) - Counter(self.asked)).elements())

    def unanswered(self) -> list[str]:
        return [n for n in self.sent if n not in self.answered]

    def exactly_once(self) -> None:
        """Asked once, answered once, in order."""
        self.every_message_became_a_turn_in_order()
        assert self.asked == self.sent, f"asked {self.asked}"
        assert self.answered == self.sent, f"answered {self.answered}"

    def answers_stand_in_order(self) -> None:
        """Answers are in the order of the questions, except for questions that were asked twice."""
        once = [n for n in self.sent if self.asked.count(n) == 1 and n in self.answered]
        assert [n for n in self.answered if n in once] == once, f"answered {self.answered}"

    def swallowed(self, down: list[tuple[float, float]]) -> list[tuple[float, float]]:
        """Checks every turn without an answer: the server was down when it ended. Stock does not repeat what it was
        sending then. Any other missing answer is an error."""
        missing, windows = set(self.unanswered()), []
        for turn in self.turns:
            lost = missing & set(PING.findall(turn.text))
            if not lost or turn.finished is None:
                continue
            inside = [(start, stop) for start, stop in down if start - ON_ITS_WAY_S <= turn.finished <= stop]
            assert inside, f"{lost} not answered; the turn ended at {turn.finished}, the server was down {down}"
            windows += inside[:1]
            missing -= lost
        assert not missing, f"{missing} not answered, and no turn ended with an answer to them"
        return windows

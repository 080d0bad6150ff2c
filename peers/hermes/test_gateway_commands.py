"""Commands that a person types while a turn runs, to the whole stock gateway, in a house as it comes."""

from __future__ import annotations

from scene import Scene

# The lease is the default one: stock answers such a command from inside its reader, cannot read the result
# of that send meanwhile, and acknowledges the command only when it has given up on it, after 30 s.
STOPPED = "Stopped"
AFTER_THE_NOTICE_S = 60.0


def test_a_stop_typed_during_a_turn_ends_it_and_loses_nobodys_message(scene: Scene) -> None:
    chat, other = scene.chat(), scene.chat()
    chat.wait_answered(chat.ping())
    scene.model.rule(r"^ping \d+$", hold="for ever", times=1)
    (stopped,) = chat.ping()
    scene.model.wait_asked(rf"^ping {stopped}$")
    scene.town.writes(scene.agent, chat.id, "/stop")
    scene.town.telegram.said(chat.id, STOPPED)
    assert stopped not in chat.answered()
    other.wait_answered(other.ping(3), AFTER_THE_NOTICE_S)
    other.account().exactly_once()
    chat.wait_answered(chat.ping(), AFTER_THE_NOTICE_S)
    assert sum(STOPPED in text for text in scene.town.telegram.sent(chat.id)) == 1
    # All on one socket: the house did not take its silence for a death.
    assert scene.town.house.log().count("an agent is on the line") == 1

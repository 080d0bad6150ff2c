from __future__ import annotations
import time
from test_gateway import stage, scene, Scene, _numbers
from waiting import until
SETTINGS: dict = {}

def test_stop(scene: Scene) -> None:
    chat, other = scene.chat(), scene.chat()
    chat.wait_answered(chat.ping())
    scene.model.rule(r"^ping \d+$", hold="slow", times=1)
    (first,) = chat.ping()
    scene.model.wait_asked(rf"^ping {first}$")
    begun = time.monotonic()
    scene.town.writes(scene.agent, chat.id, "/stop")
    print("injected")
    o = other.ping()
    for _ in range(600):
        u = scene.unread(); sent = scene.town.telegram.sent(chat.id)
        oa = other.answered()
        if oa and not getattr(chat, "t1", None):
            chat.t1 = time.monotonic() - begun; print("other answered after", chat.t1)
        if u == 0 and not getattr(chat, "t2", None):
            chat.t2 = time.monotonic() - begun; print("acked after", chat.t2, sent)
        if u == 0 and oa: break
        time.sleep(0.1)
    print(scene.town.telegram.sent(chat.id), scene.town.telegram.sent(other.id))
    scene.model.release("slow")
    nxt = chat.ping()
    chat.wait_answered(nxt)
    print(time.monotonic() - begun, scene.town.telegram.sent(chat.id), scene.connected())
    print(scene.town.house.log()[-1500:])

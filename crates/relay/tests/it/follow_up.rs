//! Follow-ups: what the relay does for one, whatever is wrong with it (section 12).

use posthouse_wire::SessionKey;
use posthouse_wire::session_key::plausible;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::test_server::{TestServer, bot, message};

fn key(of: &ledger::BotRef, chat: &str) -> SessionKey {
    plausible(&message(of, chat, "x").source).remove(0)
}

fn follow_up(key: &str, kind: &str) -> Value {
    json!({"op": "follow_up", "session_key": key, "kind": kind, "content": "thank you"})
}

/// The ledger reads and the calls of the outbox that one follow-up costs.
async fn cost(server: &TestServer, gateway: &mut Gateway, frame: Value) -> (u64, Vec<(&'static str, usize)>) {
    server.ledger_is_quiet().await;
    let reads = server.ledger.reads();
    server.outbox.calls.lock().unwrap().clear();
    let request = frame["requestId"].as_str().unwrap().to_owned();
    gateway.say(frame).await;
    gateway.hears_result(&request).await;
    let calls = server.outbox.calls.lock().unwrap().clone().into_iter().collect();
    (server.ledger.reads() - reads, calls)
}

/// Whether a capability has lapsed or is used up only the vault knows: `edge` has the test of that part.
#[tokio::test]
async fn a_refused_follow_up_costs_the_same_whatever_is_wrong_with_it() {
    let server = TestServer::open().await;
    let (mine, second) = (bot("telegram", "7001"), bot("telegram", "7002"));
    let heron = server.enrol("acme", "heron", &[mine.clone(), second.clone()]).await;
    let crow = server.enrol("rival", "crow", &[bot("telegram", "7003")]).await;
    server.says(&crow.bots[0], "theirs", "secret plans").await;
    server.says(&mine, "c1", "hi").await;
    let mut gateway = heron.sits_with_window(4).await;
    gateway.takes("hi").await;
    heron.has_unread(0).await;
    gateway.say(json!({"type": "hello", "platform": "telegram", "botId": "7002"})).await;
    assert_eq!(gateway.hears().await["type"], "descriptor");

    let (ours, theirs, kind) = (key(&mine, "c1"), key(&crow.bots[0], "theirs"), "telegram.reply_token");
    let cases = [
        ("permitted", follow_up(ours.as_str(), kind), None),
        ("unknown session", follow_up("agent:main:telegram:dm:nobody", kind), None),
        ("session of another tenant", follow_up(theirs.as_str(), kind), None),
        ("malformed session", follow_up("nonsense", kind), None),
        ("unknown kind", follow_up(ours.as_str(), "telegram.unknown"), None),
        ("kind of another platform", follow_up(ours.as_str(), "discord.interaction_token"), None),
        ("no kind", follow_up(ours.as_str(), ""), None),
        ("another bot of its own", follow_up(ours.as_str(), kind), Some(("telegram", "7002"))),
        ("a bot of another tenant", follow_up(ours.as_str(), kind), Some(("telegram", "7003"))),
        ("an unknown platform", follow_up(ours.as_str(), kind), Some(("nowhere", "1"))),
    ];
    let mut costs = Vec::new();
    for (what, action, on) in cases {
        let mut frame = json!({"type": "outbound", "requestId": what, "action": action});
        if let Some((platform, id)) = on {
            (frame["platform"], frame["botId"]) = (platform.into(), id.into());
        }
        costs.push((what, cost(&server, &mut gateway, frame).await));
        let may_redeem = server.egress.orders().last().unwrap().may_redeem;
        // Without a session of its own the vault decides, which knows no capability of this agent for it.
        assert!(on.is_none() || !may_redeem, "{what}");
    }
    assert!(costs.iter().all(|(_, cost)| *cost == costs[0].1), "{costs:#?}");
    assert_eq!(costs[0].1.1, [("begin", 1), ("finish", 1)]);
}

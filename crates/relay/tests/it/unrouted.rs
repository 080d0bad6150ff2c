//! Removed routes: the agent can no longer act as that bot or get its entries (section 11.3).

use ledger::{BotRef, Discriminator};
use posthouse_wire::EntryId;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::recorder::Habit;
use crate::test_server::{Agent, TestServer, bot, message};

/// An agent with two bots, both of which were written to in chat `c1`; the second is about to be taken away.
async fn heron_of_two(server: &TestServer) -> (Agent, BotRef, BotRef) {
    let (stays, leaves) = (bot("telegram", "7001"), bot("discord", "8002"));
    let heron = server.enrol("acme", "heron", &[stays.clone(), leaves.clone()]).await;
    server.says(&stays, "c1", "on the one").await;
    server.says(&leaves, "c2", "on the other").await;
    (heron, stays, leaves)
}

fn every_op(chat: &str) -> [Value; 4] {
    [
        json!({"op": "send", "chat_id": chat, "content": "hi"}),
        json!({"op": "edit", "chat_id": chat, "message_id": "m1", "content": "hi"}),
        json!({"op": "typing", "chat_id": chat}),
        json!({"op": "get_chat_info", "chat_id": chat}),
    ]
}

/// Asks for everything in this chat, tagged and untagged; how each went.
async fn asks_for_everything(gateway: &mut Gateway, round: &str, chat: &str, on: &BotRef) -> Vec<bool> {
    let mut went = Vec::new();
    for (number, action) in every_op(chat).into_iter().enumerate() {
        for tagged in [true, false] {
            let request = format!("{round}-{number}-{tagged}");
            let mut frame = json!({"type": "outbound", "requestId": request, "action": action});
            if tagged {
                frame["platform"] = on.platform.as_str().into();
                frame["botId"] = on.bot.as_str().into();
            }
            gateway.say(frame).await;
            let result = hears_result_among_messages(gateway, &request).await;
            if result["success"] == false {
                assert_eq!(result["code"], "egress_declined", "{result}");
            }
            went.push(result["success"] == true);
        }
    }
    went
}

/// What was asked shows a newer agent, which is handed its messages without a pause.
async fn hears_result_among_messages(gateway: &mut Gateway, request: &str) -> Value {
    loop {
        let frame = gateway.hears().await;
        if frame["type"] == "outbound_result" {
            assert_eq!(frame["requestId"], request);
            return frame["result"].clone();
        }
        assert_eq!(frame["type"], "inbound", "{frame}");
    }
}

async fn says_hello_for(agent: &Agent, all: &[&BotRef]) -> Gateway {
    let mut gateway = agent.dials().await;
    for on in all {
        gateway.says_hello(on).await;
    }
    gateway
}

#[tokio::test]
async fn after_route_remove_the_agent_no_longer_sends_edits_or_reads_chat_info_as_that_bot() {
    let server = TestServer::open().await;
    let (heron, stays, leaves) = heron_of_two(&server).await;
    let mut gateway = says_hello_for(&heron, &[&stays, &leaves]).await;
    assert_eq!(asks_for_everything(&mut gateway, "before", "c2", &leaves).await, [true; 8]);
    server.relay.route_removals().remove_route(&leaves, &Discriminator::Any).await.unwrap();
    assert_eq!(asks_for_everything(&mut gateway, "after", "c2", &leaves).await, [false; 8]);
    assert_eq!(asks_for_everything(&mut gateway, "other", "c1", &stays).await, [true; 8]);
    drop(gateway);
    let mut redialed = says_hello_for(&heron, &[&stays]).await;
    assert_eq!(asks_for_everything(&mut redialed, "redialed", "c2", &leaves).await, [false; 8]);
    server.routes(&leaves, Discriminator::Any, &heron).await;
    redialed
        .say(json!({"type": "hello", "platform": leaves.platform.as_str(), "botId": leaves.bot.as_str()}))
        .await;
    while redialed.hears().await["type"] != "descriptor" {}
    assert_eq!(asks_for_everything(&mut redialed, "again", "c2", &leaves).await, [true; 8]);
}

#[tokio::test]
async fn a_follow_up_needs_a_current_route_too() {
    let server = TestServer::open().await;
    let (heron, stays, leaves) = heron_of_two(&server).await;
    let mut gateway = says_hello_for(&heron, &[&stays, &leaves]).await;
    let keys = posthouse_wire::session_key::plausible(&message(&leaves, "c2", "x").source);
    let follow_up = json!({"op": "follow_up", "session_key": keys[0].as_str(), "kind": "k", "content": "hi"});
    // A follow-up is never declined by the relay, so that every refusal looks the same. The egress is told instead.
    let may_redeem = || server.egress.orders().last().unwrap().may_redeem;
    gateway.asks("r1", follow_up.clone()).await;
    gateway.hears_result("r1").await;
    assert!(may_redeem());
    server.relay.route_removals().remove_route(&leaves, &Discriminator::Any).await.unwrap();
    gateway.asks("r2", follow_up.clone()).await;
    gateway.hears_result("r2").await;
    assert!(!may_redeem());
    // Nor under the name of the bot that stays: what is bound to the session came by the other.
    let tagged = json!({"type": "outbound", "requestId": "r3", "platform": stays.platform.as_str(),
        "botId": stays.bot.as_str(), "action": follow_up});
    gateway.say(tagged).await;
    gateway.hears_result("r3").await;
    assert!(!may_redeem());
}

#[tokio::test]
async fn an_action_begun_before_the_removal_finishes_and_a_later_one_is_declined() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    server.says(&heron.bots[0], "c1", "hi").await;
    let mut gateway = heron.sits().await;
    let slow = server.clock.now() + std::time::Duration::from_secs(5);
    server.egress.in_chat("c1", Habit::Until(slow));
    gateway.sends("begun", "c1", "one").await;
    gateway.sends("waiting", "c1", "two").await;
    server.egress.has_begun(1).await;
    server.relay.route_removals().remove_route(&heron.bots[0], &Discriminator::Any).await.unwrap();
    server.winds(std::time::Duration::from_secs(5));
    assert_eq!(gateway.hears_result("begun").await["success"], true);
    assert_eq!(gateway.hears_result("waiting").await["code"], "egress_declined");
    assert_eq!(server.egress.texts("c1"), ["one"]);
}

#[tokio::test]
async fn a_repeat_of_what_was_done_before_the_removal_is_answered_from_memory() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    server.says(&heron.bots[0], "c1", "hi").await;
    let mut gateway = heron.sits().await;
    gateway.sends("done", "c1", "one").await;
    let done = gateway.hears_result("done").await;
    assert_eq!(done["message_id"], "m1");
    server.relay.route_removals().remove_route(&heron.bots[0], &Discriminator::Any).await.unwrap();
    gateway.sends("done", "c1", "one").await;
    assert_eq!(gateway.hears_result("done").await, done);
    drop(gateway);
    // The agent's only bot is gone, so it can say no hello any more.
    let mut redialed = heron.dials().await;
    redialed.sends("done", "c1", "one").await;
    assert_eq!(redialed.hears_result("done").await, done);
    redialed.sends("later", "c1", "two").await;
    assert_eq!(redialed.hears_result("later").await["code"], "egress_declined");
    assert_eq!(server.egress.texts("c1"), ["one"]);
}

#[tokio::test]
async fn a_chat_that_was_forgotten_with_its_route_is_known_again_with_the_next_message() {
    let server = TestServer::open().await;
    let shared = bot("slack", "shared");
    server.has_bot(&shared, true).await;
    let mut heron = server.enrol("acme", "heron", &[]).await;
    heron.bots = vec![shared.clone()];
    let scope = Discriminator::Scope("guild".into());
    for round in ["first", "second"] {
        server.routes(&shared, scope.clone(), &heron).await;
        let mut event = message(&shared, "c1", round);
        event.source.scope_id = Some("guild".into());
        server.brings(&shared, event, None).await.unwrap();
        let mut gateway = heron.sits().await;
        gateway.sends(round, "c1", "hi").await;
        assert_eq!(gateway.hears_result(round).await["success"], true, "{round}");
        server.relay.route_removals().remove_route(&shared, &scope).await.unwrap();
    }
}

async fn last_note(server: &TestServer, of: &EntryId) -> Option<String> {
    let story = server.ledger.traces().entry(of).await.unwrap().expect("every entry has a trace");
    story.steps.last().and_then(|step| step.note.clone())
}

#[tokio::test]
async fn entries_still_waiting_for_a_removed_route_end_with_a_trace() {
    let server = TestServer::open().await;
    let (heron, stays, leaves) = heron_of_two(&server).await;
    // At its socket, with the first in its hands and the rest read ahead or fresh in memory.
    let mut gateway = says_hello_for(&heron, &[&stays, &leaves]).await;
    gateway.hears_nothing().await;
    server.winds(std::time::Duration::from_secs(4));
    let (first, in_hand) = gateway.hears_inbound().await;
    assert_eq!(first, "on the one");
    let fresh = server.says(&leaves, "c2", "fresh").await;
    server.says(&stays, "c1", "marker").await;
    server.relay.route_removals().remove_route(&leaves, &Discriminator::Any).await.unwrap();
    gateway.acknowledges(&in_hand).await;
    gateway.takes("marker").await;
    heron.has_unread(0).await;
    assert_eq!(last_note(&server, &fresh).await.as_deref(), Some("its route was removed"));
}

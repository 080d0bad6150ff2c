//! Interrupts: stopping exactly one turn (section 13).

use ledger::Discriminator;
use serde_json::{Value, json};

use crate::test_server::{TestServer, bot, message, seconds};

fn stop(session_key: &str) -> Value {
    json!({"type": "interrupt", "session_key": session_key, "reason": null})
}

#[tokio::test]
async fn an_interrupt_comes_back_with_the_same_key_and_the_right_chat() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    server.says(&heron.bots[0], "c1", "hi").await;
    server.says(&heron.bots[0], "c2", "hi").await;
    let mut gateway = heron.sits().await;
    gateway.say(stop("agent:main:telegram:dm:c2")).await;
    let frame = gateway.hears().await;
    let expected =
        json!({"type": "interrupt_inbound", "session_key": "agent:main:telegram:dm:c2", "chat_id": "c2"});
    assert_eq!(frame, expected);
    gateway.hears_nothing().await;
}

#[tokio::test]
async fn unknown_keys_and_other_agents_keys_are_ignored() {
    let server = TestServer::open().await;
    let shared = bot("telegram", "shared");
    server.has_bot(&shared, true).await;
    let mut heron = server.enrol("acme", "heron", &[]).await;
    let mut crow = server.enrol("rival", "crow", &[]).await;
    server.routes(&shared, Discriminator::Chat("c1".into()), &heron).await;
    server.routes(&shared, Discriminator::Chat("c2".into()), &crow).await;
    server.says(&shared, "c1", "hi").await;
    server.says(&shared, "c2", "hi").await;
    heron.bots = vec![shared.clone()];
    crow.bots = vec![shared];
    let (mut one, mut two) = (heron.sits().await, crow.sits().await);
    one.say(stop("agent:main:telegram:dm:c2")).await;
    one.say(stop("agent:main:telegram:dm:nobody")).await;
    one.say(stop("")).await;
    one.hears_nothing().await;
    two.hears_nothing().await;
    // The one who runs it may stop it, and nobody else hears.
    two.say(stop("agent:main:telegram:dm:c2")).await;
    assert_eq!(two.hears().await["chat_id"], "c2");
    one.hears_nothing().await;
}

#[tokio::test]
async fn an_interrupt_of_one_gateway_reaches_the_live_socket_of_the_same_agent() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let other = heron.with_another_gateway("gw-other").await;
    server.says(&heron.bots[0], "c1", "hi").await;
    let mut first = heron.sits().await;
    let mut live = other.sits().await;
    first.say(stop("agent:main:telegram:dm:c1")).await;
    assert_eq!(live.hears().await["type"], "interrupt_inbound");
    first.hears_nothing().await;
}

#[tokio::test]
async fn an_interrupt_is_never_kept() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let on = &heron.bots[0];
    server.says(on, "c1", "hi").await;
    server.relay.interrupts().interrupt(&heron.instance, &message(on, "c1", "").source);
    server.ledger_is_quiet().await;
    let mut gateway = heron.sits().await;
    gateway.hears_nothing().await;
    server.relay.interrupts().interrupt(&heron.instance, &message(on, "c1", "").source);
    let frame = gateway.hears().await;
    assert_eq!((&frame["type"], &frame["chat_id"]), (&json!("interrupt_inbound"), &json!("c1")));
    server.winds(seconds(4));
}

#[tokio::test]
async fn keys_with_odd_characters_go_back_byte_identical() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let chat = "c:1 \"é😀\\";
    server.says(&heron.bots[0], chat, "hi").await;
    let key = format!("agent:main:telegram:dm:{chat}");
    let mut gateway = heron.sits().await;
    gateway.say(stop(&key)).await;
    let frame = gateway.hears().await;
    assert_eq!((&frame["session_key"], &frame["chat_id"]), (&json!(key), &json!(chat)));
}

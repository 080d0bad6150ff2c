//! Presses of prompts, interactions that are forwarded whole, and announced commands.

use ledger::InteractionMode;
use posthouse_wire::passthrough::Forward;
use posthouse_wire::{Event, PromptResponse};
use serde_json::{Value, json};

use crate::test_server::{Agent, TestServer, bot, message, seconds};

fn prompt(id: &str) -> Value {
    json!({"op": "prompt", "chat_id": "c1", "content": "sure?", "prompt_kind": "approval", "prompt_id": id,
        "options": [{"id": "once", "label": "Once"}]})
}

/// Somebody presses a button of this prompt.
async fn press(heron: &Agent, prompt: &str, text: &str) {
    let response = PromptResponse { prompt_id: prompt.to_owned(), ..PromptResponse::default() };
    let event = message(&heron.bots[0], "c1", text);
    let event = Event { prompt_response: Some(Box::new(response)), ..event };
    heron.server.brings(&heron.bots[0], event, None).await.unwrap();
}

#[tokio::test]
async fn a_press_goes_to_the_socket_that_asked_and_a_text_to_the_live_one() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut old = heron.sits_settled().await;
    heron.hears_from("hello").await;
    old.takes("hello").await;
    old.asks("r1", prompt("p1")).await;
    assert_eq!(old.hears_result("r1").await["success"], true);
    let mut new = heron.sits_settled().await;
    press(&heron, "p1", "/once").await;
    heron.hears_from("text").await;
    old.takes("/once").await;
    new.takes("text").await;
    heron.has_unread(0).await;
    old.hears_nothing().await;
    new.hears_nothing().await;
    // A prompt that nobody here asked goes to the live socket, as everything else.
    press(&heron, "p9", "/other").await;
    new.takes("/other").await;
    old.hears_nothing().await;
}

#[tokio::test]
async fn a_press_for_a_socket_that_ends_unacknowledged_goes_to_the_live_one() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut old = heron.sits_settled().await;
    heron.hears_from("hello").await;
    old.takes("hello").await;
    old.asks("r1", prompt("p1")).await;
    old.hears_result("r1").await;
    let mut new = heron.sits_settled().await;
    press(&heron, "p1", "/once").await;
    assert_eq!(old.hears_inbound().await.0, "/once");
    new.hears_nothing().await;
    old.dies();
    new.takes("/once").await;
    heron.has_unread(0).await;
}

#[tokio::test]
async fn a_press_does_not_wait_for_the_turn_that_waits_for_it() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    server.relay.seats().set_hold_back(&heron.instance, ledger::HoldBack::On).await.unwrap();
    let mut gateway = heron.sits_settled().await;
    heron.hears_from("work").await;
    gateway.takes("work").await;
    gateway.asks("t", json!({"op": "typing", "chat_id": "c1"})).await;
    gateway.hears_result("t").await;
    gateway.asks("r1", prompt("p1")).await;
    gateway.hears_result("r1").await;
    heron.hears_from("a text that waits").await;
    press(&heron, "p1", "/once").await;
    gateway.takes("/once").await;
    gateway.hears_nothing().await;
    heron.has_unread(1).await;
}

fn forward() -> Forward {
    Forward {
        platform: "discord".into(),
        bot_id: "app1".into(),
        method: "POST".to_owned(),
        path: "/interactions/app1".to_owned(),
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body_b64: Forward::encoded(br#"{"type":2,"data":{"name":"ask"}}"#),
        profile: None,
    }
}

#[tokio::test]
async fn an_interaction_is_an_event_unless_the_agent_wants_it_whole() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron", &[bot("discord", "app1")]).await;
    let on = &heron.bots[0];
    let brings =
        async || server.brings_with(on, message(on, "c1", "/ask"), None, Some(forward())).await.unwrap();
    let mut gateway = heron.sits_settled().await;
    brings().await;
    gateway.takes("/ask").await;

    server.relay.seats().set_interactions(&heron.instance, InteractionMode::Passthrough).await.unwrap();
    brings().await;
    let frame = gateway.hears().await;
    assert_eq!(frame["type"], "passthrough_forward");
    assert_eq!(frame["forward"], serde_json::to_value(forward()).unwrap());
    assert!(frame.get("bufferId").is_none(), "stock acknowledges no forward");
    // The pong to the ping after it is its acknowledgement. Plain messages stay events.
    heron.hears_from("hello").await;
    gateway.takes("hello").await;
    heron.has_unread(0).await;
    gateway.hears_nothing().await;

    // The setting is stored: another socket gets it too, and what waits is forwarded whole.
    gateway.says_goodbye().await;
    brings().await;
    let mut again = heron.sits_settled().await;
    assert_eq!(again.hears().await["type"], "passthrough_forward");
    again.hears_nothing().await;
    heron.has_unread(0).await;
}

#[tokio::test]
async fn a_forward_that_no_pong_confirms_stays() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron", &[bot("discord", "app1")]).await;
    let on = &heron.bots[0];
    server.relay.seats().set_interactions(&heron.instance, InteractionMode::Passthrough).await.unwrap();
    let mut gateway = heron.sits_settled().await;
    server.brings_with(on, message(on, "c1", "/ask"), None, Some(forward())).await.unwrap();
    // The frame is read, and the answer to the ping never leaves.
    gateway.leaves_a_ping_unanswered().await;
    gateway.dies();
    heron.has_unread(1).await;
    server.winds(seconds(1));
    let mut again = heron.sits_settled().await;
    assert_eq!(again.hears().await["type"], "passthrough_forward");
}

#[tokio::test]
async fn announced_commands_are_stored_and_junk_in_them_disturbs_no_handshake() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron", &[bot("discord", "app1")]).await;
    let hello = |manifest: Value| json!({"type": "hello", "platform": "discord", "botId": "app1", "command_manifest": manifest});
    let mut gateway = heron.dials().await;
    let junk = json!([{"name": "new", "description": "Start"}, {"name": "NOT A NAME"}, 7]);
    gateway.say(hello(junk)).await;
    assert_eq!(gateway.hears().await["type"], "descriptor");
    gateway.hears_nothing().await;
    let stored = server.ledger.roster().manifests(&heron.instance).await.unwrap();
    assert_eq!(stored, [(bot("discord", "app1"), r#"[{"name":"new","description":"Start"}]"#.to_owned())]);
    gateway.say(hello(json!([{"name": "reset", "description": ""}]))).await;
    assert_eq!(gateway.hears().await["type"], "descriptor");
    gateway.hears_nothing().await;
    let stored = server.ledger.roster().manifests(&heron.instance).await.unwrap();
    assert_eq!(stored[0].1, r#"[{"name":"reset","description":""}]"#);
}

//! Tests of `wake`: one for each row of the contract's table of degradation (section 1.7), and wakes by the relay.

use std::time::Duration;

use serde_json::{Value, json};

use crate::receiver::Receiver;
use crate::town::{Program, Town, chat, eventually};

async fn wakes(program: &Program, body: Value) -> Value {
    let (status, told) = program.posts("/v1/wake", body).await;
    assert_eq!(status, 200, "{told}");
    told
}

#[tokio::test]
async fn live_interrupt_channel_agent_reachable_interrupts_and_is_woken() {
    let town = Town::patient().await;
    let heron = town.enrol("acme", "heron").await.sits().await;
    let program = town.program("acme").await;
    let told = wakes(&program, json!({ "agent_id": "heron@kitchen", "context": "the kettle boils" })).await;
    assert_eq!((&told["woken"], &told["session_id"]), (&json!(true), &json!("kitchen")));
    assert!(told.get("warnings").is_none(), "{told}");
    let inbound = heron.hears().await;
    assert_eq!(chat(&inbound), "post-kitchen");
    assert!(inbound.event.text.ends_with("the kettle boils"));
    // A wake has no envelope.
    assert_eq!(inbound.event.post.unwrap().meta, None);
    let receipt = program.receipt_when(&told["dispatch_id"], |told| told["state"] == "acknowledged").await;
    assert_eq!(receipt["receipt"]["woken"], true);
}

#[tokio::test]
async fn no_interrupt_channel_delivers_the_content_and_is_not_woken() {
    let town = Town::open().await;
    let receiver = Receiver::open().await;
    let settings = json!({ "agents": { "desk": { "url": format!("{}/in/desk", receiver.base) } } });
    town.wires("acme", "hook", "webhook", settings).await;
    let program = town.program("acme").await;
    let told = wakes(&program, json!({ "agent_id": "desk@pane", "context": "look" })).await;
    assert_eq!(told["woken"], false);
    let body = receiver.one().json();
    assert_eq!((&body["kind"], &body["content"]), (&json!("augment"), &json!("look")));
}

#[tokio::test]
async fn channel_exists_agent_offline_is_kept_for_it_and_not_woken() {
    let town = Town::open().await;
    let wake = Receiver::open().await;
    let heron = town.enrol_with("acme", "heron", Some(format!("{}/up", wake.base))).await;
    let program = town.program("acme").await;
    let told = wakes(&program, json!({ "agent_id": "heron@kitchen", "context": "up!" })).await;
    assert_eq!(told["woken"], false);
    assert!(told["warnings"][0].as_str().unwrap().contains("not connected"), "{told}");
    // Its wake URL is called, and it finds everything when it comes.
    eventually("its wake URL is called", async || !wake.seen().is_empty()).await;
    let seated = heron.sits().await;
    assert!(seated.hears().await.event.text.ends_with("up!"));
    let receipt = program.receipt_when(&told["dispatch_id"], |told| told["state"] == "acknowledged").await;
    // What the caller was told stays what it was told.
    assert_eq!(receipt["receipt"]["woken"], false);
}

#[tokio::test]
async fn unknown_agent_id_throws_delivery_failed_by_client_validation() {
    let town = Town::open().await;
    town.enrol("other", "heron").await;
    let program = town.program("acme").await;
    for address in ["nobody@kitchen", "heron", "heron@kitchen"] {
        let (status, told) = program.posts("/v1/wake", json!({ "agent_id": address })).await;
        assert_eq!((status.as_u16(), &told["code"]), (404, &json!("delivery_failed")), "{address}: {told}");
        assert_eq!(told["cause_kind"], "client_validation");
    }
}

#[tokio::test]
async fn network_fault_throws_and_is_on_record() {
    let town = Town::open().await;
    let settings = json!({
        "agents": { "desk": { "url": "http://127.0.0.1:9/in", "wake_url": "http://127.0.0.1:9/wake" } },
    });
    town.wires("acme", "hook", "webhook", settings).await;
    let program = town.program("acme").await;
    let body = json!({ "agent_id": "desk@pane", "context": "x" });
    let (status, told) = program.posts_with("/v1/wake", &[("idempotency-key", "w-1")], body).await;
    assert_eq!((status.as_u16(), &told["cause_kind"]), (502, &json!("network")), "{told}");
    let (_, told) = program.gets("/v1/receipts/w-1").await;
    assert_eq!(told["items"][0]["state"], "failed");
}

#[tokio::test]
async fn an_agent_that_is_connected_and_does_not_take_it_is_not_woken() {
    let town = Town::open().await;
    let heron = town.enrol("acme", "heron").await.sits_frozen().await;
    let program = town.program("acme").await;
    let told = wakes(&program, json!({ "agent_id": "heron@kitchen", "context": "1", "wait": 0.05 })).await;
    assert_eq!(told["woken"], false);
    assert!(told["warnings"].to_string().contains("did not take it"), "{told}");
    let told = wakes(&program, json!({ "agent_id": "heron@kitchen", "context": "2", "wait": 0.05 })).await;
    assert!(told["warnings"].to_string().contains("queued behind 1"), "{told}");
    heron.thaws();
    heron.hears().await;
    assert!(heron.hears().await.event.text.ends_with('2'));
    program.receipt_when(&told["dispatch_id"], |told| told["state"] == "acknowledged").await;
}

#[tokio::test]
async fn an_agent_that_is_away_is_woken_if_it_comes_while_the_caller_waits() {
    let town = Town::open().await;
    let heron = town.enrol("acme", "heron").await;
    let program = town.program("acme").await;
    let waiting = tokio::spawn(async move {
        wakes(&program, json!({ "agent_id": "heron", "context": "come", "wait": 60 })).await
    });
    // It is in the inbox before anybody comes.
    let inbox = town.ledger.inbox();
    eventually("it is kept", async || inbox.size(&heron.instance).await.unwrap().entries > 0).await;
    let seated = heron.sits().await;
    seated.hears().await;
    assert_eq!(waiting.await.unwrap()["woken"], true);
}

#[tokio::test]
async fn a_session_named_apart_beats_the_one_in_the_address() {
    let town = Town::open().await;
    let heron = town.enrol("acme", "heron").await.sits().await;
    let program = town.program("acme").await;
    let body = json!({ "agent_id": "heron@kitchen", "session_id": "attic", "context": "x" });
    assert_eq!(wakes(&program, body).await["session_id"], "attic");
    assert_eq!(chat(&heron.hears().await), "post-attic");
}

#[tokio::test]
async fn a_notify_to_a_session_is_a_wake_with_the_message_as_its_context() {
    let town = Town::patient().await;
    let heron = town.enrol("acme", "heron").await.sits().await;
    let program = town.program("acme").await;
    let told = program.notifies("heron@kitchen", "tea").await;
    assert_eq!(
        (&told["dispatched"][0]["route"], &told["dispatched"][0]["receipt"]["woken"]),
        (&json!("wake"), &json!(true))
    );
    assert!(heron.hears().await.event.text.ends_with("tea"));
}

#[tokio::test]
async fn a_wake_for_later_is_kept_and_made_at_its_time() {
    let town = Town::wound().await;
    let heron = town.enrol("acme", "heron").await.sits().await;
    let program = town.program("acme").await;
    let at = town.time.now() + Duration::from_secs(20);
    let body = json!({ "agent_id": "heron@kitchen", "context": "later", "when": at.millis() });
    let told = wakes(&program, body).await;
    assert_eq!(told["woken"], false);
    assert!(told["warnings"][0].as_str().unwrap().contains(&at.to_string()), "{told}");
    let (_, kept) = program.gets(&format!("/v1/receipts/{}", told["dispatch_id"].as_str().unwrap())).await;
    assert_eq!(kept["items"][0]["state"], "scheduled");
    heron.hears_nothing_more().await;
    town.time.wind(Duration::from_secs(21));
    assert!(heron.hears().await.event.text.ends_with("later"));
    let receipt = program
        .receipt_when(&told["dispatch_id"], |told| {
            told["state"] == "acknowledged" && told["receipt"]["woken"] == true
        })
        .await;
    assert_eq!(receipt["session_id"], "kitchen");
}

#[tokio::test]
async fn a_time_that_has_passed_is_now_and_one_too_far_ahead_is_refused() {
    let town = Town::patient().await;
    let heron = town.enrol("acme", "heron").await.sits().await;
    let program = town.program("acme").await;
    assert_eq!(
        wakes(&program, json!({ "agent_id": "heron", "context": "x", "when": 5 })).await["woken"],
        true
    );
    heron.hears().await;
    let (status, _) = program.posts("/v1/wake", json!({ "agent_id": "heron", "when": i64::MAX })).await;
    assert_eq!(status, 422);
}

#[tokio::test]
async fn woken_at_is_when_the_substrate_acknowledged() {
    let town = Town::open().await;
    let heron = town.enrol("acme", "heron").await.sits().await;
    let program = town.program("acme").await;
    let before = town.time.now().millis();
    let told = wakes(&program, json!({ "agent_id": "heron", "context": "x" })).await;
    heron.hears().await;
    let at = told["woken_at"].as_i64().unwrap();
    assert!((before..=town.time.now().millis()).contains(&at), "{told}");
}

#[tokio::test]
async fn woken_is_there_always_and_says_what_happened() {
    let town = Town::patient().await;
    let heron = town.enrol("acme", "heron").await;
    let program = town.program("acme").await;
    assert_eq!(wakes(&program, json!({ "agent_id": "heron", "context": "1" })).await["woken"], false);
    let seated = heron.sits().await;
    seated.hears().await;
    assert_eq!(wakes(&program, json!({ "agent_id": "heron", "context": "2" })).await["woken"], true);
}

#[tokio::test]
async fn session_id_of_a_wake_is_the_session_that_got_it() {
    let town = Town::open().await;
    town.enrol("acme", "heron").await;
    let program = town.program("acme").await;
    let told = wakes(&program, json!({ "agent_id": "heron@night shift", "context": "x" })).await;
    assert_eq!(told["session_id"], "night-shift");
}

#[tokio::test]
async fn warnings_of_a_wake_say_why_it_did_not_come_to_more() {
    let town = Town::open().await;
    town.enrol("acme", "heron").await;
    let program = town.program("acme").await;
    let told = wakes(&program, json!({ "agent_id": "heron", "context": "x" })).await;
    assert!(told["warnings"][0].as_str().unwrap().contains("no wake URL"), "{told}");
}

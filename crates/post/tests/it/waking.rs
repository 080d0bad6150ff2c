//! Tests of `wake`: one for each row of the contract's table of degradation (section 1.7), and wakes by the relay.

use std::time::Duration;

use serde_json::{Value, json};

use crate::receiver::Receiver;
use crate::test_server::{Program, TestServer, chat, eventually};

async fn wakes(program: &Program, body: Value) -> Value {
    let (status, response) = program.posts("/v1/wake", body).await;
    assert_eq!(status, 200, "{response}");
    response
}

#[tokio::test]
async fn live_interrupt_channel_agent_reachable_interrupts_and_is_woken() {
    let server = TestServer::patient().await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let program = server.program("acme").await;
    let response =
        wakes(&program, json!({ "agent_id": "heron@kitchen", "context": "the kettle boils" })).await;
    assert_eq!((&response["woken"], &response["session_id"]), (&json!(true), &json!("kitchen")));
    assert!(response.get("warnings").is_none(), "{response}");
    let inbound = heron.hears().await;
    assert_eq!(chat(&inbound), "post-kitchen");
    assert!(inbound.event.text.ends_with("the kettle boils"));
    // A wake has no envelope.
    assert_eq!(inbound.event.post.unwrap().meta, None);
    let receipt =
        program.receipt_when(&response["dispatch_id"], |receipt| receipt["state"] == "acknowledged").await;
    assert_eq!(receipt["receipt"]["woken"], true);
}

#[tokio::test]
async fn no_interrupt_channel_delivers_the_content_and_is_not_woken() {
    let server = TestServer::open().await;
    let receiver = Receiver::open().await;
    let settings = json!({ "agents": { "desk": { "url": format!("{}/in/desk", receiver.base) } } });
    server.wires("acme", "hook", "webhook", settings).await;
    let program = server.program("acme").await;
    let response = wakes(&program, json!({ "agent_id": "desk@pane", "context": "look" })).await;
    assert_eq!(response["woken"], false);
    let body = receiver.one().json();
    assert_eq!((&body["kind"], &body["content"]), (&json!("augment"), &json!("look")));
}

#[tokio::test]
async fn channel_exists_agent_offline_is_kept_for_it_and_not_woken() {
    let server = TestServer::open().await;
    let wake = Receiver::open().await;
    let heron = server.enrol_with("acme", "heron", Some(format!("{}/up", wake.base))).await;
    let program = server.program("acme").await;
    let response = wakes(&program, json!({ "agent_id": "heron@kitchen", "context": "up!" })).await;
    assert_eq!(response["woken"], false);
    assert!(response["warnings"][0].as_str().unwrap().contains("not connected"), "{response}");
    // Its wake URL is called, and it finds everything when it comes.
    eventually("its wake URL is called", async || !wake.seen().is_empty()).await;
    let seated = heron.sits().await;
    assert!(seated.hears().await.event.text.ends_with("up!"));
    let receipt =
        program.receipt_when(&response["dispatch_id"], |receipt| receipt["state"] == "acknowledged").await;
    // The answer that the caller got does not change.
    assert_eq!(receipt["receipt"]["woken"], false);
}

#[tokio::test]
async fn unknown_agent_id_throws_delivery_failed_by_client_validation() {
    let server = TestServer::open().await;
    server.enrol("other", "heron").await;
    let program = server.program("acme").await;
    for address in ["nobody@kitchen", "heron", "heron@kitchen"] {
        let (status, response) = program.posts("/v1/wake", json!({ "agent_id": address })).await;
        assert_eq!(
            (status.as_u16(), &response["code"]),
            (404, &json!("delivery_failed")),
            "{address}: {response}"
        );
        assert_eq!(response["cause_kind"], "client_validation");
    }
}

#[tokio::test]
async fn network_fault_throws_and_is_on_record() {
    let server = TestServer::open().await;
    let settings = json!({
        "agents": { "desk": { "url": "http://127.0.0.1:9/in", "wake_url": "http://127.0.0.1:9/wake" } },
    });
    server.wires("acme", "hook", "webhook", settings).await;
    let program = server.program("acme").await;
    let body = json!({ "agent_id": "desk@pane", "context": "x" });
    let (status, response) = program.posts_with("/v1/wake", &[("idempotency-key", "w-1")], body).await;
    assert_eq!((status.as_u16(), &response["cause_kind"]), (502, &json!("network")), "{response}");
    let (_, response) = program.gets("/v1/receipts/w-1").await;
    assert_eq!(response["items"][0]["state"], "failed");
}

#[tokio::test]
async fn an_agent_that_is_connected_and_does_not_take_it_is_not_woken() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await.sits_frozen().await;
    let program = server.program("acme").await;
    let response =
        wakes(&program, json!({ "agent_id": "heron@kitchen", "context": "1", "wait": 0.05 })).await;
    assert_eq!(response["woken"], false);
    assert!(response["warnings"].to_string().contains("did not accept it"), "{response}");
    let response =
        wakes(&program, json!({ "agent_id": "heron@kitchen", "context": "2", "wait": 0.05 })).await;
    assert!(response["warnings"].to_string().contains("queued behind 1"), "{response}");
    heron.thaws();
    heron.hears().await;
    assert!(heron.hears().await.event.text.ends_with('2'));
    program.receipt_when(&response["dispatch_id"], |receipt| receipt["state"] == "acknowledged").await;
}

#[tokio::test]
async fn an_agent_that_is_away_is_woken_if_it_comes_while_the_caller_waits() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await;
    let program = server.program("acme").await;
    let waiting = tokio::spawn(async move {
        wakes(&program, json!({ "agent_id": "heron", "context": "come", "wait": 60 })).await
    });
    // It is in the inbox before anybody comes.
    let inbox = server.ledger.inbox();
    eventually("it is kept", async || inbox.size(&heron.instance).await.unwrap().entries > 0).await;
    let seated = heron.sits().await;
    seated.hears().await;
    assert_eq!(waiting.await.unwrap()["woken"], true);
}

#[tokio::test]
async fn a_session_named_apart_beats_the_one_in_the_address() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let program = server.program("acme").await;
    let body = json!({ "agent_id": "heron@kitchen", "session_id": "attic", "context": "x" });
    assert_eq!(wakes(&program, body).await["session_id"], "attic");
    assert_eq!(chat(&heron.hears().await), "post-attic");
}

#[tokio::test]
async fn a_notify_to_a_session_is_a_wake_with_the_message_as_its_context() {
    let server = TestServer::patient().await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let program = server.program("acme").await;
    let response = program.notifies("heron@kitchen", "tea").await;
    assert_eq!(
        (&response["dispatched"][0]["route"], &response["dispatched"][0]["receipt"]["woken"]),
        (&json!("wake"), &json!(true))
    );
    assert!(heron.hears().await.event.text.ends_with("tea"));
}

#[tokio::test]
async fn a_wake_for_later_is_kept_and_made_at_its_time() {
    let server = TestServer::wound().await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let program = server.program("acme").await;
    let at = server.time.now() + Duration::from_secs(20);
    let body = json!({ "agent_id": "heron@kitchen", "context": "later", "when": at.millis() });
    let response = wakes(&program, body).await;
    assert_eq!(response["woken"], false);
    assert!(response["warnings"][0].as_str().unwrap().contains(&at.to_string()), "{response}");
    let (_, kept) =
        program.gets(&format!("/v1/receipts/{}", response["dispatch_id"].as_str().unwrap())).await;
    assert_eq!(kept["items"][0]["state"], "scheduled");
    heron.hears_nothing_more().await;
    server.time.wind(Duration::from_secs(21));
    assert!(heron.hears().await.event.text.ends_with("later"));
    let receipt = program
        .receipt_when(&response["dispatch_id"], |receipt| {
            receipt["state"] == "acknowledged" && receipt["receipt"]["woken"] == true
        })
        .await;
    assert_eq!(receipt["session_id"], "kitchen");
}

#[tokio::test]
async fn a_time_that_has_passed_is_now_and_one_too_far_ahead_is_refused() {
    let server = TestServer::patient().await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let program = server.program("acme").await;
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
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let program = server.program("acme").await;
    let before = server.time.now().millis();
    let response = wakes(&program, json!({ "agent_id": "heron", "context": "x" })).await;
    heron.hears().await;
    let at = response["woken_at"].as_i64().unwrap();
    assert!((before..=server.time.now().millis()).contains(&at), "{response}");
}

#[tokio::test]
async fn woken_is_there_always_and_says_what_happened() {
    let server = TestServer::patient().await;
    let heron = server.enrol("acme", "heron").await;
    let program = server.program("acme").await;
    assert_eq!(wakes(&program, json!({ "agent_id": "heron", "context": "1" })).await["woken"], false);
    let seated = heron.sits().await;
    seated.hears().await;
    assert_eq!(wakes(&program, json!({ "agent_id": "heron", "context": "2" })).await["woken"], true);
}

#[tokio::test]
async fn session_id_of_a_wake_is_the_session_that_got_it() {
    let server = TestServer::open().await;
    server.enrol("acme", "heron").await;
    let program = server.program("acme").await;
    let response = wakes(&program, json!({ "agent_id": "heron@night shift", "context": "x" })).await;
    assert_eq!(response["session_id"], "night-shift");
}

#[tokio::test]
async fn warnings_of_a_wake_say_why_it_did_not_come_to_more() {
    let server = TestServer::open().await;
    server.enrol("acme", "heron").await;
    let program = server.program("acme").await;
    let response = wakes(&program, json!({ "agent_id": "heron", "context": "x" })).await;
    assert!(response["warnings"][0].as_str().unwrap().contains("no wake URL"), "{response}");
}

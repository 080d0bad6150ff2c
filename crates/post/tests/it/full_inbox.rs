//! Tests of full inboxes: refusals, and deliveries that wait.

use std::time::Duration;

use ledger::Seq;
use serde_json::{Value, json};

use crate::test_server::{Enrolled, Program, TestServer, eventually};

/// An agent whose inbox is full: this credential holds three of its four entries, another one the fourth.
async fn full() -> (TestServer, Enrolled, Program) {
    let server = TestServer::with_small_inboxes(4).await;
    let (heron, otter) = (server.enrol("acme", "heron").await, server.enrol("acme", "otter").await);
    let program = server.program("acme").await;
    for number in 0..3 {
        program.notifies("heron", &format!("accepted {number}")).await;
    }
    (server, heron, otter.program().await)
}

async fn refused(program: &Program, path: &str, body: Value) -> String {
    let (status, problem) = program.posts(path, body).await;
    assert_eq!(status, 429, "{problem}");
    assert_eq!(problem["code"], "inbox_full");
    problem["detail"].as_str().unwrap().to_owned()
}

async fn unread(server: &TestServer, of: &Enrolled) -> usize {
    server.ledger.inbox().unread(&of.instance, Seq(0), 100).await.unwrap().len()
}

#[tokio::test]
async fn a_program_hears_429_with_the_reason_when_the_inbox_is_full() {
    let (server, heron, otter) = full().await;
    let program = server.program("acme").await;
    let body = json!({ "agent": "heron", "message": "too much" });
    let why = refused(&program, "/v1/notify", body.clone()).await;
    assert!(why.contains("this credential"), "{why}");
    // Another credential still gets through; then the inbox itself is full.
    otter.notifies("heron", "fourth").await;
    let why = refused(&otter, "/v1/notify", body).await;
    assert!(why.contains("inbox is full"), "{why}");
    refused(&otter, "/v1/wake", json!({ "agent_id": "heron", "context": "too much" })).await;
    let meta = json!({ "sent_at": 1, "dispatch_id": "d-1",
        "origin": { "skill_name": "otter", "trigger_kind": "cli" } });
    let envelope = json!({ "agent_id": "heron", "kind": "augment", "content": "too much", "meta": meta });
    let (status, problem) = otter.posts("/v1/deliver", envelope).await;
    assert_eq!((status.as_u16(), &problem["code"]), (429, &json!("inbox_full")), "{problem}");
    assert_eq!(unread(&server, &heron).await, 4, "all that was accepted is still there");
}

#[tokio::test]
async fn a_question_that_found_no_room_may_be_asked_again_under_the_same_id() {
    let (server, heron, otter) = full().await;
    otter.notifies("heron", "fourth").await;
    let question = json!({ "agent": "heron", "message": "well?", "correlation_id": "q-1", "wait": 0 });
    for _ in 0..2 {
        refused(&otter, "/v1/exchange", question.clone()).await;
    }
    let seated = heron.sits().await;
    for _ in 0..4 {
        seated.hears().await;
    }
    eventually("the inbox is empty", async || unread(&server, &heron).await == 0).await;
    let (status, asked) = otter.posts("/v1/exchange", question).await;
    assert_eq!(status, 202, "{asked}");
    assert_eq!(seated.hears().await.event.text.lines().last(), Some("well?"));
}

/// Waits until the only alarm of the clock was postponed, and returns for how long.
async fn pause_before_retry(server: &TestServer) -> Duration {
    let mut pause_us = 0;
    eventually("it was postponed", async || {
        let first = ledger::Due { next_us: i64::MIN, key: ledger::ArmKey(i64::MIN) };
        let due = server.ledger.arms().due(first, i64::MAX, 10).await.unwrap();
        pause_us = due.first().map_or(0, |due| due.next_us - server.time.now().millis() * 1000);
        pause_us > 0
    })
    .await;
    Duration::from_micros(pause_us.unsigned_abs())
}

#[tokio::test]
async fn a_scheduled_wake_that_falls_due_into_a_full_inbox_stays_scheduled_and_is_retried() {
    let (server, heron, otter) = full().await;
    let at = server.time.now() + Duration::from_secs(60);
    let wake = json!({ "agent_id": "heron", "context": "later", "when": at.millis() });
    let (status, response) = otter.posts("/v1/wake", wake).await;
    assert_eq!(status, 200, "{response}");
    otter.notifies("heron", "fourth").await;
    server.time.wind(Duration::from_secs(61));
    let mut pauses = Vec::new();
    for rings in 1..=6 {
        eventually("it was tried", async || server.failed_rings() >= rings).await;
        pauses.push(pause_before_retry(&server).await.as_secs());
        if rings < 6 {
            // The clock waits a moment longer, for agents whose clocks are behind.
            server.time.wind(pause_before_retry(&server).await + Duration::from_millis(101));
        }
    }
    assert!(pauses[1] < 5 && pauses[5] > 10, "it is tried again ever less often: {pauses:?}");
    // The wake was due and was postponed, and its due time is still the requested one.
    let put_off = |receipt: &Value| receipt["state"] == "scheduled" && receipt["due_at"] == at.millis();
    otter.receipt_when(&response["dispatch_id"], put_off).await;
    assert_eq!(unread(&server, &heron).await, 4);
    let seated = heron.sits().await;
    for _ in 0..4 {
        seated.hears().await;
    }
    eventually("the inbox is empty", async || unread(&server, &heron).await == 0).await;
    server.time.wind(Duration::from_secs(60));
    assert_eq!(seated.hears().await.event.text.lines().last(), Some("later"));
    otter.receipt_when(&response["dispatch_id"], |receipt| receipt["state"] == "acknowledged").await;
}

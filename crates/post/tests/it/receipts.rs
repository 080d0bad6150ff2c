//! Receipts: one test for each field and each state of the contract's tables (section 1.3), and who may see
//! them.

use std::time::Duration;

use ledger::ReceiptFilter;
use serde_json::{Value, json};

use crate::receiver::Receiver;
use crate::test_server::{Program, TestServer, eventually};

async fn receipt_of(program: &Program, dispatch: &Value) -> Value {
    let (status, response) = program.gets(&format!("/v1/receipts/{}", dispatch.as_str().unwrap())).await;
    assert_eq!(status, 200, "{response}");
    response["items"][0].clone()
}

async fn with_webhook(receiver: &Receiver) -> (TestServer, Program) {
    let server = TestServer::open().await;
    let settings = json!({ "agents": { "desk": { "url": format!("{}/in", receiver.base) } } });
    server.wires("acme", "hook", "webhook", settings).await;
    let program = server.program("acme").await;
    (server, program)
}

#[tokio::test]
async fn delivered_at_is_when_the_substrate_acknowledged() {
    let receiver = Receiver::open().await;
    let (_server, program) = with_webhook(&receiver).await;
    receiver.says(200, r#"{"delivered_at":1767225600009}"#);
    let sent = program.notifies("desk", "x").await;
    assert_eq!(sent["dispatched"][0]["receipt"]["delivered_at"], 1_767_225_600_009_i64);
}

#[tokio::test]
async fn delivery_id_is_the_substrates_own_id() {
    let receiver = Receiver::open().await;
    let (server, program) = with_webhook(&receiver).await;
    receiver.says(200, r#"{"id":"d-9"}"#);
    assert_eq!(program.notifies("desk", "x").await["dispatched"][0]["receipt"]["delivery_id"], "d-9");
    server.enrol("acme", "heron").await;
    let sent = program.notifies("heron", "x").await;
    let entry = sent["dispatched"][0]["receipt"]["delivery_id"].as_str().unwrap();
    assert!(server.ledger.traces().entry(&entry.into()).await.unwrap().is_some());
}

#[tokio::test]
async fn session_id_is_the_session_that_got_it() {
    let server = TestServer::open().await;
    server.enrol("acme", "heron").await;
    let program = server.program("acme").await;
    let body = json!({ "agent": "heron", "message": "x", "from": "night watch" });
    let (_, sent) = program.posts("/v1/notify", body).await;
    assert_eq!(sent["dispatched"][0]["receipt"]["session_id"], "night-watch");
}

#[tokio::test]
async fn delivery_skipped_says_accepted_but_not_pushed() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await;
    let program = server.program("acme").await;
    let away = program.notifies("heron", "1").await;
    assert_eq!(away["dispatched"][0]["receipt"]["delivery_skipped"], true);
    let seated = heron.sits().await;
    seated.hears().await;
    let there = program.notifies("heron", "2").await;
    assert!(there["dispatched"][0]["receipt"].get("delivery_skipped").is_none(), "{there}");
}

#[tokio::test]
async fn warnings_are_advice_about_a_delivery_that_succeeded() {
    let receiver = Receiver::open().await;
    let (server, program) = with_webhook(&receiver).await;
    receiver.says(200, r#"{"warnings":["slow lane"]}"#);
    let sent = program.notifies("desk", "x").await;
    assert_eq!(sent["dispatched"][0]["receipt"]["warnings"], json!(["slow lane"]));
    // PathKind the contract's own verb there is one receipt, and it names those who failed.
    receiver.says(400, "");
    let other = json!({ "agents": { "desk": { "url": format!("{}/other", Receiver::open().await.base) } } });
    server.wires("acme", "second", "webhook", other).await;
    let meta = json!({ "dispatch_id": "d", "sent_at": 1, "origin": { "skill_name": "s", "trigger_kind": "inline" } });
    let body = json!({ "agent_id": "desk", "kind": "augment", "content": "y", "meta": meta });
    let (status, receipt) = program.posts("/v1/deliver", body).await;
    assert_eq!(status, 200, "{receipt}");
    assert!(receipt["warnings"][0].as_str().unwrap().starts_with("hook: HTTP 400"), "{receipt}");
}

#[tokio::test]
async fn state_scheduled_until_its_time() {
    let server = TestServer::open().await;
    server.enrol("acme", "heron").await;
    let program = server.program("acme").await;
    let at = server.time.now() + Duration::from_secs(600);
    let (_, sent) = program.posts("/v1/wake", json!({ "agent_id": "heron", "when": at.millis() })).await;
    let receipt = receipt_of(&program, &sent["dispatch_id"]).await;
    assert_eq!((&receipt["state"], &receipt["due_at"]), (&json!("scheduled"), &json!(at.millis())));
}

#[tokio::test]
async fn state_queued_while_nobody_has_taken_it() {
    let server = TestServer::open().await;
    server.enrol("acme", "heron").await;
    let program = server.program("acme").await;
    let sent = program.notifies("heron", "x").await;
    let receipt = receipt_of(&program, &sent["dispatch_id"]).await;
    assert_eq!(receipt["state"], "queued");
    assert!(receipt.get("delivered_at").is_none() && receipt.get("acknowledged_at").is_none(), "{receipt}");
}

#[tokio::test]
async fn state_delivered_by_the_receivers_2xx() {
    let receiver = Receiver::open().await;
    let (_server, program) = with_webhook(&receiver).await;
    let sent = program.notifies("desk", "x").await;
    let receipt = receipt_of(&program, &sent["dispatch_id"]).await;
    assert_eq!(receipt["state"], "delivered");
    assert!(receipt["delivered_at"].is_i64() && receipt.get("acknowledged_at").is_none(), "{receipt}");
}

#[tokio::test]
async fn state_acknowledged_by_the_agents_own_word() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let program = server.program("acme").await;
    let sent = program.notifies("heron", "x").await;
    heron.hears().await;
    let receipt =
        program.receipt_when(&sent["dispatch_id"], |receipt| receipt["state"] == "acknowledged").await;
    assert!(receipt["acknowledged_at"].is_i64());
}

#[tokio::test]
async fn state_failed_after_the_last_attempt_with_the_same_bytes_each_time() {
    let receiver = Receiver::open().await;
    let (_server, program) = with_webhook(&receiver).await;
    receiver.says(503, "");
    let sent = program.notifies("desk", "x").await;
    assert_eq!(sent["dispatched"][0]["receipt"]["warnings"], json!(["queued for retry"]));
    let receipt = program.receipt_when(&sent["dispatch_id"], |receipt| receipt["state"] == "failed").await;
    assert_eq!(receipt["error_kind"], "http_status");
    let seen = receiver.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|request| request.body == seen[0].body));
    // Another 4xx is final at once.
    receiver.says(404, "");
    let sent = program.notifies("desk", "y").await;
    assert_eq!(
        (&sent["dispatched"][0]["ok"], &sent["dispatched"][0]["error_kind"]),
        (&json!(false), &json!("http_status"))
    );
    assert_eq!(receiver.seen().len(), 1);
}

#[tokio::test]
async fn state_expired_when_nobody_came_for_it() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await;
    let program = server.program("acme").await;
    let sent = program.notifies("heron", "x").await;
    let unread = server.ledger.inbox().unread(&heron.instance, ledger::Seq(0), 1).await.unwrap();
    server.ledger.inbox().recall(&heron.instance, &unread[0].id).await.unwrap();
    assert_eq!(receipt_of(&program, &sent["dispatch_id"]).await["state"], "expired");
}

#[tokio::test]
async fn a_retry_that_succeeds_completes_the_receipt() {
    let receiver = Receiver::open().await;
    let (_server, program) = with_webhook(&receiver).await;
    receiver.says(500, "");
    let sent = program.notifies("desk", "x").await;
    receiver.says(200, r#"{"delivery_id":"d-2"}"#);
    let receipt = program.receipt_when(&sent["dispatch_id"], |receipt| receipt["state"] == "delivered").await;
    assert_eq!(receipt["receipt"]["delivery_id"], "d-2");
}

#[tokio::test]
async fn an_attempt_that_takes_long_is_not_made_a_second_time_beside_itself() {
    let server = TestServer::wound().await;
    let receiver = Receiver::open().await;
    receiver.stalls();
    let agents = json!({ "desk": { "url": format!("{}/in", receiver.base) } });
    server.wires("acme", "hook", "webhook", json!({ "agents": agents, "timeout_ms": 600_000 })).await;
    let program = server.program("acme").await;
    let sending = tokio::spawn(async move { program.notifies("desk", "x").await });
    eventually("the attempt is made", async || !receiver.seen().is_empty()).await;
    // Far past the time after which an attempt that nobody reports would be made again. Whoever holds it has
    // said so before the next step would reach that time.
    let (receipts, step) = (server.ledger.receipts(), Duration::from_secs(10));
    for _ in 0..60 {
        server.time.wind(step);
        eventually("it is held further", async || {
            let held = receipts.receipts(ReceiptFilter::default(), None, 1).await.unwrap();
            held[0].due.is_some_and(|due| due > server.time.now() + step)
        })
        .await;
    }
    assert!(receiver.seen().is_empty());
    sending.abort();
}

#[tokio::test]
async fn a_receipt_is_its_senders_and_its_tenants_and_to_others_it_does_not_exist() {
    let server = TestServer::open().await;
    server.enrol("acme", "heron").await;
    let (wren, kite) = (server.enrol("acme", "wren").await, server.enrol("acme", "kite").await);
    let (wren, kite) = (wren.program().await, kite.program().await);
    let (acme, other) = (server.program("acme").await, server.program("other").await);
    let sent = wren.notifies("heron", "x").await;
    let path = format!("/v1/receipts/{}", sent["dispatch_id"].as_str().unwrap());
    for (who, sees) in [(&wren, true), (&acme, true), (&kite, false), (&other, false)] {
        let (status, response) = who.gets(&path).await;
        assert_eq!(status == 200, sees, "{response}");
        let (_, listed) = who.gets("/v1/receipts").await;
        assert_eq!(listed["items"].as_array().unwrap().len(), usize::from(sees));
    }
}

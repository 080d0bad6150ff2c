//! The route for external schedulers: contract sections 1.2 and 2.4.

use posthouse_wire::Secret;
use posthouse_wire::cron::{SIGNATURE, TimedSignature};
use serde_json::{Value, json};

use crate::callback_server::ScriptedAnswer;
use crate::fixtures::{Agent, TestServer, seconds};

async fn relayed(server: &TestServer, secret: &Secret, at: i64, body: &Value) -> (u16, Value) {
    let bytes = body.to_string().into_bytes();
    let stamp = TimedSignature::make(secret, at, &bytes).header();
    let (status, answer) = server.post("/api/agent-cron/relay", &[(SIGNATURE, &stamp)], bytes).await;
    (status.as_u16(), answer)
}

fn call(heron: &Agent, job: &str, schedule: &str, nonce: u32) -> Value {
    json!({ "instance_id": heron.instance, "job_id": job, "schedule_id": schedule, "fire_at": "whenever", "n": nonce })
}

#[tokio::test]
async fn without_a_secret_nobody_is_believed() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    let schedule = heron.arm("job", &server.at(seconds(100))).await;
    let body = call(&heron, "job", &schedule, 1);
    let now = server.time.now().seconds();
    assert_eq!(relayed(&server, &Secret::new("guess"), now, &body).await.0, 401);
    assert_eq!(server.post("/api/agent-cron/relay", &[], b"{}".to_vec()).await.0, 401);
}

#[tokio::test]
async fn a_signed_call_fires_what_our_row_says_once_and_a_replay_is_refused() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    let secret = server.signer.rotate_scheduler_secret().await.unwrap();
    // The agent refuses the server's own attempt, so the arm is pending and due when the external scheduler calls.
    server.callback.answers([ScriptedAnswer::Status(500, "")]);
    let schedule = heron.arm("job", &server.at(seconds(0))).await;
    server.advance_until(|| !server.callback.fires().is_empty()).await;
    heron.history_begins_with(&["attempt"]).await;
    let body = call(&heron, "job", &schedule, 1);
    let now = server.time.now().seconds();
    assert_eq!(relayed(&server, &secret, now, &body).await, (200, json!({ "status": "delivered" })));
    assert_eq!(server.callback.fires()[1].body["fire_at"], server.at(seconds(0)).text());
    assert_eq!(relayed(&server, &secret, now, &body).await.0, 401);
    let again = call(&heron, "job", &schedule, 2);
    assert_eq!(relayed(&server, &secret, now, &again).await, (200, json!({ "status": "delivered" })));
    assert_eq!(server.callback.fires().len(), 2);
}

#[tokio::test]
async fn a_stamp_outside_its_window_or_over_other_bytes_is_refused() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    let secret = server.signer.rotate_scheduler_secret().await.unwrap();
    let schedule = heron.arm("job", &server.at(seconds(1000))).await;
    let body = call(&heron, "job", &schedule, 1);
    let now = server.time.now().seconds();
    for at in [now - 301, now + 301] {
        assert_eq!(relayed(&server, &secret, at, &body).await.0, 401);
    }
    let stamp = TimedSignature::make(&secret, now, b"{}").header();
    let forged =
        server.post("/api/agent-cron/relay", &[(SIGNATURE, &stamp)], body.to_string().into_bytes()).await;
    assert_eq!(forged.0, 401);
    // The arm is not due yet: an external call does not make it fire early.
    let (status, answer) = relayed(&server, &secret, now, &body).await;
    assert_eq!((status, answer["error"].as_str()), (409, Some("not_due")));
    assert!(server.callback.fires().is_empty());
}

#[tokio::test]
async fn a_rotated_secret_overlaps_and_an_ended_arm_is_told_as_it_ended() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    let old = server.signer.rotate_scheduler_secret().await.unwrap();
    let new = server.signer.rotate_scheduler_secret().await.unwrap();
    let first = heron.arm("job", &server.at(seconds(1000))).await;
    let second = heron.arm("job", &server.at(seconds(2000))).await;
    heron.cancel("job").await;
    let now = server.time.now().seconds();
    let status = async |secret, schedule: &str, n| {
        relayed(&server, secret, now, &call(&heron, "job", schedule, n)).await
    };
    assert_eq!(status(&old, &first, 1).await, (200, json!({ "status": "superseded" })));
    assert_eq!(status(&new, &second, 2).await, (200, json!({ "status": "cancelled" })));
    assert_eq!(status(&new, "sch_unknown", 3).await, (200, json!({ "status": "gone" })));
}

#[tokio::test]
async fn an_agent_that_does_not_answer_well_is_reported_as_502() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    let secret = server.signer.rotate_scheduler_secret().await.unwrap();
    server.callback.answers([ScriptedAnswer::Status(500, ""), ScriptedAnswer::Status(404, "<html>")]);
    let schedule = heron.arm("job", &server.at(seconds(0))).await;
    server.advance_until(|| !server.callback.fires().is_empty()).await;
    heron.history_begins_with(&["attempt"]).await;
    let now = server.time.now().seconds();
    let heard = relayed(&server, &secret, now, &call(&heron, "job", &schedule, 1)).await;
    assert_eq!(heard, (502, json!({ "error": "agent_status", "status": 404 })));
}

//! The route for external schedulers: contract sections 1.2 and 2.4.

use posthouse_wire::Secret;
use posthouse_wire::cron::{SIGNATURE, Stamp};
use serde_json::{Value, json};

use crate::agent::Answer;
use crate::town::{Agent, Town, seconds};

async fn relayed(town: &Town, secret: &Secret, at: i64, body: &Value) -> (u16, Value) {
    let bytes = body.to_string().into_bytes();
    let stamp = Stamp::make(secret, at, &bytes).header();
    let (status, answer) = town.post("/api/agent-cron/relay", &[(SIGNATURE, &stamp)], bytes).await;
    (status.as_u16(), answer)
}

fn call(heron: &Agent, job: &str, schedule: &str, nonce: u32) -> Value {
    json!({ "instance_id": heron.instance, "job_id": job, "schedule_id": schedule, "fire_at": "whenever", "n": nonce })
}

#[tokio::test]
async fn without_a_secret_nobody_is_believed() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    let schedule = heron.arms("job", &town.at(seconds(100))).await;
    let body = call(&heron, "job", &schedule, 1);
    let now = town.time.now().seconds();
    assert_eq!(relayed(&town, &Secret::new("guess"), now, &body).await.0, 401);
    assert_eq!(town.post("/api/agent-cron/relay", &[], b"{}".to_vec()).await.0, 401);
}

#[tokio::test]
async fn a_signed_call_fires_what_our_row_says_once_and_a_replay_is_refused() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    let secret = town.signer.rotate_scheduler_secret().await.unwrap();
    // The agent refuses the server's own attempt, so the arm is pending and due when the external scheduler calls.
    town.callback.answers([Answer::Status(500, "")]);
    let schedule = heron.arms("job", &town.at(seconds(0))).await;
    town.winds_until(|| !town.callback.fires().is_empty()).await;
    heron.history_begins(&["attempt"]).await;
    let body = call(&heron, "job", &schedule, 1);
    let now = town.time.now().seconds();
    assert_eq!(relayed(&town, &secret, now, &body).await, (200, json!({ "status": "delivered" })));
    assert_eq!(town.callback.fires()[1].body["fire_at"], town.at(seconds(0)).text());
    assert_eq!(relayed(&town, &secret, now, &body).await.0, 401);
    let again = call(&heron, "job", &schedule, 2);
    assert_eq!(relayed(&town, &secret, now, &again).await, (200, json!({ "status": "delivered" })));
    assert_eq!(town.callback.fires().len(), 2);
}

#[tokio::test]
async fn a_stamp_outside_its_window_or_over_other_bytes_is_refused() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    let secret = town.signer.rotate_scheduler_secret().await.unwrap();
    let schedule = heron.arms("job", &town.at(seconds(1000))).await;
    let body = call(&heron, "job", &schedule, 1);
    let now = town.time.now().seconds();
    for at in [now - 301, now + 301] {
        assert_eq!(relayed(&town, &secret, at, &body).await.0, 401);
    }
    let stamp = Stamp::make(&secret, now, b"{}").header();
    let forged =
        town.post("/api/agent-cron/relay", &[(SIGNATURE, &stamp)], body.to_string().into_bytes()).await;
    assert_eq!(forged.0, 401);
    // The arm is not due yet: an external call does not make it fire early.
    let (status, answer) = relayed(&town, &secret, now, &body).await;
    assert_eq!((status, answer["error"].as_str()), (409, Some("not_due")));
    assert!(town.callback.fires().is_empty());
}

#[tokio::test]
async fn a_rotated_secret_overlaps_and_an_ended_arm_is_told_as_it_ended() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    let old = town.signer.rotate_scheduler_secret().await.unwrap();
    let new = town.signer.rotate_scheduler_secret().await.unwrap();
    let first = heron.arms("job", &town.at(seconds(1000))).await;
    let second = heron.arms("job", &town.at(seconds(2000))).await;
    heron.cancels("job").await;
    let now = town.time.now().seconds();
    let status = async |secret, schedule: &str, n| {
        relayed(&town, secret, now, &call(&heron, "job", schedule, n)).await
    };
    assert_eq!(status(&old, &first, 1).await, (200, json!({ "status": "superseded" })));
    assert_eq!(status(&new, &second, 2).await, (200, json!({ "status": "cancelled" })));
    assert_eq!(status(&new, "sch_unknown", 3).await, (200, json!({ "status": "gone" })));
}

#[tokio::test]
async fn an_agent_that_does_not_answer_well_is_reported_as_502() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    let secret = town.signer.rotate_scheduler_secret().await.unwrap();
    town.callback.answers([Answer::Status(500, ""), Answer::Status(404, "<html>")]);
    let schedule = heron.arms("job", &town.at(seconds(0))).await;
    town.winds_until(|| !town.callback.fires().is_empty()).await;
    heron.history_begins(&["attempt"]).await;
    let now = town.time.now().seconds();
    let heard = relayed(&town, &secret, now, &call(&heron, "job", &schedule, 1)).await;
    assert_eq!(heard, (502, json!({ "error": "agent_status", "status": 404 })));
}

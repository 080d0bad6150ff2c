//! Messages that waited too long: marked as late or expired, as their route says.

use std::time::Duration;

use ledger::{StaleAction, StalePolicy};
use serde_json::json;

use crate::test_server::{Agent, TestServer, seconds};

const HOURS: u64 = 3600;

async fn with_policy(server: &TestServer, action: StaleAction) -> Agent {
    let heron = server.heron().await;
    let policy = StalePolicy { after: seconds(2 * HOURS), action };
    server.identity.stale_policies.set_for_agent(&heron.instance, Some(policy)).await.unwrap();
    heron
}

async fn steps(server: &TestServer, entry: &posthouse_wire::EntryId) -> Vec<&'static str> {
    let story = server.ledger.traces().entry(entry).await.unwrap().unwrap();
    story.steps.iter().map(|step| step.what).collect()
}

#[tokio::test]
async fn a_late_message_says_so_in_its_context_and_a_fresh_one_does_not() {
    let server = TestServer::open().await;
    let heron = with_policy(&server, StaleAction::Mark).await;
    let late = heron.hears_from("late").await;
    server.winds(seconds(2 * HOURS + 14 * 60));
    heron.hears_from("fresh").await;
    let mut gateway = heron.sits_settled().await;
    let frame = gateway.hears().await;
    assert_eq!(frame["event"]["text"], "late");
    let line = &frame["event"]["context"][0];
    assert_eq!(line["source"], json!({ "user_name": "Posthouse" }));
    let text = line["text"].as_str().unwrap();
    assert!(text.starts_with("This message is late: it was written 2 h 14 min"), "{text}");
    gateway.acknowledges(frame["bufferId"].as_str().unwrap()).await;
    let frame = gateway.hears().await;
    assert_eq!((&frame["event"]["text"], &frame["event"]["context"]), (&json!("fresh"), &json!(null)));
    gateway.acknowledges(frame["bufferId"].as_str().unwrap()).await;
    heron.has_unread(0).await;
    server.ledger_is_quiet().await;
    assert!(steps(&server, &late).await.contains(&"marked as late"));
}

#[tokio::test]
async fn an_expired_message_is_not_handed_over_and_ends_when_the_agent_is_connected_or_not() {
    let server = TestServer::open().await;
    let heron = with_policy(&server, StaleAction::Expire).await;
    let away = heron.hears_from("expires while it is away").await;
    server.winds(seconds(2 * HOURS));
    let ended = server.relay.expirations().expire_due().await.unwrap();
    assert_eq!(ended.iter().map(|expired| &expired.entry).collect::<Vec<_>>(), [&away]);
    assert_eq!(steps(&server, &away).await, ["accepted", "durable", "expired"]);

    let skipped = heron.hears_from("due when the agent comes back").await;
    server.winds(seconds(2 * HOURS));
    let mut gateway = heron.sits_settled().await;
    heron.hears_from("marker").await;
    gateway.takes("marker").await;
    let ended = server.relay.expirations().expire_due().await.unwrap();
    assert_eq!(ended.iter().map(|expired| &expired.entry).collect::<Vec<_>>(), [&skipped]);
    heron.has_unread(0).await;
}

#[tokio::test]
async fn a_message_that_the_agent_has_got_does_not_expire_while_it_is_connected() {
    let server = TestServer::open().await;
    let heron = with_policy(&server, StaleAction::Expire).await;
    let policy = StalePolicy { after: Duration::from_secs(5), action: StaleAction::Expire };
    server.identity.stale_policies.set_for_agent(&heron.instance, Some(policy)).await.unwrap();
    let mut gateway = heron.sits_settled().await;
    heron.hears_from("being worked on").await;
    let (_, entry) = gateway.hears_inbound().await;
    server.winds(seconds(6));
    assert!(server.relay.expirations().expire_due().await.unwrap().is_empty());
    gateway.acknowledges(&entry).await;
    heron.has_unread(0).await;
}

#[tokio::test]
async fn a_step_of_the_wall_clock_neither_marks_nor_expires_a_message() {
    let server = TestServer::open().await;
    let heron = with_policy(&server, StaleAction::Expire).await;
    heron.hears_from("in time").await;
    server.clock.set(server.clock.now() + seconds(300 * 24 * HOURS));
    assert!(server.relay.expirations().expire_due().await.unwrap().is_empty());
    let mut gateway = heron.sits_settled().await;
    gateway.takes("in time").await;
    heron.has_unread(0).await;
}

//! Quotas of messages: programs that send too many, and those of another tenant.

use std::collections::BTreeMap;
use std::time::Duration;

use ledger::LimitName;
use serde_json::{Value, json};

use crate::test_server::{Program, TestServer};

async fn limit(server: &TestServer, tenant: &str, limit: LimitName, value: u32) {
    let tenant = server.tenant(tenant).await;
    let changes = BTreeMap::from([(limit, Some(value))]);
    assert!(server.identity.quotas.set_limits(&tenant, changes).await.unwrap());
}

async fn refused(program: &Program, path: &str, body: Value) {
    let (status, problem) = program.posts(path, body).await;
    assert_eq!((status.as_u16(), &problem["code"]), (429, &json!("over_quota")), "{problem}");
}

#[tokio::test]
async fn a_program_over_the_quota_hears_429_by_every_verb_and_another_tenant_gets_through() {
    let server = TestServer::wound().await;
    let heron = server.enrol("acme", "heron").await;
    server.enrol("acme", "otter").await;
    server.enrol("rival", "crow").await;
    let (program, other) = (server.program("acme").await, server.program("rival").await);
    limit(&server, "acme", LimitName::AgentMessages, 2).await;
    let (first, key) = (json!({ "agent": "heron", "message": "one" }), [("idempotency-key", "k-1")]);
    let (status, accepted) = program.posts_with("/v1/notify", &key, first.clone()).await;
    assert_eq!(status, 200, "{accepted}");
    program.notifies("heron", "two").await;
    refused(&program, "/v1/notify", json!({ "agent": "heron", "message": "three" })).await;
    refused(&program, "/v1/wake", json!({ "agent_id": "heron", "context": "three" })).await;
    let at = server.time.now() + Duration::from_secs(600);
    let scheduled = json!({ "agent_id": "heron", "context": "three", "when": at.millis() });
    refused(&program, "/v1/wake", scheduled).await;
    let question = json!({ "agent": "heron", "message": "three?", "correlation_id": "q-1", "wait": 0 });
    refused(&program, "/v1/exchange", question.clone()).await;
    // A repeat of what was accepted is answered from its receipt.
    let (status, repeated) = program.posts_with("/v1/notify", &key, first).await;
    assert_eq!((status.as_u16(), &repeated["dispatch_id"]), (200, &accepted["dispatch_id"]), "{repeated}");
    program.notifies("otter", "other agents of the tenant get theirs").await;
    other.notifies("crow", "other tenants get theirs").await;
    server.time.wind(Duration::from_secs(60));
    let (status, asked) = program.posts("/v1/exchange", question).await;
    assert_eq!(status, 202, "{asked}");
    assert_eq!(server.ledger.inbox().size(&heron.instance).await.unwrap().entries, 3);
    limit(&server, "acme", LimitName::Messages, 0).await;
    refused(&program, "/v1/notify", json!({ "agent": "otter", "message": "four" })).await;
    other.notifies("crow", "still theirs").await;
}

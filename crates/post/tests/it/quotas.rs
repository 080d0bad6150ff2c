//! Quotas of messages and requests: programs that send too many, and those of another tenant.

use std::collections::BTreeMap;
use std::time::Duration;

use ledger::LimitName;
use serde_json::{Value, json};

use crate::test_server::{Program, TestServer, answering, chat};

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

#[tokio::test]
async fn a_program_that_makes_too_many_requests_hears_429_by_every_verb_and_another_tenant_gets_through() {
    let server = TestServer::wound().await;
    server.enrol("acme", "heron").await;
    server.enrol("rival", "crow").await;
    let (program, other) = (server.program("acme").await, server.program("rival").await);
    limit(&server, "acme", LimitName::ProgramRequests, 2).await;
    program.notifies("heron", "one").await;
    assert_eq!(program.gets("/v1/receipts").await.0, 200);
    let (status, problem) = program.gets("/v1/receipts").await;
    assert_eq!((status.as_u16(), &problem["code"]), (429, &json!("over_quota")), "{problem}");
    let words = "the tenant may make 2 requests per minute: nothing was done; send it again after 30 s";
    assert_eq!(problem["detail"], words);
    for path in ["/v1/notify", "/v1/deliver", "/v1/wake", "/v1/exchange"] {
        refused(&program, path, json!({})).await;
    }
    for path in ["/v1/exchanges", "/v1/exchanges/q-1", "/v1/receipts/d-1", "/v1/agents", "/v1/agents/heron"] {
        assert_eq!(program.gets(path).await.0, 429, "{path}");
    }
    other.notifies("crow", "other tenants get theirs").await;
    server.time.wind(Duration::from_secs(30));
    program.notifies("heron", "two").await;
}

#[tokio::test]
async fn an_agent_that_makes_too_many_requests_leaves_its_tenants_programs_and_sockets_their_own() {
    let server = TestServer::wound().await;
    let (heron, otter) = (server.enrol("acme", "heron").await, server.enrol("acme", "otter").await);
    let (by_heron, by_otter) = (heron.program().await, otter.program().await);
    limit(&server, "acme", LimitName::AgentProgramRequests, 1).await;
    assert_eq!(by_heron.gets("/v1/agents").await.0, 200);
    let (status, problem) = by_heron.gets("/v1/agents").await;
    let words = "the agent may make 1 requests per minute: nothing was done; send it again after 60 s";
    assert_eq!((status.as_u16(), &problem["detail"]), (429, &json!(words)));
    assert_eq!(by_otter.gets("/v1/agents").await.0, 200);
    server.program("acme").await.notifies("heron", "from a program of the tenant").await;
    limit(&server, "acme", LimitName::ProgramRequests, 0).await;
    heron.sits().await.hears().await;
}

#[tokio::test]
async fn a_request_that_waits_for_its_answer_counts_once() {
    let server = TestServer::wound().await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let program = server.program("acme").await;
    limit(&server, "acme", LimitName::ProgramRequests, 3).await;
    let question = json!({ "agent": "heron", "message": "?", "correlation_id": "q-1", "wait": 0 });
    assert_eq!(program.posts("/v1/exchange", question).await.0, 202);
    let question = heron.hears().await;
    let (waited, _) = tokio::join!(program.gets("/v1/exchanges/q-1?wait=20"), async {
        heron.says(&chat(&question), "42", answering(&question)).await
    });
    assert_eq!((waited.0.as_u16(), &waited.1["content"]), (200, &json!("42")));
    assert_eq!(program.gets("/v1/exchanges/q-1").await.0, 200, "the third request");
    assert_eq!(program.gets("/v1/exchanges/q-1").await.0, 429);
}

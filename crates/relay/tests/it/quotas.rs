//! Quotas of agents and tenants: sockets, actions and requests. Whoever uses theirs up leaves others their own.

use std::collections::BTreeMap;

use axum::body::Body;
use http::header::{AUTHORIZATION, RETRY_AFTER};
use http::{Request, StatusCode};
use ledger::LimitName;
use posthouse_wire::TenantId;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::gateway::{End, Gateway};
use crate::test_server::{Agent, PATIENCE, TestServer, bot, seconds};

/// Two agents of one tenant, and one of another.
async fn three_agents() -> (TestServer, [Agent; 3]) {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let egret = server.enrol("acme", "egret", &[]).await;
    let crow = server.enrol("rival", "crow", &[bot("telegram", "7009")]).await;
    (server, [heron, egret, crow])
}

impl Agent {
    async fn tenant(&self) -> TenantId {
        self.server.identity.roster.records().instance(&self.instance).await.unwrap().unwrap().tenant
    }

    async fn limit(&self, limit: LimitName, value: u32) {
        let changes = BTreeMap::from([(limit, Some(value))]);
        assert!(self.server.identity.quotas.set_limits(&self.tenant().await, changes).await.unwrap());
    }

    /// Waits until its tenant has this many sockets.
    async fn has_sockets(&self, count: u32) {
        let tenant = self.tenant().await;
        let waiting = async {
            while self.server.identity.quotas.used(&tenant).await.sockets != count {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("the number of sockets did not change");
    }

    /// Status, `Retry-After` and body of a request.
    async fn asks_for_status(&self) -> (StatusCode, Option<String>, Value) {
        let request =
            Request::get("/manage/status").header(AUTHORIZATION, format!("Bearer {}", self.token()));
        let door = relay::routes(&self.server.relay, self.server.egress.clone());
        let (head, body) = door.oneshot(request.body(Body::empty()).unwrap()).await.unwrap().into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let retry_after = head.headers.get(RETRY_AFTER).map(|value| value.to_str().unwrap().to_owned());
        (head.status, retry_after, serde_json::from_slice(&body).unwrap())
    }
}

fn later() -> End {
    End::Closed(1013, "try again later".to_owned())
}

#[tokio::test]
async fn sockets_over_the_quota_are_closed_1013_and_another_tenant_connects() {
    let (_, [heron, egret, crow]) = three_agents().await;
    heron.limit(LimitName::AgentSockets, 2).await;
    let (mut live, second) = (heron.sits().await, heron.dials().await);
    assert_eq!(heron.dials().await.ends().await, later());
    let third = egret.dials().await;
    heron.limit(LimitName::Sockets, 3).await;
    assert_eq!(egret.dials().await.ends().await, later());
    let mut other = crow.sits_settled().await;
    crow.hears_from("for the other tenant").await;
    other.takes("for the other tenant").await;
    // The sockets that are open stay, and a closed one makes room.
    live.hears_nothing().await;
    third.dies();
    heron.has_sockets(2).await;
    second.dies();
    heron.has_sockets(1).await;
    heron.sits().await.hears_nothing().await;
}

async fn sends(gateway: &mut Gateway, request: &str) -> Value {
    gateway.sends(request, "c1", request).await;
    gateway.hears_result_among(request).await
}

fn is_rate_limit(result: &Value) -> bool {
    let error = result["error"].as_str().unwrap_or_default();
    let words = ["network", "timed out"];
    result["success"] == false
        && error.starts_with("rate limit: ")
        && !words.iter().any(|word| error.contains(word))
}

#[tokio::test]
async fn actions_over_the_quota_are_refused_without_a_record_and_another_tenant_acts() {
    let (server, [heron, _, crow]) = three_agents().await;
    for agent in [&heron, &crow] {
        server.says(&agent.bots[0], "c1", "hello").await;
    }
    let (mut gateway, mut other) = (heron.sits().await, crow.sits().await);
    heron.limit(LimitName::AgentActions, 3).await;
    for number in 0..3 {
        assert_eq!(sends(&mut gateway, &format!("r{number}")).await["success"], true);
    }
    for number in 3..50 {
        let request = format!("r{number}");
        let refused = sends(&mut gateway, &request).await;
        assert!(is_rate_limit(&refused), "{refused}");
        let begun = server.ledger.outbox().begun_before(&heron.gateway, &request.as_str().into()).await;
        assert!(begun.unwrap().is_none());
        assert_eq!(sends(&mut other, &request).await["success"], true);
    }
    gateway.asks("t1", json!({ "op": "typing", "chat_id": "c1" })).await;
    assert!(is_rate_limit(&gateway.hears_result_among("t1").await));
    // A third of a minute later there is room for one more, and no more.
    server.winds(seconds(20));
    assert_eq!(sends(&mut gateway, "marker").await["success"], true);
    assert!(is_rate_limit(&sends(&mut gateway, "r50").await));
    let carried: Vec<String> = server
        .egress
        .orders()
        .into_iter()
        .filter(|order| order.instance == heron.instance)
        .filter_map(|order| order.action.content().map(str::to_owned))
        .collect();
    assert_eq!(carried, ["r0", "r1", "r2", "marker"]);
}

#[tokio::test]
async fn the_repeat_of_an_action_that_was_carried_out_gets_its_outcome_although_the_quota_is_used_up() {
    let (server, [heron, ..]) = three_agents().await;
    server.says(&heron.bots[0], "c1", "hello").await;
    let mut gateway = heron.sits().await;
    heron.limit(LimitName::AgentActions, 2).await;
    let first = sends(&mut gateway, "r0").await;
    assert_eq!(sends(&mut gateway, "r1").await["success"], true);
    assert!(is_rate_limit(&sends(&mut gateway, "r2").await));
    assert_eq!(sends(&mut gateway, "r0").await, first);
    assert_eq!(server.egress.texts("c1"), ["r0", "r1"]);
}

#[tokio::test]
async fn typing_takes_a_tenth_of_another_action() {
    let (server, [heron, ..]) = three_agents().await;
    server.says(&heron.bots[0], "c1", "hello").await;
    let mut gateway = heron.sits().await;
    heron.limit(LimitName::AgentActions, 2).await;
    for number in 0..21 {
        let request = format!("t{number}");
        gateway.asks(&request, json!({ "op": "typing", "chat_id": "c1" })).await;
        let result = gateway.hears_result_among(&request).await;
        assert_eq!(is_rate_limit(&result), number == 20, "{result}");
    }
}

#[tokio::test]
async fn requests_over_the_quota_get_429_with_the_time_to_wait_and_other_agents_an_answer() {
    let (server, [heron, egret, crow]) = three_agents().await;
    heron.limit(LimitName::AgentRequests, 2).await;
    for _ in 0..2 {
        assert_eq!(heron.asks_for_status().await.0, StatusCode::OK);
    }
    let (status, retry_after, body) = heron.asks_for_status().await;
    assert_eq!((status.as_u16(), retry_after.as_deref()), (429, Some("30")));
    assert_eq!(body, json!({ "error": "this agent makes too many requests: try again later" }));
    assert_eq!(heron.dials().await.ends().await, later(), "dials count too");
    assert_eq!(egret.asks_for_status().await.0, StatusCode::OK);
    server.winds(seconds(30));
    assert_eq!(heron.asks_for_status().await.0, StatusCode::OK);
    heron.limit(LimitName::Requests, 0).await;
    assert_eq!(egret.asks_for_status().await.0, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(crow.asks_for_status().await.0, StatusCode::OK);
}

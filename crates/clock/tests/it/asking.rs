//! Authentication of agents at the cron API: contract section 1.1.

use http::{Request, StatusCode};
use posthouse_wire::InstanceId;
use serde_json::json;
use vault::Owner;

use crate::fixtures::{Agent, TestServer, seconds};

async fn heard(server: &TestServer, token: &str) -> (u16, String) {
    let (status, answer) = server
        .request(
            Request::get("/api/agent-cron/list")
                .header("authorization", format!("Bearer {token}"))
                .body(axum::body::Body::empty())
                .unwrap(),
        )
        .await;
    (status.as_u16(), answer["error"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_bootstrap_login_stands_for_its_instance_as_a_client_does() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    let login = server.identity.accounts.log_in(&heron.instance).await.unwrap().unwrap();
    let by_login = Agent { token: login.access.access_token, ..heron.clone() };
    by_login.arm("job", &server.at(seconds(10))).await;
    assert_eq!(heron.list().await.len(), 1);
    assert_eq!(by_login.list().await, heron.list().await);
}

#[tokio::test]
async fn what_is_no_good_token_is_401_whatever_is_wrong_with_it() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    for token in ["", "nonsense", "Bearer", &"x".repeat(4000)] {
        assert_eq!(heard(&server, token).await, (401, "invalid_token".to_owned()), "{token}");
    }
    let (status, _) =
        server.request(Request::get("/api/agent-cron/list").body(axum::body::Body::empty()).unwrap()).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    // Revocation and expiry take effect at once.
    let client = Owner::Instance(heron.instance.clone()).client();
    assert!(server.identity.accounts.revoke_client(&client).await.unwrap());
    assert_eq!(heard(&server, heron.token.expose()).await, (401, "invalid_token".to_owned()));
    let wren = server.create_agent("bolt", "wren").await;
    server.advance(seconds(24 * 3600));
    assert_eq!(heard(&server, wren.token.expose()).await, (401, "invalid_token".to_owned()));
}

#[tokio::test]
async fn a_credential_that_is_no_agents_is_told_so_for_good() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    let tenant = server.identity.roster.records().instance(&heron.instance).await.unwrap().unwrap().tenant;
    let keyring = &server.identity.accounts;
    let (client, _) = keyring.create_client(&Owner::Tenant(tenant)).await.unwrap().unwrap();
    let token = keyring.grant_access(&client).await.unwrap().unwrap().access_token;
    assert_eq!(heard(&server, token.expose()).await, (403, "invalid_client".to_owned()));
}

#[tokio::test]
async fn the_operator_acts_for_a_tenant_but_is_none_of_its_agents() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    let tenant = server.identity.roster.records().instance(&heron.instance).await.unwrap().unwrap().tenant;
    let grant = server.identity.accounts.operator_access(&tenant).await.unwrap().unwrap();
    let operator = Agent { token: grant.access_token, ..heron.clone() };
    assert_eq!(heard(&server, operator.token.expose()).await, (403, "invalid_client".to_owned()));
    let (status, _) = operator.post("provision", heron.arm_request("job", &server.at(seconds(10)))).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let (status, _) = operator.post("cancel", json!({ "job_id": "job" })).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(heron.list().await.is_empty());
}

#[tokio::test]
async fn an_agent_that_was_removed_is_not_called_and_may_not_ask() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    heron.arm("job", &server.at(seconds(10))).await;
    server.identity.accounts.remove_agent(&heron.instance).await.unwrap();
    let (status, _) = heard(&server, heron.token.expose()).await;
    assert!(status == 401 || status == 403, "{status}");
    server.advance(seconds(3600));
    server.catch_up().await;
    assert!(server.callback.fires().is_empty());
}

#[tokio::test]
async fn nobody_names_another_instance_in_a_body() {
    let server = TestServer::open().await;
    let (heron, wren) =
        (server.create_agent("acme", "heron").await, server.create_agent("bolt", "wren").await);
    let mut request = heron.arm_request("job", &server.at(seconds(10)));
    request["instance_id"] = json!(wren.instance);
    heron.arm_with(request).await;
    assert!(wren.list().await.is_empty());
    let _: &InstanceId = &wren.instance;
}

#[tokio::test]
async fn a_pinned_callback_binds_the_very_next_request() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    let request = heron.arm_request("ab12", &server.at(seconds(60)));
    assert_eq!(heron.post("provision", request.clone()).await.0, 200);
    let pinned = |url: Option<&'static str>| {
        let (server, instance) = (&server, heron.instance.clone());
        async move {
            server.ledger.roster().set_callback_url(&instance, url).await.unwrap();
            server.identity.roster.agent_changed(&instance);
        }
    };
    pinned(Some("https://elsewhere.example")).await;
    assert_eq!(heron.post("provision", request.clone()).await.0, 422);
    pinned(None).await;
    assert_eq!(heron.post("provision", request).await.0, 200);
}

#[tokio::test]
async fn the_numbers_of_job_history_tell_nothing_of_other_agents() {
    let server = TestServer::open().await;
    let (heron, wren) =
        (server.create_agent("acme", "heron").await, server.create_agent("bolt", "wren").await);
    for round in 0..3 {
        for (agent, job) in [(&wren, "busy"), (&heron, "job"), (&wren, "busier")] {
            agent.arm(job, &server.at(seconds(60 + round))).await;
            agent.cancel(job).await;
        }
    }
    let numbers = async |agent: &Agent, query: &str| {
        let (status, answer) = agent.get(&format!("history{query}")).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        let lines = answer["history"].as_array().unwrap().clone();
        lines.iter().map(|line| line["seq"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&heron, "").await, [3, 2, 1]);
    assert_eq!(numbers(&heron, "?before=3&limit=1").await, [2]);
    assert_eq!(numbers(&heron, "?before=2&job_id=job").await, [1]);
    assert_eq!(numbers(&wren, "?job_id=busier").await, [6, 4, 2]);
}

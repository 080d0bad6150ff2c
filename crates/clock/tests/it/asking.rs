//! Authentication of agents at the cron API: contract section 1.1.

use http::{Request, StatusCode};
use posthouse_wire::InstanceId;
use serde_json::json;
use vault::Owner;

use crate::town::{Agent, Town, seconds};

async fn heard(town: &Town, token: &str) -> (u16, String) {
    let (status, answer) = town
        .asks(
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
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    let login = town.identity.accounts.log_in(&heron.instance).await.unwrap().unwrap();
    let by_login = Agent { token: login.access.access_token, ..heron.clone() };
    by_login.arms("job", &town.at(seconds(10))).await;
    assert_eq!(heron.lists().await.len(), 1);
    assert_eq!(by_login.lists().await, heron.lists().await);
}

#[tokio::test]
async fn what_is_no_good_token_is_401_whatever_is_wrong_with_it() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    for token in ["", "nonsense", "Bearer", &"x".repeat(4000)] {
        assert_eq!(heard(&town, token).await, (401, "invalid_token".to_owned()), "{token}");
    }
    let (status, _) =
        town.asks(Request::get("/api/agent-cron/list").body(axum::body::Body::empty()).unwrap()).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    // Revocation and expiry take effect at once.
    let client = Owner::Instance(heron.instance.clone()).client();
    assert!(town.identity.accounts.revoke_client(&client).await.unwrap());
    assert_eq!(heard(&town, heron.token.expose()).await, (401, "invalid_token".to_owned()));
    let wren = town.agent("bolt", "wren").await;
    town.time.wind(seconds(24 * 3600));
    assert_eq!(heard(&town, wren.token.expose()).await, (401, "invalid_token".to_owned()));
}

#[tokio::test]
async fn a_credential_that_is_no_agents_is_told_so_for_good() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    let tenant = town.identity.roster.records().instance(&heron.instance).await.unwrap().unwrap().tenant;
    let keyring = &town.identity.accounts;
    let (client, _) = keyring.create_client(&Owner::Tenant(tenant)).await.unwrap().unwrap();
    let token = keyring.grant_access(&client).await.unwrap().unwrap().access_token;
    assert_eq!(heard(&town, token.expose()).await, (403, "invalid_client".to_owned()));
}

#[tokio::test]
async fn the_operator_acts_for_a_tenant_but_is_none_of_its_agents() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    let tenant = town.identity.roster.records().instance(&heron.instance).await.unwrap().unwrap().tenant;
    let grant = town.identity.accounts.operator_access(&tenant).await.unwrap().unwrap();
    let operator = Agent { token: grant.access_token, ..heron.clone() };
    assert_eq!(heard(&town, operator.token.expose()).await, (403, "invalid_client".to_owned()));
    let (status, _) = operator.posts("provision", heron.wish("job", &town.at(seconds(10)))).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let (status, _) = operator.posts("cancel", json!({ "job_id": "job" })).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(heron.lists().await.is_empty());
}

#[tokio::test]
async fn an_agent_that_was_removed_is_not_called_and_may_not_ask() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    heron.arms("job", &town.at(seconds(10))).await;
    town.identity.accounts.remove_agent(&heron.instance).await.unwrap();
    let (status, _) = heard(&town, heron.token.expose()).await;
    assert!(status == 401 || status == 403, "{status}");
    town.time.wind(seconds(3600));
    town.settles().await;
    assert!(town.callback.fires().is_empty());
}

#[tokio::test]
async fn nobody_names_another_instance_in_a_body() {
    let town = Town::open().await;
    let (heron, wren) = (town.agent("acme", "heron").await, town.agent("bolt", "wren").await);
    let mut wish = heron.wish("job", &town.at(seconds(10)));
    wish["instance_id"] = json!(wren.instance);
    heron.arms_with(wish).await;
    assert!(wren.lists().await.is_empty());
    let _: &InstanceId = &wren.instance;
}

#[tokio::test]
async fn a_pinned_callback_binds_the_very_next_request() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    let wish = heron.wish("ab12", &town.at(seconds(60)));
    assert_eq!(heron.posts("provision", wish.clone()).await.0, 200);
    let pinned = |url: Option<&'static str>| {
        let (town, instance) = (&town, heron.instance.clone());
        async move {
            town.ledger.roster().set_callback_url(&instance, url).await.unwrap();
            town.identity.roster.anything_changed();
        }
    };
    pinned(Some("https://elsewhere.example")).await;
    assert_eq!(heron.posts("provision", wish.clone()).await.0, 422);
    pinned(None).await;
    assert_eq!(heron.posts("provision", wish).await.0, 200);
}

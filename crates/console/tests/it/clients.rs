//! Client credentials, logins, and the answer that issues them to a new agent.

use http::Method;
use serde_json::{Value, json};

use crate::house::House;

const URL: &str = "http://127.0.0.1:7678";

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Whom this client's secret stands for now.
async fn instance_of(house: &House, credential: &Value) -> Option<Option<String>> {
    let (id, secret) = (text(&credential["client_id"]), text(&credential["client_secret"]));
    let client = house.keyring.client(id, secret).await.unwrap()?;
    Some(client.instance.map(|instance| instance.to_string()))
}

/// The instance that a login's access token leads to, inside its own tenant.
async fn instance_of_login(house: &House, access_token: &Value) -> Option<String> {
    let bearer = house.owner_of(text(access_token)).await?;
    let instance =
        house.identity.roster.records().instance_of_login(&bearer.tenant, &bearer.login?).await.unwrap()?;
    Some(instance.id.to_string())
}

#[tokio::test]
async fn a_new_agent_is_handed_everything_for_the_http_doors_once() {
    let (house, heron) = House::settled().await;
    let id = text(&heron["instance_id"]);
    assert_eq!(heron["client_id"], format!("agent:{id}"));
    assert_eq!(heron["audience"], format!("agent:{id}"));
    assert_eq!(heron["portal_url"], URL);
    assert_eq!(heron["jwks_url"], format!("{URL}/.well-known/jwks.json"));
    assert_eq!(heron["env"]["HERMES_PORTAL_BASE_URL"], URL);
    assert_eq!(instance_of(&house, &heron).await, Some(Some(id.to_owned())));
    assert_eq!(instance_of_login(&house, &heron["access_token"]).await.as_deref(), Some(id));
    let auth = &heron["auth"];
    assert_eq!((&auth["version"], &auth["active_provider"]), (&json!(1), &json!("nous")));
    assert_eq!(
        auth["providers"]["nous"],
        json!({
            "access_token": heron["access_token"],
            "refresh_token": heron["refresh_token"],
            "expires_at": "2025-12-06T06:46:40.000Z",
            "expires_in": 3600,
            "client_id": "hermes-cli-vps",
            "portal_base_url": URL,
            "token_type": "Bearer",
            "scope": "cron",
        })
    );
    assert_eq!(
        heron["cron"],
        json!({
            "cron.provider": "chronos",
            "cron.chronos.portal_url": URL,
            "cron.chronos.expected_audience": format!("agent:{id}"),
            "cron.chronos.nas_jwks_url": format!("{URL}/.well-known/jwks.json"),
        }),
        "where it is called back is its own to say"
    );
    let shown = house.gets("/admin/agents/heron").await.to_string();
    let listed = house.gets("/admin/clients").await.to_string();
    for secret in ["client_secret", "access_token", "refresh_token"] {
        assert!(!shown.contains(text(&heron[secret])) && !listed.contains(text(&heron[secret])), "{secret}");
    }
}

#[tokio::test]
async fn an_agent_may_be_pinned_to_where_it_is_called_back() {
    let (house, _) = House::settled().await;
    let url = "https://otter.example";
    let body = json!({ "tenant": "acme", "name": "otter", "callback_url": url });
    let otter = house.makes("/admin/agents", body).await;
    assert_eq!(otter["cron"]["cron.chronos.callback_url"], url);
    assert_eq!(house.gets("/admin/agents/otter").await["callback_url"], url);
    for bad in ["http://10.0.0.1", "https://otter.example/?a=1", "ftp://x", "nonsense", "https://u:p@h"] {
        let refusal = (422, "bad_callback_url".to_owned());
        let body = Some(json!({ "tenant": "acme", "name": "x", "callback_url": bad }));
        assert_eq!(house.refuses(Method::POST, "/admin/agents", body).await, refusal, "{bad}");
        let body = Some(json!({ "callback_url": bad, "wake_url": "https://w.example" }));
        assert_eq!(house.refuses(Method::PATCH, "/admin/agents/otter", body).await, refusal, "{bad}");
    }
    assert_eq!(house.gets("/admin/agents/otter").await["wake_url"], json!(null), "all or nothing");
    house.asks(Method::PATCH, "/admin/agents/otter", Some(json!({ "callback_url": null }))).await;
    assert_eq!(house.gets("/admin/agents/otter").await["callback_url"], json!(null));
}

#[tokio::test]
async fn a_client_is_made_for_an_agent_or_a_tenant_and_ended_by_its_id() {
    let (house, heron) = House::settled().await;
    let own = house.makes("/admin/clients", json!({ "tenant": "acme" })).await;
    assert_eq!(own["client_id"], format!("tenant:{}", text(&own["tenant_id"])));
    assert_eq!(own["token_url"], format!("{URL}/oauth/token"));
    assert_eq!(instance_of(&house, &own).await, Some(None));
    let again = house.makes("/admin/clients", json!({ "tenant": "acme", "agent": "heron" })).await;
    assert_eq!(again["client_id"], heron["client_id"]);
    assert_ne!(again["client_secret"], heron["client_secret"]);
    assert!(instance_of(&house, &heron).await.is_some() && instance_of(&house, &again).await.is_some());

    let listed = house.gets("/admin/clients?tenant=acme").await;
    let ids: Vec<&str> = listed["items"].as_array().unwrap().iter().map(|item| text(&item["id"])).collect();
    assert_eq!(ids.len(), 3, "two clients and the login: {ids:?}");
    assert_eq!(listed["items"][0]["agent"], "heron");
    let path = format!("/admin/clients/{}", text(&heron["client_id"]));
    assert_eq!(house.asks(Method::DELETE, &path, None).await.0, 200);
    assert!(instance_of(&house, &heron).await.is_none() && instance_of(&house, &again).await.is_none());
    assert!(house.gets("/admin/clients").await["items"][0]["revoked_at"].is_string());
    let unknown = house.refuses(Method::DELETE, "/admin/clients/agent:inst_x", None).await;
    assert_eq!(unknown, (404, "no_such_client".to_owned()));
}

#[tokio::test]
async fn a_lost_login_is_replaced_and_a_login_ended_by_its_id() {
    let (house, heron) = House::settled().await;
    let id = text(&heron["instance_id"]);
    let renewed =
        house.makes("/admin/clients", json!({ "tenant": "acme", "agent": "heron", "login": true })).await;
    assert_eq!(instance_of_login(&house, &heron["access_token"]).await, None, "the old one ended");
    assert_eq!(instance_of_login(&house, &renewed["access_token"]).await.as_deref(), Some(id));
    assert_eq!(renewed["auth"]["providers"]["nous"]["refresh_token"], renewed["refresh_token"]);
    assert_eq!(
        house.makes("/admin/agents/heron/rotate", json!({})).await["env"]["HERMES_PORTAL_BASE_URL"],
        URL
    );
    let path = format!("/admin/clients/{}", text(&renewed["login_id"]));
    assert_eq!(house.asks(Method::DELETE, &path, None).await.0, 200);
    assert_eq!(instance_of_login(&house, &renewed["access_token"]).await, None);
    assert_eq!(house.refuses(Method::DELETE, &path, None).await, (404, "no_such_client".to_owned()));
    let rotated = house.makes("/admin/agents/heron/rotate", json!({})).await;
    assert_eq!(
        rotated["env"]["HERMES_PORTAL_BASE_URL"],
        json!(null),
        "an agent without our login is its vendor's"
    );
    assert_eq!(rotated["auth"], json!(null));
}

#[tokio::test]
async fn a_tenants_operator_makes_nothing_for_another_tenants_agent() {
    let (house, heron) = House::settled().await;
    house.makes("/admin/tenants", json!({ "name": "umbrella" })).await;
    for agent in [&heron["instance_id"], &json!("heron")] {
        for login in [false, true] {
            let body = Some(json!({ "tenant": "umbrella", "agent": agent, "login": login }));
            let refused = house.refuses(Method::POST, "/admin/clients", body).await;
            assert_eq!(refused, (404, "no_such_agent".to_owned()));
        }
    }
    for (body, refusal) in [
        (json!({ "tenant": "nobody" }), (404, "no_such_tenant")),
        (json!({ "tenant": "acme", "login": true }), (422, "no_agent")),
        (json!({ "agent": "heron" }), (400, "malformed")),
    ] {
        let (status, code) = house.refuses(Method::POST, "/admin/clients", Some(body)).await;
        assert_eq!((status, code.as_str()), refusal);
    }
    assert_eq!(house.gets("/admin/clients?tenant=umbrella").await["items"], json!([]));
    assert!(instance_of_login(&house, &heron["access_token"]).await.is_some(), "nothing was touched");
}

#[tokio::test]
async fn a_removed_agents_and_a_removed_tenants_clients_are_gone() {
    let (house, heron) = House::settled().await;
    let own = house.makes("/admin/clients", json!({ "tenant": "acme" })).await;
    assert!(instance_of_login(&house, &heron["access_token"]).await.is_some());
    house.asks(Method::DELETE, "/admin/agents/heron", None).await;
    assert!(instance_of(&house, &heron).await.is_none());
    assert!(instance_of_login(&house, &heron["access_token"]).await.is_none());
    assert!(instance_of(&house, &own).await.is_some());
    assert_eq!(house.asks(Method::DELETE, "/admin/tenants/acme", None).await.0, 200);
    assert!(instance_of(&house, &own).await.is_none());
    assert_eq!(house.gets("/admin/clients").await["items"], json!([]));
}

//! Agents and their credentials.

use http::{Method, StatusCode};
use posthouse_wire::{Secret, token};
use serde_json::{Value, json};
use vault::Standing;

use crate::house::House;

/// Whether this credential opens the socket now.
async fn is_good(house: &House, credential: &Value) -> bool {
    let gateway = credential["gateway_id"].as_str().unwrap().into();
    let secret = Secret::new(credential["secret"].as_str().unwrap());
    let token = token::mint(&gateway, &secret, 60, 1_765_000_000);
    matches!(house.relay.keyring().judge(&token).await.unwrap(), Standing::Good(_))
}

#[tokio::test]
async fn a_new_agent_is_told_everything_a_stock_gateway_needs() {
    let (house, heron) = House::settled().await;
    assert_eq!(heron["tenant"], "acme");
    assert!(heron["instance_id"].as_str().unwrap().starts_with("inst_"));
    let env = &heron["env"];
    assert_eq!(env["GATEWAY_RELAY_URL"], "http://127.0.0.1:7678");
    assert_eq!(env["GATEWAY_RELAY_ID"], heron["gateway_id"]);
    assert_eq!(env["GATEWAY_RELAY_SECRET"], heron["secret"]);
    assert_eq!(env["GATEWAY_RELAY_PLATFORMS"], "pigeon");
    assert_eq!(env["GATEWAY_RELAY_BOT_IDS"], r#"{"pigeon":{"botId":"7001"}}"#);
    assert!(is_good(&house, &heron).await);
}

#[tokio::test]
async fn an_agent_is_shown_without_its_secret() {
    let (house, heron) = House::settled().await;
    house.keeps(&heron, "5", "1").await;
    let shown = house.gets("/admin/agents/heron?tenant=acme").await;
    assert_eq!(
        (&shown["connected"], &shown["idle"], &shown["since"]),
        (&json!(false), &json!(false), &json!(null))
    );
    assert_eq!(shown["unread"], 1);
    assert_eq!(
        shown["bots"],
        json!([{ "platform": "pigeon", "id": "7001" }]),
        "its place on the page is no bot of its own"
    );
    assert_eq!(shown["gateways"], json!([heron["gateway_id"]]));
    assert_eq!(shown["generation"], "auto");
    let listed = house.gets("/admin/agents").await;
    assert_eq!(listed["items"], json!([shown]));
    assert!(!listed.to_string().contains(heron["secret"].as_str().unwrap()));
}

#[tokio::test]
async fn a_name_is_found_in_its_tenant_alone() {
    let (house, heron) = House::settled().await;
    assert_eq!(
        house.gets("/admin/agents/heron").await["instance_id"],
        heron["instance_id"],
        "there is but one"
    );
    house.makes("/admin/tenants", json!({ "name": "umbrella" })).await;
    let other = house.makes("/admin/agents", json!({ "tenant": "umbrella", "name": "heron" })).await;
    assert_eq!(house.refuses(Method::GET, "/admin/agents/heron", None).await, (409, "ambiguous".to_owned()));
    let found = house.gets("/admin/agents/heron?tenant=umbrella").await;
    assert_eq!(found["instance_id"], other["instance_id"]);
    let elsewhere = format!("/admin/agents/{}?tenant=umbrella", heron["instance_id"].as_str().unwrap());
    assert_eq!(house.refuses(Method::GET, &elsewhere, None).await, (404, "no_such_agent".to_owned()));
    assert_eq!(house.gets("/admin/agents?tenant=umbrella").await["items"].as_array().unwrap().len(), 1);
    let paged = house.gets("/admin/agents?limit=1").await;
    assert_eq!(paged["next"], "acme/heron");
    assert_eq!(house.gets("/admin/agents?limit=1&after=acme/heron").await["items"][0]["tenant"], "umbrella");
}

#[tokio::test]
async fn an_agent_that_cannot_be_is_refused_with_its_reason() {
    let (house, _) = House::settled().await;
    for (body, refusal) in [
        (json!({ "tenant": "acme", "name": "heron" }), (409, "taken")),
        (json!({ "tenant": "nobody", "name": "x" }), (404, "no_such_tenant")),
        (json!({ "tenant": "acme", "name": "inst_x" }), (422, "bad_name")),
        (json!({ "tenant": "acme", "name": "x", "wake_url": "http://127.0.0.1/" }), (422, "bad_wake_url")),
        (json!({ "tenant": "acme", "name": "x", "bots": ["pigeon:7001"] }), (422, "bad_bot")),
        (json!({ "tenant": "acme", "name": "x", "bots": ["pigeon:9"] }), (422, "bad_bot")),
        (json!({ "tenant": "acme", "name": "x", "bots": ["7001"] }), (422, "bad_bot")),
        (json!({ "tenant": "acme", "name": "x", "bots": ["web:x"] }), (422, "bad_bot")),
        (json!({ "tenant": "acme", "name": 5 }), (400, "malformed")),
    ] {
        let (status, code) = house.refuses(Method::POST, "/admin/agents", Some(body)).await;
        assert_eq!((status, code.as_str()), refusal);
    }
}

#[tokio::test]
async fn a_secret_can_be_renewed_and_a_credential_ended() {
    let (house, heron) = House::settled().await;
    let renewed = house.makes("/admin/agents/heron/rotate", json!({})).await;
    assert_eq!(renewed["gateway_id"], heron["gateway_id"]);
    assert_ne!(renewed["secret"], heron["secret"]);
    assert_eq!(renewed["env"]["GATEWAY_RELAY_PLATFORMS"], "pigeon");
    assert!(
        is_good(&house, &heron).await && is_good(&house, &renewed).await,
        "the old one stays good for a day"
    );

    let foreign = Some(json!({ "gateway_id": "gw_other" }));
    let refused = house.refuses(Method::POST, "/admin/agents/heron/revoke", foreign).await;
    assert_eq!(refused, (404, "no_such_gateway".to_owned()));
    let revoked = house.makes("/admin/agents/heron/revoke", json!({})).await;
    assert_eq!(revoked["gateway_id"], heron["gateway_id"]);
    assert!(!is_good(&house, &heron).await && !is_good(&house, &renewed).await);
    assert_eq!(house.gets("/admin/agents/heron").await["gateways"], json!([]));
    let again = house.refuses(Method::POST, "/admin/agents/heron/revoke", None).await;
    assert_eq!(again, (404, "no_such_gateway".to_owned()));

    let fresh = house.makes("/admin/agents/heron/rotate", json!({})).await;
    assert_ne!(fresh["gateway_id"], heron["gateway_id"]);
    assert!(is_good(&house, &fresh).await, "an agent without a credential gets a new one");
}

#[tokio::test]
async fn a_wake_url_can_be_given_and_taken_away() {
    let (house, _) = House::settled().await;
    let path = "/admin/agents/heron";
    let url = "https://run.example/wake";
    let (status, changed) = house.asks(Method::PATCH, path, Some(json!({ "wake_url": url }))).await;
    assert_eq!((status, &changed["wake_url"]), (StatusCode::OK, &json!(url)));
    let inward = Some(json!({ "wake_url": "http://10.0.0.1/" }));
    assert_eq!(house.refuses(Method::PATCH, path, inward).await, (422, "bad_wake_url".to_owned()));
    house.asks(Method::PATCH, path, Some(json!({}))).await;
    assert_eq!(house.gets(path).await["wake_url"], url, "what is not said stays");
    house.asks(Method::PATCH, path, Some(json!({ "wake_url": null }))).await;
    assert_eq!(house.gets(path).await["wake_url"], json!(null));
}

#[tokio::test]
async fn a_removed_agent_is_gone_with_its_routes() {
    let (house, heron) = House::settled().await;
    assert_eq!(house.asks(Method::DELETE, "/admin/agents/heron", None).await.0, StatusCode::OK);
    assert_eq!(house.refuses(Method::GET, "/admin/agents/heron", None).await.0, 404);
    assert_eq!(house.gets("/admin/routes").await["items"], json!([]));
    assert!(!is_good(&house, &heron).await);
    assert_eq!(house.gets("/admin/bots/pigeon/7001").await["instance_id"], json!(null));
}

//! Agents and their credentials.

use http::{Method, StatusCode};
use posthouse_wire::{Secret, token};
use serde_json::{Value, json};
use vault::CredentialCheck;

use crate::test_server::TestServer;

/// Whether this credential opens the socket now.
async fn is_good(server: &TestServer, credential: &Value) -> bool {
    let gateway = credential["gateway_id"].as_str().unwrap().into();
    let secret = Secret::new(credential["secret"].as_str().unwrap());
    let token = token::mint(&gateway, &secret, 60, 1_765_000_000);
    matches!(server.keyring.check_upgrade_token(&token).await.unwrap(), CredentialCheck::Good(_))
}

#[tokio::test]
async fn a_new_agent_is_told_everything_a_stock_gateway_needs() {
    let (server, heron) = TestServer::settled().await;
    assert_eq!(heron["tenant"], "acme");
    assert!(heron["instance_id"].as_str().unwrap().starts_with("inst_"));
    let env = &heron["env"];
    assert_eq!(env["GATEWAY_RELAY_URL"], "http://127.0.0.1:7678");
    assert_eq!(env["GATEWAY_RELAY_ID"], heron["gateway_id"]);
    assert_eq!(env["GATEWAY_RELAY_SECRET"], heron["secret"]);
    assert_eq!(env["GATEWAY_RELAY_PLATFORMS"], "pigeon");
    assert_eq!(env["GATEWAY_RELAY_BOT_IDS"], r#"{"pigeon":{"botId":"7001"}}"#);
    assert!(is_good(&server, &heron).await);
}

#[tokio::test]
async fn an_agent_is_shown_without_its_secret() {
    let (server, heron) = TestServer::settled().await;
    server.keeps(&heron, "5", "1").await;
    let shown = server.gets("/admin/agents/heron?tenant=acme").await;
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
    let listed = server.gets("/admin/agents").await;
    assert_eq!(listed["items"], json!([shown]));
    assert!(!listed.to_string().contains(heron["secret"].as_str().unwrap()));
}

#[tokio::test]
async fn a_name_is_found_in_its_tenant_alone() {
    let (server, heron) = TestServer::settled().await;
    assert_eq!(
        server.gets("/admin/agents/heron").await["instance_id"],
        heron["instance_id"],
        "there is but one"
    );
    server.makes("/admin/tenants", json!({ "name": "umbrella" })).await;
    let other = server.makes("/admin/agents", json!({ "tenant": "umbrella", "name": "heron" })).await;
    assert_eq!(server.refuses(Method::GET, "/admin/agents/heron", None).await, (409, "ambiguous".to_owned()));
    let found = server.gets("/admin/agents/heron?tenant=umbrella").await;
    assert_eq!(found["instance_id"], other["instance_id"]);
    let elsewhere = format!("/admin/agents/{}?tenant=umbrella", heron["instance_id"].as_str().unwrap());
    assert_eq!(server.refuses(Method::GET, &elsewhere, None).await, (404, "no_such_agent".to_owned()));
    assert_eq!(server.gets("/admin/agents?tenant=umbrella").await["items"].as_array().unwrap().len(), 1);
    let paged = server.gets("/admin/agents?limit=1").await;
    assert_eq!(paged["next"], "acme/heron");
    assert_eq!(server.gets("/admin/agents?limit=1&after=acme/heron").await["items"][0]["tenant"], "umbrella");
}

#[tokio::test]
async fn an_agent_that_cannot_be_is_refused_with_its_reason() {
    let (server, _) = TestServer::settled().await;
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
        let (status, code) = server.refuses(Method::POST, "/admin/agents", Some(body)).await;
        assert_eq!((status, code.as_str()), refusal);
    }
}

#[tokio::test]
async fn a_secret_can_be_renewed_and_a_credential_ended() {
    let (server, heron) = TestServer::settled().await;
    let renewed = server.makes("/admin/agents/heron/rotate", json!({})).await;
    assert_eq!(renewed["gateway_id"], heron["gateway_id"]);
    assert_ne!(renewed["secret"], heron["secret"]);
    assert_eq!(renewed["env"]["GATEWAY_RELAY_PLATFORMS"], "pigeon");
    assert!(
        is_good(&server, &heron).await && is_good(&server, &renewed).await,
        "the old one stays good for a day"
    );

    let foreign = Some(json!({ "gateway_id": "gw_other" }));
    let refused = server.refuses(Method::POST, "/admin/agents/heron/revoke", foreign).await;
    assert_eq!(refused, (404, "no_such_credential".to_owned()));
    let one = json!({ "gateway_id": heron["gateway_id"] });
    let revoked = server.makes("/admin/agents/heron/revoke", one.clone()).await;
    assert_eq!(revoked["gateway_ids"], json!([heron["gateway_id"]]));
    assert_eq!((&revoked["client_id"], &revoked["login_id"]), (&json!(null), &json!(null)));
    assert!(!is_good(&server, &heron).await && !is_good(&server, &renewed).await);
    assert_eq!(server.gets("/admin/agents/heron").await["gateways"], json!([]));
    let again = server.refuses(Method::POST, "/admin/agents/heron/revoke", Some(one)).await;
    assert_eq!(again, (404, "no_such_credential".to_owned()));

    let fresh = server.makes("/admin/agents/heron/rotate", json!({})).await;
    assert_ne!(fresh["gateway_id"], heron["gateway_id"]);
    assert!(is_good(&server, &fresh).await, "an agent without a credential gets a new one");
}

/// Which of what an agent was given still opens something: gateway, client secret, access token of the client, access
/// token of the login (for cron too), refresh token.
async fn what_works(server: &TestServer, given: &Value, granted: &str) -> [bool; 5] {
    let keyring = &server.keyring;
    let text = |name: &str| given[name].as_str().unwrap();
    let refreshed = keyring.refresh(text("refresh_token"), identity::BOOTSTRAP_CLIENT, None).await.unwrap();
    [
        is_good(server, given).await,
        keyring.client(text("client_id"), text("client_secret")).await.unwrap().is_some(),
        server.owner_of(granted).await.is_some(),
        server.owner_of(text("access_token")).await.is_some(),
        matches!(refreshed, vault::Refreshed::Granted(_)),
    ]
}

async fn granted(server: &TestServer, given: &Value) -> String {
    let client = given["client_id"].as_str().unwrap().into();
    let grant = server.identity.accounts.grant_access(&client).await.unwrap().unwrap();
    grant.access_token.expose().to_owned()
}

#[tokio::test]
async fn revoking_an_agent_ends_bearer_basic_cron_login_and_refresh_and_rotating_all_brings_everything_back()
{
    let (server, heron) = TestServer::settled().await;
    let otter = server.makes("/admin/agents", json!({ "tenant": "acme", "name": "otter" })).await;
    let (token, others) = (granted(&server, &heron).await, granted(&server, &otter).await);
    assert_eq!(what_works(&server, &heron, &token).await, [true; 5]);
    let before = server.writes();
    server
        .identity
        .accounts
        .revoke(&heron["instance_id"].as_str().unwrap().into(), identity::WhichCredentials::Login)
        .await
        .unwrap();
    assert_eq!(server.writes() - before, 1);
    assert_eq!(what_works(&server, &heron, &token).await, [true, true, true, false, false]);

    let revoked = server.makes("/admin/agents/heron/revoke", json!({})).await;
    assert_eq!(revoked["gateway_ids"], json!([heron["gateway_id"]]));
    assert_eq!((&revoked["client_id"], &revoked["login_id"]), (&heron["client_id"], &json!(null)));
    assert_eq!(what_works(&server, &heron, &token).await, [false; 5]);
    assert_eq!(what_works(&server, &otter, &others).await, [true; 5], "a neighbour keeps its own");
    let again = server.refuses(Method::POST, "/admin/agents/heron/revoke", Some(json!({}))).await;
    assert_eq!(again, (404, "no_such_credential".to_owned()));
    let both = Some(json!({ "client": true, "login": true }));
    let refused = server.refuses(Method::POST, "/admin/agents/otter/revoke", both).await;
    assert_eq!(refused, (422, "contradiction".to_owned()));

    let listed = server.gets("/admin/clients?tenant=acme").await;
    let login = listed["items"].as_array().unwrap().iter().find(|item| item["lines"].is_number()).unwrap();
    assert_eq!((&login["agent"], &login["lines"]), (&json!("otter"), &json!(1)));
    let back = server.makes("/admin/agents/heron/rotate", json!({ "all": true })).await;
    assert_ne!(back["gateway_id"], heron["gateway_id"]);
    let token = granted(&server, &back).await;
    assert_eq!(what_works(&server, &back, &token).await, [true; 5]);
    assert_eq!(back["auth"]["providers"]["nous"]["refresh_token"], back["refresh_token"]);
    let (gateways, client, login) = {
        let revoked = server.makes("/admin/agents/heron/revoke", json!({})).await;
        (revoked["gateway_ids"].clone(), revoked["client_id"].clone(), revoked["login_id"].clone())
    };
    assert_eq!((gateways, &client), (json!([back["gateway_id"]]), &back["client_id"]));
    assert!(login.as_str().unwrap().starts_with("log_"), "{login}");
    assert_eq!(what_works(&server, &back, &token).await, [false; 5]);
}

#[tokio::test]
async fn a_wake_url_can_be_given_and_taken_away() {
    let (server, _) = TestServer::settled().await;
    let path = "/admin/agents/heron";
    let url = "https://run.example/wake";
    let (status, changed) = server.asks(Method::PATCH, path, Some(json!({ "wake_url": url }))).await;
    assert_eq!((status, &changed["wake_url"]), (StatusCode::OK, &json!(url)));
    let inward = Some(json!({ "wake_url": "http://10.0.0.1/" }));
    assert_eq!(server.refuses(Method::PATCH, path, inward).await, (422, "bad_wake_url".to_owned()));
    server.asks(Method::PATCH, path, Some(json!({}))).await;
    assert_eq!(server.gets(path).await["wake_url"], url, "what is not said stays");
    server.asks(Method::PATCH, path, Some(json!({ "wake_url": null }))).await;
    assert_eq!(server.gets(path).await["wake_url"], json!(null));
}

#[tokio::test]
async fn a_generation_is_pinned_and_reset_by_the_operator() {
    let (server, heron) = TestServer::settled().await;
    let path = "/admin/agents/heron";
    for pin in ["newer", "0.19", "auto"] {
        let (status, changed) = server.asks(Method::PATCH, path, Some(json!({ "generation": pin }))).await;
        assert_eq!((status, &changed["generation"]), (StatusCode::OK, &json!(pin)));
    }
    let of_one = json!({ "generation": "newer", "gateway_id": heron["gateway_id"] });
    assert_eq!(server.asks(Method::PATCH, path, Some(of_one)).await.0, StatusCode::OK);
    assert_eq!(server.gets(path).await["generation"], "auto", "the agent's own pin stays");
    let of_nobody = Some(json!({ "generation": "newer", "gateway_id": "gw-nobody" }));
    assert_eq!(server.refuses(Method::PATCH, path, of_nobody).await, (404, "no_such_gateway".to_owned()));
    let unknown = Some(json!({ "generation": "0.20" }));
    assert_eq!(server.refuses(Method::PATCH, path, unknown).await, (422, "bad_generation".to_owned()));
}

#[tokio::test]
async fn the_cursor_of_an_agent_is_set_and_reset_by_the_operator() {
    let (server, _) = TestServer::settled().await;
    let path = "/admin/agents/heron";
    let stock = server.gets(path).await["stream_cursor"].clone();
    assert_eq!(stock, " ▉");
    for (said, shown) in [(json!("..."), json!("...")), (json!(""), json!("")), (json!(null), stock)] {
        let (status, changed) =
            server.asks(Method::PATCH, path, Some(json!({ "stream_cursor": said }))).await;
        assert_eq!((status, &changed["stream_cursor"]), (StatusCode::OK, &shown));
        server.asks(Method::PATCH, path, Some(json!({}))).await;
        assert_eq!(server.gets(path).await["stream_cursor"], shown, "what is not said stays");
    }
}

#[tokio::test]
async fn what_is_held_back_from_busy_chats_is_set_by_the_operator() {
    let (server, _) = TestServer::settled().await;
    let path = "/admin/agents/heron";
    assert_eq!(server.gets(path).await["hold_back"], "drain");
    for mode in ["on", "off", "drain"] {
        let (status, changed) = server.asks(Method::PATCH, path, Some(json!({ "hold_back": mode }))).await;
        assert_eq!((status, &changed["hold_back"]), (StatusCode::OK, &json!(mode)));
    }
    let unknown = Some(json!({ "hold_back": "always" }));
    assert_eq!(server.refuses(Method::PATCH, path, unknown).await, (422, "bad_hold_back".to_owned()));
}

#[tokio::test]
async fn a_removed_agent_is_gone_with_its_routes() {
    let (server, heron) = TestServer::settled().await;
    assert_eq!(server.asks(Method::DELETE, "/admin/agents/heron", None).await.0, StatusCode::OK);
    assert_eq!(server.refuses(Method::GET, "/admin/agents/heron", None).await.0, 404);
    assert_eq!(server.gets("/admin/routes").await["items"], json!([]));
    assert!(!is_good(&server, &heron).await);
    assert_eq!(server.gets("/admin/bots/pigeon/7001").await["instance_id"], json!(null));
}

#[tokio::test]
async fn a_stop_url_is_checked_set_and_removed_and_needs_https_for_a_sleep_url() {
    let (server, _) = TestServer::settled().await;
    let path = "/admin/agents/heron";
    let changes =
        async |stop_url: Value| server.asks(Method::PATCH, path, Some(json!({ "stop_url": stop_url }))).await;
    let (status, refused) = changes(json!("ftp://run.example/stop")).await;
    assert_eq!((status.as_u16(), &refused["code"]), (422, &json!("bad_stop_url")));
    let (status, shown) = changes(json!("https://run.example/stop")).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(shown["stop_url"], "https://run.example/stop");
    assert_eq!(shown["sleep_url"], json!(null), "this server has no https address");
    assert_eq!(changes(json!(null)).await.1["stop_url"], json!(null));
}

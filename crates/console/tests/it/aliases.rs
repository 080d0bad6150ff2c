//! Aliases of agents.

use http::{Method, StatusCode};
use serde_json::json;

use crate::test_server::TestServer;

#[tokio::test]
async fn an_alias_gives_an_address_with_an_at_sign_a_name() {
    let (server, _) = TestServer::settled().await;
    let body = json!({ "tenant": "acme", "name": "perry", "agent": "perry@example.org" });
    let made = server.makes("/admin/aliases", body.clone()).await;
    assert_eq!((&made["tenant"], &made["name"]), (&json!("acme"), &json!("perry")));
    assert_eq!(made["agent"], "perry@example.org");
    assert_eq!(server.gets("/admin/aliases").await["items"], json!([made]));
    assert_eq!(server.gets("/admin/aliases?tenant=acme").await["items"], json!([made]));
    let again = server.refuses(Method::POST, "/admin/aliases", Some(body)).await;
    assert_eq!(again, (409, "taken".to_owned()));
    assert_eq!(server.asks(Method::DELETE, "/admin/aliases/acme/perry", None).await.0, StatusCode::OK);
    let gone = server.refuses(Method::DELETE, "/admin/aliases/acme/perry", None).await;
    assert_eq!(gone, (404, "no_such_alias".to_owned()));
    assert_eq!(server.gets("/admin/aliases").await["items"], json!([]));
}

#[tokio::test]
async fn a_message_to_an_alias_reaches_the_agent_that_it_means() {
    let (server, _) = TestServer::settled().await;
    assert!(server.notifies("acme", "stork", "hello").await.dispatched.is_empty());
    server.makes("/admin/aliases", json!({ "tenant": "acme", "name": "stork", "agent": "heron" })).await;
    assert_eq!(server.notifies("acme", "stork", "hello").await.dispatched.len(), 1);
    server.asks(Method::DELETE, "/admin/aliases/acme/stork", None).await;
    assert!(server.notifies("acme", "stork", "hello").await.dispatched.is_empty());
}

#[tokio::test]
async fn an_alias_is_a_name_that_no_agent_of_the_tenant_has_and_means_somebody() {
    let (server, _) = TestServer::settled().await;
    server.makes("/admin/tenants", json!({ "name": "umbrella" })).await;
    let longest = "x".repeat(256);
    for (tenant, name, agent, refusal) in [
        ("acme", "heron", "desk", (409, "taken")),
        ("acme", "a@b", "desk", (422, "bad_name")),
        ("acme", "", "desk", (422, "bad_name")),
        ("acme", "inst_1", "desk", (422, "bad_name")),
        ("acme", "stork", "", (422, "bad_agent")),
        ("acme", "stork", &format!("{longest}x"), (422, "bad_agent")),
        ("nobody", "stork", "desk", (404, "no_such_tenant")),
    ] {
        let body = Some(json!({ "tenant": tenant, "name": name, "agent": agent }));
        let (status, code) = server.refuses(Method::POST, "/admin/aliases", body).await;
        assert_eq!((status, code.as_str()), refusal, "{tenant} {name}");
    }
    server.makes("/admin/aliases", json!({ "tenant": "acme", "name": "stork", "agent": longest })).await;
    // An agent's name in one tenant is free in another.
    server.makes("/admin/aliases", json!({ "tenant": "umbrella", "name": "heron", "agent": "x" })).await;
    let listed = server.gets("/admin/aliases?limit=1").await;
    assert_eq!((&listed["items"][0]["name"], &listed["next"]), (&json!("stork"), &json!("acme/stork")));
    let foreign = server.refuses(Method::DELETE, "/admin/aliases/umbrella/stork", None).await;
    assert_eq!(foreign, (404, "no_such_alias".to_owned()));
}

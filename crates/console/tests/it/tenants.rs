//! Tenants: permissions of their agents, and operator tokens for a tenant.

use http::{Method, StatusCode};
use serde_json::json;

use crate::test_server::TestServer;

#[tokio::test]
async fn agents_of_a_tenant_may_write_to_one_another_until_the_tenant_says_otherwise() {
    let (server, _) = TestServer::settled().await;
    assert_eq!(server.gets("/admin/tenants/acme").await["peer_post"], "all");
    for (said, meant) in [("none", "none"), ("all", "all")] {
        let body = Some(json!({ "peer_post": said }));
        let (status, changed) = server.asks(Method::PATCH, "/admin/tenants/acme", body).await;
        assert_eq!((status, &changed["peer_post"]), (StatusCode::OK, &json!(meant)));
        assert_eq!(changed["agents"], 1);
        assert_eq!(server.gets("/admin/tenants/acme").await, changed);
    }
    for (tenant, body, refusal) in [
        ("acme", json!({ "peer_post": "some" }), (400, "malformed")),
        ("acme", json!({ "peer-post": "none" }), (400, "malformed")),
        ("nobody", json!({ "peer_post": "none" }), (404, "no_such_tenant")),
    ] {
        let path = format!("/admin/tenants/{tenant}");
        let (status, code) = server.refuses(Method::PATCH, &path, Some(body)).await;
        assert_eq!((status, code.as_str()), refusal);
    }
    assert_eq!(server.gets("/admin/tenants/acme").await["peer_post"], "all");
}

#[tokio::test]
async fn the_operator_is_given_an_access_token_that_is_good_for_a_quarter_of_an_hour() {
    let (server, _) = TestServer::settled().await;
    let tenant = server.gets("/admin/tenants/acme").await["tenant_id"].clone();
    let given = server.makes("/admin/tenants/acme/token", json!({})).await;
    assert_eq!((&given["token_type"], &given["expires_in"]), (&json!("Bearer"), &json!(900)));
    assert_eq!((&given["tenant"], &given["tenant_id"]), (&json!("acme"), &tenant));
    let token = given["access_token"].as_str().unwrap();
    let bearer = server.owner_of(token).await.unwrap();
    assert_eq!(bearer.tenant.as_str(), tenant.as_str().unwrap());
    assert_eq!(bearer.client.as_str(), format!("operator:{}", tenant.as_str().unwrap()));
    let other = server.makes("/admin/tenants/acme/token", json!({})).await;
    assert_ne!(other["access_token"], given["access_token"]);
    server.timepiece.wind(std::time::Duration::from_secs(901));
    assert!(server.owner_of(token).await.is_none());
    let unknown = server.refuses(Method::POST, "/admin/tenants/nobody/token", None).await;
    assert_eq!(unknown, (404, "no_such_tenant".to_owned()));
}

#[tokio::test]
async fn the_limits_of_a_tenant_are_shown_with_their_origin_and_can_be_changed_and_reset() {
    let (server, _) = TestServer::settled().await;
    let shown = server.gets("/admin/tenants/acme").await;
    assert_eq!(shown["limits"].as_object().unwrap().len(), 10);
    let default = json!({ "limit": 120_000, "from": "default", "used": 0 });
    assert_eq!(shown["limits"]["messages_per_minute"], default);
    assert_eq!(shown["limits"]["agent_sockets"], json!({ "limit": 64, "from": "default" }));
    let change = json!({ "limits": { "messages_per_minute": 7, "agent_sockets": 0 }, "media_bytes": 5 });
    let (status, changed) = server.asks(Method::PATCH, "/admin/tenants/acme", Some(change)).await;
    assert_eq!(status, StatusCode::OK, "{changed}");
    let own = json!({ "limit": 7, "from": "tenant", "used": 0 });
    assert_eq!(changed["limits"]["messages_per_minute"], own);
    assert_eq!(changed["limits"]["agent_sockets"], json!({ "limit": 0, "from": "tenant" }));
    assert_eq!(changed["media_limit_bytes"], 5);
    let reset = json!({ "limits": { "messages_per_minute": "default" } });
    let (_, changed) = server.asks(Method::PATCH, "/admin/tenants/acme", Some(reset)).await;
    assert_eq!(changed["limits"]["messages_per_minute"], default);
    assert_eq!(changed["limits"]["agent_sockets"]["limit"], 0, "others stay");
    for (body, refusal) in [
        (json!({ "limits": { "messages_per_minute": -1 }, "media_bytes": 9 }), (422, "bad_limit")),
        (json!({ "limits": { "sockets": 4_294_967_296_u64 } }), (422, "bad_limit")),
        (json!({ "limits": { "sockets": "many" } }), (400, "malformed")),
        (json!({ "limits": { "letters_per_minute": 5 } }), (400, "malformed")),
    ] {
        let (status, code) = server.refuses(Method::PATCH, "/admin/tenants/acme", Some(body)).await;
        assert_eq!((status, code.as_str()), refusal);
    }
    assert_eq!(server.gets("/admin/tenants/acme").await, changed, "a refusal changes nothing");
}

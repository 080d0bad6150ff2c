//! Tenants: permissions of their agents, and operator tokens for a tenant.

use http::{Method, StatusCode};
use serde_json::json;

use crate::house::House;

#[tokio::test]
async fn agents_of_a_tenant_may_write_to_one_another_until_the_tenant_says_otherwise() {
    let (house, _) = House::settled().await;
    assert_eq!(house.gets("/admin/tenants/acme").await["peer_post"], "all");
    for (said, meant) in [("none", "none"), ("all", "all")] {
        let body = Some(json!({ "peer_post": said }));
        let (status, changed) = house.asks(Method::PATCH, "/admin/tenants/acme", body).await;
        assert_eq!((status, &changed["peer_post"]), (StatusCode::OK, &json!(meant)));
        assert_eq!(changed["agents"], 1);
        assert_eq!(house.gets("/admin/tenants/acme").await, changed);
    }
    for (tenant, body, refusal) in [
        ("acme", json!({ "peer_post": "some" }), (400, "malformed")),
        ("acme", json!({ "peer-post": "none" }), (400, "malformed")),
        ("nobody", json!({ "peer_post": "none" }), (404, "no_such_tenant")),
    ] {
        let path = format!("/admin/tenants/{tenant}");
        let (status, code) = house.refuses(Method::PATCH, &path, Some(body)).await;
        assert_eq!((status, code.as_str()), refusal);
    }
    assert_eq!(house.gets("/admin/tenants/acme").await["peer_post"], "all");
}

#[tokio::test]
async fn the_operator_is_given_an_access_token_that_is_good_for_a_quarter_of_an_hour() {
    let (house, _) = House::settled().await;
    let tenant = house.gets("/admin/tenants/acme").await["tenant_id"].clone();
    let given = house.makes("/admin/tenants/acme/token", json!({})).await;
    assert_eq!((&given["token_type"], &given["expires_in"]), (&json!("Bearer"), &json!(900)));
    assert_eq!((&given["tenant"], &given["tenant_id"]), (&json!("acme"), &tenant));
    let token = given["access_token"].as_str().unwrap();
    let bearer = house.owner_of(token).await.unwrap();
    assert_eq!(bearer.tenant.as_str(), tenant.as_str().unwrap());
    assert_eq!(bearer.client.as_str(), format!("operator:{}", tenant.as_str().unwrap()));
    let other = house.makes("/admin/tenants/acme/token", json!({})).await;
    assert_ne!(other["access_token"], given["access_token"]);
    house.timepiece.wind(std::time::Duration::from_secs(901));
    assert!(house.owner_of(token).await.is_none());
    let unknown = house.refuses(Method::POST, "/admin/tenants/nobody/token", None).await;
    assert_eq!(unknown, (404, "no_such_tenant".to_owned()));
}

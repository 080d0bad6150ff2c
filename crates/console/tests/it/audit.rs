//! Audit log: every change is recorded with its subject and its status, and without secrets.

use http::Method;
use serde_json::json;

use crate::test_server::TestServer;

#[tokio::test]
async fn every_change_is_on_record_and_no_question_is() {
    let (server, _) = TestServer::settled().await;
    let given = server.makes("/admin/tenants/acme/token", json!({})).await;
    server.gets("/admin/tenants").await;
    server.refuses(Method::DELETE, "/admin/tenants/nobody", None).await;
    server.refuses(Method::POST, "/admin/nothing-is-here", None).await;
    let made = server.makes("/admin/tenants", json!({ "name": "zeta" })).await;
    assert_eq!(made["name"], "zeta");

    let told = server.gets("/admin/audit?limit=3").await;
    let shown: Vec<(&str, Option<&str>, i64)> = told["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let operation = entry["operation"].as_str().unwrap();
            (operation, entry["about"].as_str(), entry["status"].as_i64().unwrap())
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("POST /tenants", Some("zeta"), 201),
            ("DELETE /tenants/nobody", None, 404),
            ("POST /tenants/acme/token", None, 200),
        ]
    );
    assert!(!told.to_string().contains(given["access_token"].as_str().unwrap()));

    let rest = server.gets(&format!("/admin/audit?after={}", told["next"].as_str().unwrap())).await;
    let first = rest["items"].as_array().unwrap().last().unwrap();
    assert_eq!((&first["operation"], &first["about"]), (&json!("POST /tenants"), &json!("acme")));
}

#[tokio::test]
async fn what_is_made_is_named_and_its_secrets_are_not() {
    let (server, _) = TestServer::settled().await;
    let client = server.makes("/admin/clients", json!({ "tenant": "acme" })).await;
    let connector = json!({
        "tenant": "acme", "name": "drawer", "kind": "noop", "hmac_secret": "canary-hmac", "settings": {}
    });
    server.asks(Method::POST, "/admin/connectors", Some(connector)).await;
    let told = server.gets("/admin/audit").await.to_string();
    assert!(!told.contains("canary"), "{told}");
    assert!(!told.contains(client["client_secret"].as_str().unwrap()), "{told}");
    for (made, named) in [("POST /clients", "acme"), ("POST /agents", "acme/")] {
        let entry = format!(r#""about":"{named}"#);
        assert!(told.contains(made) && told.contains(&entry), "{made}: {told}");
    }
}

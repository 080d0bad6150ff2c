//! Receipts as the operator sees them.

use http::Method;
use serde_json::{Value, json};

use crate::test_server::TestServer;

fn dispatches(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|item| item["dispatch_id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn receipts_of_every_tenant_are_listed_newest_first_and_found_by_what_narrows_them() {
    let (server, _) = TestServer::settled().await;
    server.makes("/admin/tenants", json!({ "name": "umbrella" })).await;
    server.makes("/admin/agents", json!({ "tenant": "umbrella", "name": "otter" })).await;
    let first = server.notifies("acme", "heron", "one").await.dispatch_id.to_string();
    let second = server.notifies("umbrella", "otter", "two").await.dispatch_id.to_string();
    let third = server.notifies("acme", "heron", "three").await.dispatch_id.to_string();
    let all = server.gets("/admin/receipts").await;
    assert_eq!(dispatches(&all), [&third, &second, &first]);
    let newest = &all["items"][0];
    assert_eq!((&newest["tenant"], &newest["agent_id"]), (&json!("acme"), &json!("heron")));
    assert_eq!((&newest["connector"], &newest["state"]), (&json!("relay"), &json!("queued")));
    for (query, found) in [
        ("tenant=acme", vec![&third, &first]),
        ("agent=otter", vec![&second]),
        ("state=queued&tenant=umbrella", vec![&second]),
        ("state=acknowledged", vec![]),
    ] {
        assert_eq!(dispatches(&server.gets(&format!("/admin/receipts?{query}")).await), found, "{query}");
    }
    let (mut seen, mut path) = (Vec::new(), "/admin/receipts?limit=2".to_owned());
    loop {
        let page = server.gets(&path).await;
        seen.extend(dispatches(&page).into_iter().map(str::to_owned));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/admin/receipts?limit=2&after={next}");
    }
    assert_eq!(seen, [third, second, first]);
    for (query, refusal) in [
        ("state=lost", (400, "malformed")),
        ("after=x", (400, "malformed")),
        ("tenant=x", (404, "no_such_tenant")),
    ] {
        let (status, code) = server.refuses(Method::GET, &format!("/admin/receipts?{query}"), None).await;
        assert_eq!((status, code.as_str()), refusal, "{query}");
    }
}

#[tokio::test]
async fn one_dispatch_is_shown_with_everything_that_it_reached() {
    let (server, _) = TestServer::settled().await;
    server
        .makes(
            "/admin/connectors",
            json!({ "tenant": "acme", "name": "hooks", "kind": "webhook", "force": true,
        "settings": { "agents": { "heron": { "url": "https://heron.invalid/" } } } }),
        )
        .await;
    let sent = server.notifies("acme", "heron", "nobody's business").await;
    let shown = server.gets(&format!("/admin/receipts/{}", sent.dispatch_id)).await;
    assert_eq!(shown["dispatch_id"], sent.dispatch_id.as_str());
    let connectors: Vec<&Value> =
        shown["items"].as_array().unwrap().iter().map(|item| &item["connector"]).collect();
    assert_eq!(connectors, ["relay", "hooks"]);
    assert!(!shown.to_string().contains("business"), "a receipt is no copy of what was said");
    for unknown in ["d-unheard-of", "..%2Fx", "a%20b"] {
        let refused = server.refuses(Method::GET, &format!("/admin/receipts/{unknown}"), None).await;
        assert_eq!(refused, (404, "no_such_receipt".to_owned()), "{unknown}");
    }
}

#[tokio::test]
async fn a_message_is_traced_by_its_dispatch_and_tells_it_by_its_entry() {
    let (server, heron) = TestServer::settled().await;
    let sent = server.notifies("acme", "heron", "nobody's business").await;
    let dispatch = sent.dispatch_id.as_str();
    let trace = server.gets(&format!("/admin/messages/{dispatch}")).await;
    let story = &trace["items"][0];
    assert_eq!((&story["what"], &story["dispatch_id"]), (&json!("inbound"), &json!(dispatch)));
    assert_eq!(story["instance_id"], heron["instance_id"]);
    let steps: Vec<&str> =
        story["steps"].as_array().unwrap().iter().map(|step| step["what"].as_str().unwrap()).collect();
    assert_eq!(steps[0], "emitted");
    assert!(steps.contains(&"accepted"), "{steps:?}");
    let entry = story["id"].as_str().unwrap();
    assert!(entry.starts_with("ent_"));
    assert_eq!(server.gets(&format!("/admin/messages/{entry}")).await["items"][0], *story);
    assert!(!trace.to_string().contains("business"));
    let unknown = server.refuses(Method::GET, "/admin/messages/d-unheard-of", None).await;
    assert_eq!(unknown, (404, "no_such_message".to_owned()));
}

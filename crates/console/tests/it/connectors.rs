//! Connectors: created, checked and removed by the operator; their secrets are never shown.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::test_server::TestServer;

const AUTHORIZATION: &str = "Bearer canary-authorization";
const HMAC: &str = "canary-hmac-secret";

/// A webhook that cannot be reached, because its host name does not exist.
fn webhook(name: &str) -> Value {
    json!({
        "tenant": "acme",
        "name": name,
        "kind": "webhook",
        "settings": { "agents": { "desk": { "url": "https://desk.invalid/hook" } } },
    })
}

fn names(listed: &Value) -> Vec<&str> {
    listed["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_connector_is_made_listed_looked_at_and_removed() {
    let (server, _) = TestServer::settled().await;
    let made =
        server.makes("/admin/connectors", json!({ "tenant": "acme", "name": "void", "kind": "noop" })).await;
    assert_eq!(
        (&made["tenant"], &made["name"], &made["kind"]),
        (&json!("acme"), &json!("void"), &json!("noop"))
    );
    assert_eq!((&made["authorization"], &made["hmac_secret"]), (&json!(false), &json!(false)));
    assert!(made["connector_id"].as_str().unwrap().starts_with("con_"));
    assert_eq!(server.gets("/admin/connectors/acme/void").await, made);
    // A list calls no connector, so it does not tell their health.
    let mut listed = made.clone();
    listed["healthy"] = Value::Null;
    assert_eq!(server.gets("/admin/connectors").await["items"], json!([listed]));

    let health = server.makes("/admin/connectors/acme/void/check", json!({})).await;
    assert_eq!((&health["healthy"], &health["agents"]), (&json!(true), &json!([])));
    assert_eq!(health["contract_version"], "1.0.0");
    assert_eq!(health["features"]["request_response"], false);
    let line = server.makes("/admin/connectors/acme/relay/check", json!({})).await;
    assert_eq!((&line["healthy"], &line["features"]["request_response"]), (&json!(true), &json!(true)));

    assert_eq!(server.asks(Method::DELETE, "/admin/connectors/acme/void", None).await.0, StatusCode::OK);
    let gone = (404, "no_such_connector".to_owned());
    for (method, path) in [
        (Method::GET, "/admin/connectors/acme/void"),
        (Method::DELETE, "/admin/connectors/acme/void"),
        (Method::POST, "/admin/connectors/acme/void/check"),
        (Method::DELETE, "/admin/connectors/acme/relay"),
    ] {
        assert_eq!(server.refuses(method, path, None).await, gone, "{path}");
    }
}

#[tokio::test]
async fn connectors_are_listed_by_tenant_in_the_order_of_their_making_a_page_at_a_time() {
    let (server, _) = TestServer::settled().await;
    server.makes("/admin/tenants", json!({ "name": "umbrella" })).await;
    for (tenant, name) in [("acme", "zulu"), ("umbrella", "void"), ("acme", "alpha"), ("acme", "mike")] {
        server.makes("/admin/connectors", json!({ "tenant": tenant, "name": name, "kind": "noop" })).await;
        server.timepiece.wind(std::time::Duration::from_millis(5));
    }
    assert_eq!(names(&server.gets("/admin/connectors?tenant=acme").await), ["zulu", "alpha", "mike"]);
    assert_eq!(names(&server.gets("/admin/connectors?tenant=umbrella").await), ["void"]);
    let (mut seen, mut path) = (Vec::new(), "/admin/connectors?limit=3".to_owned());
    loop {
        let page = server.gets(&path).await;
        seen.extend(names(&page).into_iter().map(str::to_owned));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/admin/connectors?limit=3&after={next}");
    }
    assert_eq!(seen, ["zulu", "alpha", "mike", "void"]);
    assert_eq!(
        server.refuses(Method::GET, "/admin/connectors?tenant=nobody", None).await,
        (404, "no_such_tenant".to_owned())
    );
}

#[tokio::test]
async fn the_secrets_of_a_connector_are_seen_by_nobody_again() {
    let (server, _) = TestServer::settled().await;
    let mut body = webhook("hooks");
    body["authorization"] = AUTHORIZATION.into();
    body["hmac_secret"] = HMAC.into();
    body["force"] = true.into();
    let made = server.makes("/admin/connectors", body.clone()).await;
    assert_eq!((&made["authorization"], &made["hmac_secret"]), (&json!(true), &json!(true)));
    let shown = server.gets("/admin/connectors/acme/hooks").await;
    assert_eq!(shown["connector_id"], made["connector_id"]);
    assert_eq!(shown["settings"]["agents"]["desk"]["url"], "https://desk.invalid/hook");
    let mut answers = vec![made, shown, server.gets("/admin/connectors").await];
    answers.push(server.makes("/admin/connectors/acme/hooks/check", json!({})).await);
    // Nor do refusals quote secrets from the request.
    answers.push(server.asks(Method::POST, "/admin/connectors", Some(body.clone())).await.1);
    body["hmac_secret"] = json!([HMAC]);
    let (status, refused) = server.asks(Method::POST, "/admin/connectors", Some(body.clone())).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    answers.push(refused);
    for answer in &answers {
        assert!(!answer.to_string().contains("canary"), "{answer}");
    }

    let mut one = webhook("half");
    one["hmac_secret"] = HMAC.into();
    one["force"] = true.into();
    let made = server.makes("/admin/connectors", one).await;
    assert_eq!((&made["authorization"], &made["hmac_secret"]), (&json!(false), &json!(true)));
}

#[tokio::test]
async fn what_is_not_healthy_is_not_made_unless_it_is_forced() {
    let (server, _) = TestServer::settled().await;
    let refused = server.refuses(Method::POST, "/admin/connectors", Some(webhook("hooks"))).await;
    assert_eq!(refused, (422, "unhealthy".to_owned()));
    assert_eq!(server.gets("/admin/connectors").await["items"], json!([]));
    let mut forced = webhook("hooks");
    forced["force"] = true.into();
    server.makes("/admin/connectors", forced).await;
    let health = server.makes("/admin/connectors/acme/hooks/check", json!({})).await;
    assert_eq!((&health["healthy"], &health["agents"][0]["agent_id"]), (&json!(false), &json!("desk")));
}

#[tokio::test]
async fn what_cannot_be_a_connector_is_refused_with_its_reason() {
    let (server, _) = TestServer::settled().await;
    let noop = json!({ "tenant": "acme", "name": "void", "kind": "noop" });
    server.makes("/admin/connectors", noop.clone()).await;
    let with = |name: &str, value: Value| {
        let mut body = noop.clone();
        body["name"] = "other".into();
        body[name] = value;
        body
    };
    let mut bare_header = webhook("hooks");
    bare_header["authorization"] = "two\nlines".into();
    let mut private = webhook("hooks");
    private["settings"]["agents"]["desk"]["url"] = "http://127.0.0.1:9/".into();
    for (body, refusal) in [
        (noop.clone(), (409, "taken")),
        (with("name", json!("relay")), (409, "taken")),
        (with("tenant", json!("nobody")), (404, "no_such_tenant")),
        (with("kind", json!("pigeon")), (422, "bad_connector")),
        (with("name", json!("a/b")), (422, "bad_connector")),
        (with("authorization", json!("")), (422, "bad_connector")),
        (with("authorization", json!("Bearer x")), (422, "bad_connector")),
        (with("kind", json!("webhook")), (422, "bad_connector")),
        (bare_header, (422, "bad_connector")),
        (private, (422, "not_allowed")),
        (with("secret", json!("x")), (400, "malformed")),
        (json!({ "tenant": "acme", "kind": "noop" }), (400, "malformed")),
        (
            json!({ "tenant": "acme", "name": "panes", "kind": "tmux", "settings": { "sessions": { "desk": "main" } } }),
            (422, "not_allowed"),
        ),
    ] {
        let (status, code) = server.refuses(Method::POST, "/admin/connectors", Some(body.clone())).await;
        assert_eq!((status, code.as_str()), refusal, "{body}");
    }
    assert_eq!(names(&server.gets("/admin/connectors").await), ["void"]);
}

#[tokio::test]
async fn a_connector_of_one_tenant_is_absent_in_another() {
    let (server, _) = TestServer::settled().await;
    server.makes("/admin/tenants", json!({ "name": "umbrella" })).await;
    server.makes("/admin/connectors", json!({ "tenant": "acme", "name": "void", "kind": "noop" })).await;
    for (method, path) in [
        (Method::GET, "/admin/connectors/umbrella/void"),
        (Method::DELETE, "/admin/connectors/umbrella/void"),
        (Method::POST, "/admin/connectors/umbrella/void/check"),
    ] {
        let refusal = (404, "no_such_connector".to_owned());
        assert_eq!(server.refuses(method, path, None).await, refusal, "{path}");
    }
    server.gets("/admin/connectors/acme/void").await;
}

#[tokio::test]
async fn why_a_connector_is_not_healthy_is_told_by_its_name_and_whom_it_leads_to_and_no_more() {
    let (server, _) = TestServer::settled().await;
    let mut body = webhook("hooks");
    body["settings"]["agents"]["desk"]["url"] = "https://desk.invalid/path-canary?key=query-canary".into();
    let (status, refused) = server.asks(Method::POST, "/admin/connectors", Some(body.clone())).await;
    assert_eq!(status, 422, "{refused}");
    body["force"] = true.into();
    let made = server.makes("/admin/connectors", body).await;
    assert_eq!((&made["healthy"], &made["why"]), (&Value::Null, &Value::Null), "nobody looked");
    let shown = server.gets("/admin/connectors/acme/hooks").await;
    let checked = server.makes("/admin/connectors/acme/hooks/check", json!({})).await;
    for health in [&shown, &checked] {
        assert_eq!(health["healthy"], false, "{health}");
    }
    for why in [&refused["detail"], &shown["why"], &checked["why"]] {
        let why = why.as_str().unwrap();
        assert!(why.contains("'desk'") && why.contains("https://desk.invalid"), "{why}");
        assert!(!why.contains("canary"), "{why}");
    }
    assert!(refused["detail"].as_str().unwrap().contains("`hooks`"), "{refused}");
}

#[tokio::test]
async fn a_connector_that_may_not_be_opened_is_listed_as_unhealthy_with_its_reason() {
    let (server, _) = TestServer::settled().await;
    let tenant = server.identity.roster.records().tenant("acme").await.unwrap().unwrap().id;
    // Created while the server still allowed tmux.
    let record = ledger::ConnectorRecord {
        id: posthouse_wire::ConnectorId::new("con_panes"),
        tenant: tenant.clone(),
        name: "panes".to_owned(),
        kind: "tmux".to_owned(),
        settings: json!({ "sessions": { "desk": "main" } }).to_string(),
        created: server.timepiece.now(),
    };
    server.post.connectors().records().create_connector(record, Vec::new()).await.unwrap();
    server.post.connectors().changed(&tenant);
    let listed = server.gets("/admin/connectors").await["items"][0].clone();
    let shown = server.gets("/admin/connectors/acme/panes").await;
    let checked = server.makes("/admin/connectors/acme/panes/check", json!({})).await;
    for health in [&listed, &shown, &checked] {
        assert_eq!(health["healthy"], false, "{health}");
        assert!(health["why"].as_str().unwrap().contains("post.tmux"), "{health}");
        assert_eq!(health["features"]["request_response"], false, "{health}");
    }
    assert_eq!(checked["agents"][0]["agent_id"], "desk");
}

#[tokio::test]
async fn what_is_wired_is_told_as_the_contract_lists_capabilities() {
    let (server, _) = TestServer::settled().await;
    server.makes("/admin/connectors", json!({ "tenant": "acme", "name": "void", "kind": "noop" })).await;
    let shown = server.gets("/admin/connectors/acme/void").await;
    let checked = server.makes("/admin/connectors/acme/void/check", json!({})).await;
    let line = server.makes("/admin/connectors/acme/relay/check", json!({})).await;
    for (told, implementation) in [(&shown, "noop"), (&checked, "noop"), (&line, "relay")] {
        assert_eq!(told["connector_type"], "agent_connector", "{told}");
        assert_eq!(
            (&told["implementation"], &told["contract_version"]),
            (&json!(implementation), &json!("1.0.0"))
        );
        assert_eq!(told["features"].as_object().unwrap().len(), 6, "{told}");
        // Null, and there: an absent manifest is told as such, and is no error.
        assert_eq!(told.get("manifest"), Some(&Value::Null), "{told}");
        assert_eq!(told["manifest_unsupported"], true, "{told}");
        assert!(told.get("manifest_error").is_none(), "{told}");
    }
}

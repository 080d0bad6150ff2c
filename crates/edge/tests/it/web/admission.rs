//! Access to the chat page.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use http::{Method, StatusCode};
use http_kit::{RequestControl, RequestLimits};
use posthouse_wire::TenantId;
use serde_json::json;

use super::actors::{From, TestServer};

const HOME: (&str, &str) = ("host", "localhost:7678");

/// Everything that needs an invitation, with a body where one is needed.
fn everything(agent: &str, room: &str) -> Vec<(Method, String, String)> {
    let post = |path: String, body: serde_json::Value| (Method::POST, path, body.to_string());
    vec![
        (Method::GET, "/chat/api/agents".to_owned(), String::new()),
        (Method::GET, format!("/chat/api/rooms/{room}/stream"), String::new()),
        post("/chat/api/agents".to_owned(), json!({"name": "mallory"})),
        post("/chat/api/rooms".to_owned(), json!({"agent": agent})),
        post(format!("/chat/api/rooms/{room}/messages"), json!({"text": "hi", "nonce": "nonce-9999"})),
        post("/chat/api/stop".to_owned(), json!({"room": room})),
    ]
}

#[tokio::test]
async fn a_process_on_the_same_machine_needs_an_invitation_like_everybody_else() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let local = ("origin", "http://localhost:7678");
    let cookie = server.page_of("ann").await.headers.pop().unwrap().1;
    let forged = format!("{}=00ff", cookie.split_once('=').unwrap().0);
    let strangers = [
        From::here(),
        From::of("::1", &[("host", "[::1]:7678"), ("origin", "http://[::1]:7678")]),
        From::here().with("cookie", &forged),
        From::of("203.0.113.9", &[HOME, local]),
        From::of("127.0.0.1", &[HOME, local, ("x-forwarded-for", "127.0.0.1")]),
        From::outside(),
    ];
    for (number, stranger) in strangers.iter().enumerate() {
        for (method, path, body) in everything(heron.instance.as_str(), &room) {
            let response = server.send(stranger, method.clone(), &path, Body::from(body)).await;
            assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "stranger {number} at {method} {path}");
        }
    }
    assert!(heron.unread().await.is_empty());
    assert!(!server.get(&server.owner().await, "/chat/api/agents").await.text.contains("mallory"));
}

#[tokio::test]
async fn another_sites_page_finds_nothing_even_with_the_cookie() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let cookie = server.page_of("ann").await.headers.pop().unwrap();
    let foreign = [
        From::of("127.0.0.1", &[HOME, ("origin", "http://evil.example")]),
        From::of("127.0.0.1", &[HOME, ("origin", "http://localhost:3000")]),
        From::of("127.0.0.1", &[HOME, ("origin", "null")]),
        From::of("127.0.0.1", &[HOME, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "cors")]),
        From::of("127.0.0.1", &[]),
    ];
    for (number, site) in foreign.into_iter().enumerate() {
        let site = site.with(cookie.0, &cookie.1);
        for (method, path, body) in everything(heron.instance.as_str(), &room) {
            let response = server.send(&site, method.clone(), &path, Body::from(body)).await;
            assert_eq!(response.status(), StatusCode::NOT_FOUND, "site {number} at {method} {path}");
        }
    }
    assert!(heron.unread().await.is_empty());
}

#[tokio::test]
async fn an_uninvited_visitor_sees_a_page_and_not_json() {
    let server = TestServer::open().await;
    for visitor in [From::here(), From::outside(), From::of("192.168.1.7", &[("host", "192.168.1.1:7678")])] {
        let page = server.get(&visitor, "/chat").await;
        assert_eq!(page.status, StatusCode::OK);
        assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
        assert!(page.text.contains("posthouse invite create"), "it says how one is invited");
    }
}

#[tokio::test]
async fn every_answer_forbids_what_the_page_does_not_need() {
    let server = TestServer::open().await;
    let owner = server.owner().await;
    for (path, kind) in [
        ("/chat", "text/html; charset=utf-8"),
        ("/chat/page.js", "text/javascript; charset=utf-8"),
        ("/chat/page.css", "text/css; charset=utf-8"),
        ("/chat/icon.svg", "image/svg+xml"),
        ("/chat/api/agents", "application/json"),
        ("/chat/none.js", "application/problem+json"),
    ] {
        let answer = server.get(&owner, path).await;
        assert_eq!(answer.headers["content-type"], kind, "{path}");
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'self';") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers["referrer-policy"], "no-referrer");
        assert_eq!(answer.headers["cache-control"], "no-store");
    }
    let slash = server.get(&From::here(), "/chat/?a=b").await;
    assert_eq!(
        (slash.status, &slash.headers["location"]),
        (StatusCode::PERMANENT_REDIRECT, &"../chat?a=b".parse().unwrap())
    );
}

#[tokio::test]
async fn only_an_owner_makes_agents_and_their_making_is_on_record() {
    let server = TestServer::open().await;
    let guest = server.page_of("ann").await;
    assert!(server.post(&guest, "/chat/api/agents", json!({"name": "heron"})).await.is_absence());
    assert!(server.audit().entries(None, 10).await.unwrap().is_empty());

    let owner = server.owner().await;
    let made = server.post(&owner, "/chat/api/agents", json!({"name": "heron"})).await;
    assert_eq!(made.status, StatusCode::CREATED);
    assert!(made.text.contains("canary-secret") && made.text.contains("hermes/bin/hermes gateway run"));
    let entries = server.audit().entries(None, 10).await.unwrap();
    let [(_, entry)] = &entries[..] else { panic!("one deed") };
    assert_eq!((entry.operation.as_str(), entry.status), ("POST /chat/api/agents", 201));
    assert_eq!(entry.caller, Some("127.0.0.1".parse().unwrap()));
    let about = entry.about.as_deref().unwrap();
    assert!(about.contains("heron") && about.contains("olga") && !about.contains("canary"), "{about}");

    let listed = server.get(&owner, "/chat/api/agents").await;
    assert!(!listed.text.contains("canary-secret"));
    let listed = listed.json();
    let [agent] = &listed["agents"].as_array().unwrap()[..] else { panic!("one agent") };
    assert_eq!((&agent["name"], &agent["connected"]), (&json!("heron"), &json!(false)));
    let again = server.post(&owner, "/chat/api/agents", json!({"name": "heron"})).await;
    assert_eq!((again.status, &again.json()["code"]), (StatusCode::CONFLICT, &json!("name_taken")));
    for bad in ["", "a b", "-x", "inst_1", "é"] {
        let unfit = server.post(&owner, "/chat/api/agents", json!({"name": bad})).await;
        assert_eq!(unfit.status, StatusCode::UNPROCESSABLE_ENTITY, "{bad}");
    }
}

/// Admits every principal except one, and records all of them.
struct Places {
    came: Mutex<Vec<(String, Option<TenantId>)>>,
    full: Option<String>,
}

impl RequestLimits for Places {
    fn proven(&self, principal: &str, tenant: Option<&str>) -> bool {
        self.came.lock().unwrap().push((principal.to_owned(), tenant.map(TenantId::from)));
        self.full.as_deref() != Some(principal)
    }

    fn is_at_capacity(&self) -> bool {
        false
    }

    fn stream_body(&self) {}
}

#[tokio::test]
async fn requests_of_the_page_count_against_the_invitation_and_its_tenant() {
    let server = TestServer::open().await;
    let (id, secret) = server.invites("ann", false).await;
    let page = server.signs_in(From::here(), &secret).await;
    let principal = format!("invitation:{id}");
    for (full, status) in [(None, StatusCode::OK), (Some(principal.clone()), StatusCode::TOO_MANY_REQUESTS)] {
        let places = Arc::new(Places { came: Mutex::default(), full });
        let control = Some(RequestControl::new(places.clone()));
        let answer = server.get(&From { control, ..page.clone() }, "/chat/api/agents").await;
        assert_eq!(answer.status, status);
        let tenant = Some(server.tenant("acme").await);
        assert_eq!(*places.came.lock().unwrap(), [(principal.clone(), tenant)]);
    }
}

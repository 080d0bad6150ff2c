//! Who may use the page at all.

use axum::body::Body;
use http::{Method, StatusCode};
use serde_json::json;

use super::actors::{From, House};

const HOME: (&str, &str) = ("host", "localhost:7678");

/// Everything the page is made of, with a body where one is needed.
fn everything(agent: &str, room: &str) -> Vec<(Method, String, String)> {
    let post = |path: String, body: serde_json::Value| (Method::POST, path, body.to_string());
    vec![
        (Method::GET, "/chat".to_owned(), String::new()),
        (Method::GET, "/chat/".to_owned(), String::new()),
        (Method::GET, "/chat/page.js".to_owned(), String::new()),
        (Method::GET, "/chat/api/agents".to_owned(), String::new()),
        (Method::GET, format!("/chat/api/rooms/{room}/stream"), String::new()),
        post("/chat/api/agents".to_owned(), json!({"name": "mallory"})),
        post("/chat/api/rooms".to_owned(), json!({"agent": agent, "person": "ann"})),
        post(format!("/chat/api/rooms/{room}/messages"), json!({"text": "hi", "nonce": "nonce-9999"})),
        post("/chat/api/stop".to_owned(), json!({"room": room})),
    ]
}

#[tokio::test]
async fn whoever_is_not_at_this_machine_finds_nothing() {
    let house = House::open().await;
    let heron = house.enrol("heron").await;
    let room = house.enters("ann", &heron.instance).await;
    let local = ("origin", "http://localhost:7678");
    let strangers = [
        From::of("203.0.113.9", &[HOME, local]),
        From::of("192.168.1.7", &[("host", "192.168.1.1:7678"), ("origin", "http://192.168.1.1:7678")]),
        From::of("127.0.0.1", &[("host", "evil.example"), ("origin", "http://evil.example")]),
        From::of("127.0.0.1", &[("host", "localhost.evil.example:7678"), local]),
        From::of("127.0.0.1", &[HOME, ("origin", "http://evil.example")]),
        From::of("127.0.0.1", &[HOME, ("origin", "http://localhost:3000")]),
        From::of("127.0.0.1", &[HOME, ("origin", "null")]),
        From::of("127.0.0.1", &[HOME, local, ("x-forwarded-for", "203.0.113.9")]),
        From::of("127.0.0.1", &[HOME, local, ("forwarded", "for=203.0.113.9")]),
        From::of("127.0.0.1", &[HOME, local, ("via", "1.1 proxy")]),
        From::of("127.0.0.1", &[HOME, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "cors")]),
        From::of("127.0.0.1", &[]),
        From::outside(),
        From::outside().with("cookie", "posthouse_chat=00ff"),
    ];
    for (number, stranger) in strangers.iter().enumerate() {
        for (method, path, body) in everything(heron.instance.as_str(), &room) {
            let response = house.send(stranger, method.clone(), &path, Body::from(body)).await;
            assert_eq!(response.status(), StatusCode::NOT_FOUND, "stranger {number} at {method} {path}");
            assert_eq!(response.headers()["content-type"], "application/problem+json");
        }
    }
    assert!(heron.unread().await.is_empty());
    assert!(!house.get(&From::home(), "/chat/api/agents").await.text.contains("mallory"));
}

#[tokio::test]
async fn this_machine_is_known_by_all_its_names() {
    let house = House::open().await;
    for (ip, host) in [
        ("127.0.0.1", "localhost:7678"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "[::1]:7678"),
        ("::ffff:127.0.0.1", "LOCALHOST:80"),
    ] {
        let here = From::of(ip, &[("host", host)]);
        assert_eq!(house.get(&here, "/chat").await.status, StatusCode::OK, "{host}");
        let page = here.with("origin", &format!("http://{host}"));
        assert_eq!(house.get(&page, "/chat/api/agents").await.status, StatusCode::OK, "{host}");
    }
}

#[tokio::test]
async fn every_answer_forbids_what_the_page_does_not_need() {
    let house = House::open().await;
    for (path, kind) in [
        ("/chat", "text/html; charset=utf-8"),
        ("/chat/page.js", "text/javascript; charset=utf-8"),
        ("/chat/page.css", "text/css; charset=utf-8"),
        ("/chat/icon.svg", "image/svg+xml"),
        ("/chat/api/agents", "application/json"),
        ("/chat/none.js", "application/problem+json"),
    ] {
        let answer = house.get(&From::home(), path).await;
        assert_eq!(answer.headers["content-type"], kind, "{path}");
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'self';") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers["referrer-policy"], "no-referrer");
        assert_eq!(answer.headers["cache-control"], "no-store");
    }
    let slash = house.get(&From::home(), "/chat/?invite=ab").await;
    assert_eq!(
        (slash.status, &slash.headers["location"]),
        (StatusCode::PERMANENT_REDIRECT, &"../chat?invite=ab".parse().unwrap())
    );
}

#[tokio::test]
async fn an_agent_is_made_once_and_its_secret_shown_once() {
    let house = House::open().await;
    let made = house.post(&From::home(), "/chat/api/agents", json!({"name": "heron"})).await;
    assert_eq!(made.status, StatusCode::CREATED);
    assert!(made.text.contains("canary-secret") && made.text.contains("hermes gateway run"));
    let listed = house.get(&From::home(), "/chat/api/agents").await;
    assert!(!listed.text.contains("canary-secret"));
    let listed = listed.json();
    let [agent] = &listed["agents"].as_array().unwrap()[..] else { panic!("one agent") };
    assert_eq!(
        (&agent["name"], &agent["tenant"], &agent["connected"]),
        (&json!("heron"), &json!("acme"), &json!(false))
    );
    let again = house.post(&From::home(), "/chat/api/agents", json!({"name": "heron"})).await;
    assert_eq!((again.status, &again.json()["code"]), (StatusCode::CONFLICT, &json!("name_taken")));
    for bad in ["", "a b", "-x", "inst_1", "é"] {
        let unfit = house.post(&From::home(), "/chat/api/agents", json!({"name": bad})).await;
        assert_eq!(unfit.status, StatusCode::UNPROCESSABLE_ENTITY, "{bad}");
    }
}

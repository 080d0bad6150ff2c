//! Authentication of the admin API, and refusal of malformed requests.

use axum::body::Body;
use http::{Method, Request, StatusCode};
use serde_json::json;

use crate::test_server::{ADMIN, TestServer};

#[tokio::test]
async fn without_the_token_everything_looks_the_same_whether_it_exists_or_not() {
    let server = TestServer::open().await;
    let mut answers = Vec::new();
    for (method, path) in [
        (Method::GET, "/admin/tenants"),
        (Method::POST, "/admin/tenants"),
        (Method::PUT, "/admin/tenants"),
        (Method::GET, "/admin/nowhere"),
        (Method::GET, "/admin/agents/inst_1"),
        (Method::GET, "/admin"),
    ] {
        for header in ["", "Bearer ", "Bearer wrong", "Basic canary-admin", "Bearer canary-admin2"] {
            let request = Request::builder().method(&method).uri(path).header("authorization", header);
            let (status, answer) = server.hears(request.body(Body::from("{")).unwrap()).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{method} {path} {header}");
            answers.push(answer);
        }
    }
    assert!(answers.iter().all(|answer| answer == &answers[0] && answer["code"] == "unauthorized"));
}

#[tokio::test]
async fn two_authorizations_are_none() {
    let server = TestServer::open().await;
    let request = Request::builder()
        .uri("/admin/tenants")
        .header("authorization", format!("Bearer {ADMIN}"))
        .header("authorization", "Bearer other");
    assert_eq!(server.hears(request.body(Body::empty()).unwrap()).await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_in_words() {
    let server = TestServer::open().await;
    assert_eq!(server.refuses(Method::GET, "/admin/nowhere", None).await, (404, "not_found".to_owned()));
    assert_eq!(
        server.refuses(Method::PUT, "/admin/tenants", None).await,
        (405, "method_not_allowed".to_owned())
    );
    let large = json!({ "name": "x".repeat(300 * 1024) });
    assert_eq!(
        server.refuses(Method::POST, "/admin/tenants", Some(large)).await,
        (413, "too_large".to_owned())
    );

    let (status, answer) = server.asks(Method::POST, "/admin/tenants", Some(json!({ "nmae": "acme" }))).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(answer["detail"].as_str().unwrap().contains("unknown field `nmae`"), "{answer}");
    let (status, answer) = server.asks(Method::GET, "/admin/agents?tenent=acme", None).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(answer["detail"].as_str().unwrap().contains("tenent"), "{answer}");
}

#[tokio::test]
async fn tenants_are_made_once_and_removed_when_empty() {
    let server = TestServer::open().await;
    let made = server.makes("/admin/tenants", json!({ "name": "acme" })).await;
    assert!(made["tenant_id"].as_str().unwrap().starts_with("ten_"));
    let again = Some(json!({ "name": "acme" }));
    assert_eq!(server.refuses(Method::POST, "/admin/tenants", again).await, (409, "taken".to_owned()));
    for bad in [json!("a/b"), made["tenant_id"].clone()] {
        let bad = Some(json!({ "name": bad }));
        assert_eq!(server.refuses(Method::POST, "/admin/tenants", bad).await, (422, "bad_name".to_owned()));
    }
    assert_eq!(server.gets("/admin/tenants").await["items"][0]["name"], "acme");

    let heron = server.makes("/admin/agents", json!({ "tenant": "acme", "name": "heron" })).await;
    assert_eq!(server.gets("/admin/tenants/acme").await["agents"], 1);
    assert_eq!(server.refuses(Method::DELETE, "/admin/tenants/acme", None).await, (409, "in_use".to_owned()));
    let path = format!("/admin/agents/{}", heron["instance_id"].as_str().unwrap());
    assert_eq!(server.asks(Method::DELETE, &path, None).await.0, StatusCode::OK);
    assert_eq!(server.asks(Method::DELETE, "/admin/tenants/acme", None).await.0, StatusCode::OK);
    assert_eq!(
        server.refuses(Method::GET, "/admin/tenants/acme", None).await,
        (404, "no_such_tenant".to_owned())
    );
}

#[tokio::test]
async fn a_backup_goes_to_a_new_file_named_in_full() {
    let server = TestServer::open().await;
    let relative = Some(json!({ "path": "copy.db" }));
    assert_eq!(server.refuses(Method::POST, "/admin/backup", relative).await, (422, "bad_path".to_owned()));
    let there = Some(json!({ "path": "/" }));
    assert_eq!(server.refuses(Method::POST, "/admin/backup", there).await, (409, "exists".to_owned()));
    server.makes("/admin/backup", json!({ "path": "/nowhere/copy.db" })).await;
    assert_eq!(server.backups.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn an_invitation_names_a_tenant_is_a_link_shown_once_and_can_be_withdrawn() {
    let server = TestServer::open().await;
    server.makes("/admin/tenants", json!({ "name": "acme" })).await;
    server.makes("/admin/agents", json!({ "tenant": "acme", "name": "heron" })).await;
    let nameless = Some(json!({ "person": "Zoë 🦉" }));
    assert_eq!(server.refuses(Method::POST, "/admin/invites", nameless).await.0, 400);
    let nowhere = Some(json!({ "person": "Zoë 🦉", "tenant": "none" }));
    assert_eq!(
        server.refuses(Method::POST, "/admin/invites", nowhere).await,
        (404, "no_such_tenant".to_owned())
    );
    let nobody = Some(json!({ "person": "Zoë 🦉", "tenant": "acme", "agents": ["otter"] }));
    assert_eq!(
        server.refuses(Method::POST, "/admin/invites", nobody).await,
        (404, "no_such_agent".to_owned())
    );
    let wanted = json!({ "person": "Zoë 🦉", "tenant": "acme", "agents": ["heron"] });
    let link = server.makes("/admin/invites", wanted).await;
    let url = link["url"].as_str().unwrap();
    let secret = url.strip_prefix("http://127.0.0.1:7678/chat#invite=").unwrap();
    let listed = server.gets("/admin/invites").await;
    let shown = &listed["items"][0];
    assert_eq!((&shown["person"], &shown["tenant"]), (&json!("Zoë 🦉"), &json!("acme")));
    assert_eq!((&shown["owner"], shown["agents"].as_array().unwrap().len()), (&json!(false), 1));
    assert!(!listed.to_string().contains(secret));
    let path = "/admin/invites/Zo%C3%AB%20%F0%9F%A6%89";
    let renewed = server.makes(&format!("{path}/link"), json!({})).await;
    assert_eq!(renewed["id"], link["id"]);
    assert_ne!(renewed["url"], link["url"]);
    // A name that two agents share is ambiguous.
    let twin =
        server.makes("/admin/invites", json!({ "person": "Zoë 🦉", "tenant": "acme", "owner": true })).await;
    assert_eq!(server.refuses(Method::DELETE, path, None).await, (409, "ambiguous".to_owned()));
    let by_id = format!("/admin/invites/{}", twin["id"].as_str().unwrap());
    assert_eq!(server.asks(Method::DELETE, &by_id, None).await.0, StatusCode::OK);
    assert_eq!(server.asks(Method::DELETE, path, None).await.0, StatusCode::OK);
    assert_eq!(server.refuses(Method::DELETE, path, None).await, (404, "no_such_invite".to_owned()));
}

#[tokio::test]
async fn wrong_admin_tokens_are_slowed_and_then_turned_away_while_the_right_one_passes() {
    let server = TestServer::open().await;
    let asks = |token: &str| {
        let request = Request::builder()
            .uri("/admin/tenants")
            .header("authorization", format!("Bearer {token}"))
            .extension(http_kit::ClientAddress([203, 0, 113, 9].into()));
        let (doors, request) = (server.doors.clone(), request.body(Body::empty()).unwrap());
        async move { tower::ServiceExt::oneshot(doors, request).await.unwrap().status().as_u16() }
    };
    for _ in 0..10 {
        assert_eq!(asks("wrong").await, 401);
    }
    // Those that are slowed down wait for a clock that stands still; those turned away do not.
    let mut guesses = tokio::task::JoinSet::new();
    for _ in 0..150 {
        guesses.spawn(asks("wrong"));
    }
    assert_eq!(guesses.join_next().await.unwrap().unwrap(), 429);
    assert_eq!(asks(ADMIN).await, 200);
    // A guess that is still on its way would count in the next minute.
    guesses.shutdown().await;
    server.timepiece.wind(std::time::Duration::from_secs(61));
    assert_eq!(asks("wrong").await, 401);
}

#[tokio::test]
async fn no_answer_of_the_admin_api_is_kept_by_anything_in_between() {
    let (server, _) = TestServer::settled().await;
    for (method, path, body) in [
        (Method::POST, "/admin/agents/heron/rotate", json!({ "all": true })),
        (Method::POST, "/admin/clients", json!({ "tenant": "acme" })),
        (Method::POST, "/admin/tenants/acme/token", json!({})),
        (Method::POST, "/admin/invites", json!({ "person": "Ann" })),
        (Method::POST, "/admin/scheduler-secrets", json!({})),
        (Method::GET, "/admin/agents", json!(null)),
        (Method::GET, "/admin/nowhere", json!(null)),
    ] {
        let request =
            Request::builder().method(method).uri(path).header("authorization", format!("Bearer {ADMIN}"));
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let answer =
            tower::ServiceExt::oneshot(server.doors.clone(), request.body(body).unwrap()).await.unwrap();
        assert_eq!(answer.headers()["cache-control"], "no-store", "{path}: {}", answer.status());
    }
}

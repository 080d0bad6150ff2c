//! Who may come in, and how what cannot be read is refused.

use axum::body::Body;
use http::{Method, Request, StatusCode};
use serde_json::json;

use crate::house::{ADMIN, House};

#[tokio::test]
async fn without_the_token_everything_looks_the_same_whether_it_exists_or_not() {
    let house = House::open().await;
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
            let (status, answer) = house.hears(request.body(Body::from("{")).unwrap()).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{method} {path} {header}");
            answers.push(answer);
        }
    }
    assert!(answers.iter().all(|answer| answer == &answers[0] && answer["code"] == "unauthorized"));
}

#[tokio::test]
async fn two_authorizations_are_none() {
    let house = House::open().await;
    let request = Request::builder()
        .uri("/admin/tenants")
        .header("authorization", format!("Bearer {ADMIN}"))
        .header("authorization", "Bearer other");
    assert_eq!(house.hears(request.body(Body::empty()).unwrap()).await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_in_words() {
    let house = House::open().await;
    assert_eq!(house.refuses(Method::GET, "/admin/nowhere", None).await, (404, "not_found".to_owned()));
    assert_eq!(
        house.refuses(Method::PUT, "/admin/tenants", None).await,
        (405, "method_not_allowed".to_owned())
    );
    let large = json!({ "name": "x".repeat(300 * 1024) });
    assert_eq!(
        house.refuses(Method::POST, "/admin/tenants", Some(large)).await,
        (413, "too_large".to_owned())
    );

    let (status, answer) = house.asks(Method::POST, "/admin/tenants", Some(json!({ "nmae": "acme" }))).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(answer["detail"].as_str().unwrap().contains("unknown field `nmae`"), "{answer}");
    let (status, answer) = house.asks(Method::GET, "/admin/agents?tenent=acme", None).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(answer["detail"].as_str().unwrap().contains("tenent"), "{answer}");
}

#[tokio::test]
async fn tenants_are_made_once_and_removed_when_empty() {
    let house = House::open().await;
    let made = house.makes("/admin/tenants", json!({ "name": "acme" })).await;
    assert!(made["tenant_id"].as_str().unwrap().starts_with("ten_"));
    let again = Some(json!({ "name": "acme" }));
    assert_eq!(house.refuses(Method::POST, "/admin/tenants", again).await, (409, "taken".to_owned()));
    for bad in [json!("a/b"), made["tenant_id"].clone()] {
        let bad = Some(json!({ "name": bad }));
        assert_eq!(house.refuses(Method::POST, "/admin/tenants", bad).await, (422, "bad_name".to_owned()));
    }
    assert_eq!(house.gets("/admin/tenants").await["items"][0]["name"], "acme");

    let heron = house.makes("/admin/agents", json!({ "tenant": "acme", "name": "heron" })).await;
    assert_eq!(house.gets("/admin/tenants/acme").await["agents"], 1);
    assert_eq!(house.refuses(Method::DELETE, "/admin/tenants/acme", None).await, (409, "in_use".to_owned()));
    let path = format!("/admin/agents/{}", heron["instance_id"].as_str().unwrap());
    assert_eq!(house.asks(Method::DELETE, &path, None).await.0, StatusCode::OK);
    assert_eq!(house.asks(Method::DELETE, "/admin/tenants/acme", None).await.0, StatusCode::OK);
    assert_eq!(
        house.refuses(Method::GET, "/admin/tenants/acme", None).await,
        (404, "no_such_tenant".to_owned())
    );
}

#[tokio::test]
async fn a_backup_goes_to_a_new_file_named_in_full() {
    let house = House::open().await;
    let relative = Some(json!({ "path": "copy.db" }));
    assert_eq!(house.refuses(Method::POST, "/admin/backup", relative).await, (422, "bad_path".to_owned()));
    let there = Some(json!({ "path": "/" }));
    assert_eq!(house.refuses(Method::POST, "/admin/backup", there).await, (409, "exists".to_owned()));
    house.makes("/admin/backup", json!({ "path": "/nowhere/copy.db" })).await;
    assert_eq!(house.backups.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn an_invitation_is_a_link_shown_once_and_can_be_withdrawn() {
    let house = House::open().await;
    let link = house.makes("/admin/invites", json!({ "person": "Zoë 🦉" })).await;
    let url = link["url"].as_str().unwrap();
    let token = url.strip_prefix("http://127.0.0.1:7678/chat?invite=").unwrap();
    let listed = house.gets("/admin/invites").await;
    assert_eq!(listed["items"][0]["person"], "Zoë 🦉");
    assert!(!listed.to_string().contains(token));
    let path = "/admin/invites/Zo%C3%AB%20%F0%9F%A6%89";
    assert_eq!(house.asks(Method::DELETE, path, None).await.0, StatusCode::OK);
    assert_eq!(house.refuses(Method::DELETE, path, None).await, (404, "no_such_invite".to_owned()));
}

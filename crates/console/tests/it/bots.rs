//! Bots and their secrets.

use http::{Method, StatusCode};
use serde_json::json;

use crate::pigeon::TOKEN;
use crate::test_server::TestServer;

#[tokio::test]
async fn a_bot_is_tried_with_its_platform_and_shown_without_its_secrets() {
    let server = TestServer::open().await;
    let body =
        json!({ "platform": "pigeon", "settings": { "loft": "north" }, "secrets": { "token": TOKEN } });
    let made = server.makes("/admin/bots", body).await;
    assert_eq!(
        (&made["id"], &made["shared"]),
        (&json!("7001"), &json!(false)),
        "it is called what the platform calls it"
    );
    assert_eq!(made["settings"], json!({ "loft": "north", "username": "homer" }));
    assert_eq!(made["secrets"], json!(["token", "webhook_secret"]));
    for path in ["/admin/bots", "/admin/bots?platform=pigeon", "/admin/bots/pigeon/7001"] {
        let answer = server.gets(path).await.to_string();
        assert!(answer.contains("7001") && !answer.contains(TOKEN), "{answer}");
    }
    assert_eq!(server.asks(Method::DELETE, "/admin/bots/pigeon/7001", None).await.0, StatusCode::OK);
    assert_eq!(
        server.refuses(Method::GET, "/admin/bots/pigeon/7001", None).await,
        (404, "no_such_bot".to_owned())
    );
}

#[tokio::test]
async fn a_bot_that_wants_to_be_called_where_nobody_can_call_is_made_and_said_to_poll() {
    let server = TestServer::open().await;
    let body = json!({ "platform": "pigeon", "mode": "webhook", "secrets": { "token": TOKEN } });
    let made = server.makes("/admin/bots", body).await;
    assert_eq!((&made["door"], &made["polls"]), (&json!(null), &json!(true)));
    assert_eq!(made["settings"]["mode"], "webhook");
}

#[tokio::test]
async fn a_bot_that_cannot_be_is_refused_and_its_secret_not_repeated() {
    let (server, _) = TestServer::settled().await;
    for (body, refusal) in [
        (json!({ "platform": "pigeon", "secrets": { "token": TOKEN } }), (409, "taken")),
        (json!({ "platform": "pigeon", "secrets": { "token": "canary-wrong" } }), (422, "platform_refused")),
        (json!({ "platform": "pigeon" }), (422, "missing_secret")),
        (json!({ "platform": "pigeon", "secrets": { "tokne": "canary-wrong" } }), (422, "unknown_secret")),
        (json!({ "platform": "owl", "secrets": { "token": "canary-wrong" } }), (422, "unknown_platform")),
        (json!({ "platform": "pigeon", "id": "a b", "secrets": { "token": TOKEN } }), (422, "bad_id")),
        (json!({ "platform": "pigeon", "mode": "sometimes" }), (400, "malformed")),
        (
            json!({ "platform": "pigeon", "mode": "poll", "settings": { "mode": "webhook" } }),
            (422, "contradiction"),
        ),
        (json!({ "platform": "pigeon", "secrets": "canary-wrong" }), (400, "malformed")),
        (json!({ "platform": "pigeon", "token": "canary-wrong" }), (400, "malformed")),
    ] {
        let (status, answer) = server.asks(Method::POST, "/admin/bots", Some(body.clone())).await;
        assert_eq!((status.as_u16(), answer["code"].as_str().unwrap()), refusal, "{body}");
        assert!(!answer.to_string().contains("canary"), "{answer}");
    }
}

#[tokio::test]
async fn a_platform_says_what_its_bots_are_made_with() {
    let server = TestServer::open().await;
    let known = server.gets("/admin/platforms/pigeon").await;
    assert_eq!(
        known["secrets"][0],
        json!({ "name": "token", "about": "the token on its ring", "generated": false, "optional": false })
    );
    assert_eq!(
        server.refuses(Method::GET, "/admin/platforms/owl", None).await,
        (422, "unknown_platform".to_owned())
    );
}

#[tokio::test]
async fn the_servers_own_bots_come_and_go_with_their_agents() {
    let (server, heron) = TestServer::settled().await;
    assert_eq!(server.gets("/admin/bots").await["items"].as_array().unwrap().len(), 1);
    let own = server.gets("/admin/bots?platform=web").await;
    assert_eq!(own["items"][0]["id"], heron["instance_id"]);
    let path = format!("/admin/bots/web/{}", heron["instance_id"].as_str().unwrap());
    assert_eq!(server.refuses(Method::DELETE, &path, None).await, (409, "built_in".to_owned()));
}

#[tokio::test]
async fn a_secret_is_replaced_only_by_one_that_the_platform_accepts() {
    let (server, _) = TestServer::settled().await;
    let path = "/admin/bots/pigeon/7001";
    let shown = server.gets(path).await;
    assert_eq!(
        (&shown["health"], &shown["dead_since"], &shown["trouble"]),
        (&json!("working"), &json!(null), &json!(null))
    );
    for (body, refusal) in [
        (json!({}), (422, "nothing_to_change")),
        (json!({ "secrets": {} }), (422, "nothing_to_change")),
        (json!({ "secrets": { "token": "canary-wrong" } }), (422, "platform_refused")),
        (json!({ "secrets": { "token": "" } }), (422, "missing_secret")),
        (json!({ "open": true, "secrets": { "tokne": "canary-wrong" } }), (422, "unknown_secret")),
        (json!({ "secrets": "canary-wrong" }), (400, "malformed")),
    ] {
        let (status, answer) = server.asks(Method::PATCH, path, Some(body.clone())).await;
        assert_eq!((status.as_u16(), answer["code"].as_str().unwrap()), refusal, "{body}");
        assert!(!answer.to_string().contains("canary"), "{answer}");
    }
    assert_eq!(server.gets(path).await["open"], false, "a refused change changes nothing");
    let change = json!({ "open": true, "secrets": { "token": TOKEN } });
    let (status, shown) = server.asks(Method::PATCH, path, Some(change)).await;
    assert_eq!((status, &shown["open"]), (StatusCode::OK, &json!(true)));
    let absent = server
        .refuses(Method::PATCH, "/admin/bots/pigeon/9", Some(json!({ "secrets": { "token": TOKEN } })))
        .await;
    assert_eq!(absent, (404, "no_such_bot".to_owned()));
}

#[tokio::test]
async fn an_optional_setting_is_changed_and_the_others_stay() {
    let (server, _) = TestServer::settled().await;
    let path = "/admin/bots/pigeon/7001";
    for name in ["lotf", "token", "username"] {
        let body = json!({ "open": true, "settings": { (name): "x" } });
        let refusal = server.refuses(Method::PATCH, path, Some(body)).await;
        assert_eq!(refusal, (422, "unknown_setting".to_owned()), "{name}");
    }
    let before = server.gets(path).await;
    assert_eq!(before["open"], false, "a refused change changes nothing");
    for loft in ["south", "east"] {
        let body = json!({ "settings": { "loft": loft } });
        let (status, shown) = server.asks(Method::PATCH, path, Some(body)).await;
        assert_eq!((status, &shown["settings"]["loft"]), (StatusCode::OK, &json!(loft)));
        assert_eq!(shown["settings"]["username"], before["settings"]["username"]);
    }
}

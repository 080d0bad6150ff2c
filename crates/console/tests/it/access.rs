//! Access decisions of the operator: who may write to a bot.

use http::{Method, StatusCode};
use serde_json::json;

use crate::test_server::TestServer;

#[tokio::test]
async fn a_bot_is_closed_unless_declared_open_and_shows_it() {
    let (server, _) = TestServer::settled().await;
    assert_eq!(server.gets("/admin/bots/pigeon/7001").await["open"], false);
    for open in [true, false] {
        let change = Some(json!({ "open": open }));
        let (status, shown) = server.asks(Method::PATCH, "/admin/bots/pigeon/7001", change).await;
        assert_eq!((status, &shown["open"]), (StatusCode::OK, &json!(open)));
        assert_eq!(server.gets("/admin/bots/pigeon/7001").await["open"], open);
    }
    let loft = json!({ "platform": "pigeon", "id": "loft", "open": true, "secrets": { "token": crate::pigeon::TOKEN } });
    assert_eq!(server.makes("/admin/bots", loft).await["open"], true);
}

#[tokio::test]
async fn people_and_groups_are_allowed_denied_and_forgotten_by_id() {
    let (server, _) = TestServer::settled().await;
    let path = "/admin/access/pigeon/7001";
    for (decision, subject, state, read) in [
        ("allow", "user:5", "allowed", "user:5"),
        ("deny", "user:5", "denied", "user:5"),
        ("allow", "group:-7", "allowed", "chat:-7"),
    ] {
        let body = json!({ "decision": decision, "subject": subject });
        let (status, shown) = server.asks(Method::POST, path, Some(body)).await;
        assert_eq!(status, StatusCode::OK, "{shown}");
        assert_eq!((shown["state"].as_str(), shown["subject"].as_str()), (Some(state), Some(read)));
    }
    let listed = server.gets("/admin/access?platform=pigeon&bot=7001").await;
    let subjects: Vec<_> = listed["items"].as_array().unwrap().iter().map(|one| &one["subject"]).collect();
    assert_eq!(subjects, ["chat:-7", "user:5"]);
    assert_eq!(server.gets("/admin/access").await, listed);
    let one = format!("{path}?subject=group:-7");
    assert_eq!(server.asks(Method::DELETE, &one, None).await.0, StatusCode::OK);
    assert_eq!(server.refuses(Method::DELETE, &one, None).await, (404, "no_such_subject".to_owned()));
    let entries = server.gets("/admin/audit").await;
    let about: Vec<_> =
        entries["items"].as_array().unwrap().iter().map(|entry| entry["about"].clone()).collect();
    assert!(about.contains(&json!("allowed chat:-7 on pigeon:7001")), "{about:?}");
}

#[tokio::test]
async fn what_cannot_be_decided_is_refused_in_words() {
    let (server, heron) = TestServer::settled().await;
    let web = format!("/admin/access/web/{}", heron["instance_id"].as_str().unwrap());
    let here = "/admin/access/pigeon/7001";
    for (path, body, status, code) in [
        (here, json!({ "decision": "allow", "code": "K7QF3M" }), 404, "no_such_code"),
        (here, json!({ "decision": "allow", "subject": "ann" }), 422, "bad_subject"),
        (here, json!({ "decision": "allow" }), 400, "malformed"),
        (here, json!({ "decision": "perhaps", "subject": "user:5" }), 400, "malformed"),
        ("/admin/access/pigeon/9", json!({ "decision": "allow", "subject": "user:5" }), 404, "no_such_bot"),
        (&web, json!({ "decision": "allow", "subject": "user:5" }), 409, "built_in"),
    ] {
        let refused = server.refuses(Method::POST, path, Some(body)).await;
        assert_eq!(refused, (status, code.to_owned()), "{path}");
    }
}

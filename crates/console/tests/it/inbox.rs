//! Inbox sizes, dead letters and message traces.

use http::{Method, StatusCode};
use ledger::FailedDelivery;
use posthouse_wire::InstanceId;
use serde_json::{Value, json};

use crate::test_server::TestServer;

fn id(agent: &Value) -> InstanceId {
    agent["instance_id"].as_str().unwrap().into()
}

#[tokio::test]
async fn an_operator_sees_what_waits_and_for_whom() {
    let (server, heron) = TestServer::settled().await;
    assert_eq!(server.gets("/admin/inbox").await["items"], json!([]));
    let one = server.gets("/admin/inbox?agent=heron&tenant=acme").await;
    assert_eq!(one["items"][0]["entries"], 0, "asked for by name it is told even when nothing waits");
    server.keeps(&heron, "5", "1").await;
    server.keeps(&heron, "5", "2").await;
    let all = server.gets("/admin/inbox").await;
    assert_eq!((&all["items"][0]["agent"], &all["items"][0]["entries"]), (&json!("heron"), &json!(2)));
    server.makes("/admin/tenants", json!({ "name": "umbrella" })).await;
    assert_eq!(server.gets("/admin/inbox?tenant=umbrella").await["items"], json!([]));
}

#[tokio::test]
async fn a_dead_letter_is_listed_and_can_be_put_back_in_line() {
    let (server, heron) = TestServer::settled().await;
    let entry = server.keeps(&heron, "5", "1").await;
    while !server
        .relay
        .inboxes()
        .records()
        .record_failed_delivery(&id(&heron), &entry, FailedDelivery::Poison)
        .await
        .unwrap()
    {}
    let dead = server.gets("/admin/dead-letters?tenant=acme").await;
    assert_eq!((&dead["items"][0]["entry"], &dead["items"][0]["agent"]), (&json!(entry), &json!("heron")));
    assert_eq!(server.gets("/admin/agents/heron").await["unread"], 0);
    let path = format!("/admin/dead-letters/{entry}/redrive");
    assert_eq!(server.makes(&path, json!({})).await["instance_id"], heron["instance_id"]);
    assert_eq!(server.gets("/admin/dead-letters").await["items"], json!([]));
    assert_eq!(server.gets("/admin/agents/heron").await["unread"], 1);
    let unknown = "/admin/dead-letters/ent_nonsense/redrive";
    assert_eq!(server.refuses(Method::POST, unknown, None).await, (404, "no_such_letter".to_owned()));
}

#[tokio::test]
async fn dead_letters_are_listed_page_by_page_the_latest_first() {
    let (server, heron) = TestServer::settled().await;
    for message in ["1", "2", "3"] {
        let entry = server.keeps(&heron, "5", message).await;
        while !server
            .relay
            .inboxes()
            .records()
            .record_failed_delivery(&id(&heron), &entry, FailedDelivery::Poison)
            .await
            .unwrap()
        {}
    }
    let whole = server.gets("/admin/dead-letters").await;
    assert_eq!((whole["items"].as_array().unwrap().len(), &whole["next"]), (3, &Value::Null));
    let first = server.gets("/admin/dead-letters?tenant=acme&limit=2").await;
    assert_eq!(first["items"].as_array().unwrap()[..], whole["items"].as_array().unwrap()[..2]);
    let next = first["next"].as_str().unwrap();
    // A redriven letter takes its place in the list with it; the next page begins where the first ended.
    let redriven = first["items"][1]["entry"].as_str().unwrap();
    server.makes(&format!("/admin/dead-letters/{redriven}/redrive"), json!({})).await;
    let second = server.gets(&format!("/admin/dead-letters?tenant=acme&limit=2&after={next}")).await;
    assert_eq!((&second["items"], &second["next"]), (&json!([whole["items"][2]]), &Value::Null));
    let wrong = server.refuses(Method::GET, "/admin/dead-letters?after=here", None).await;
    assert_eq!(wrong, (400, "malformed".to_owned()));
}

#[tokio::test]
async fn one_id_tells_the_whole_story() {
    let (server, heron) = TestServer::settled().await;
    let entry = server.keeps(&heron, "room:5", "1").await;
    let story = server.gets(&format!("/admin/messages/{entry}")).await;
    assert_eq!(story["items"][0]["id"], json!(entry));
    let steps: Vec<&str> = story["items"][0]["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["what"].as_str().unwrap())
        .collect();
    assert_eq!(steps, ["accepted", "durable"]);
    for path in ["pigeon:room:5:1", "pigeon%3Aroom%3A5%3A1"] {
        let found = server.gets(&format!("/admin/messages/{path}")).await;
        assert_eq!(found["items"], story["items"], "a chat id may hold colons");
    }
    for unknown in ["ent_0", "act_0", "pigeon:room:5:2", "nonsense", "pigeon::", "%F0%9F%A6%89"] {
        let (status, answer) = server.asks(Method::GET, &format!("/admin/messages/{unknown}"), None).await;
        assert_eq!(
            (status, &answer["code"]),
            (StatusCode::NOT_FOUND, &json!("no_such_message")),
            "{unknown}"
        );
    }
}

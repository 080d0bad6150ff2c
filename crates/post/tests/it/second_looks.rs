//! Tests of consistency over time: repeats, answers that overtake their delivery, edits, aliases.

use std::time::Duration;

use axum::body::Body;
use http::Request;
use posthouse_wire::action::Metadata;
use serde_json::{Value, json};

use crate::receiver::{Receiver, Seen};
use crate::test_server::{Program, TestServer, chat, eventually};

async fn with_webhook(server: &TestServer, receiver: &Receiver) -> Program {
    let settings = json!({ "agents": { "desk": { "url": format!("{}/in", receiver.base) } } });
    server.wires("acme", "hook", "webhook", settings).await;
    server.program("acme").await
}

/// The first thing that comes to a receiver.
async fn first(receiver: &Receiver) -> Seen {
    let mut seen = None;
    eventually("something comes", async || {
        seen = receiver.seen().into_iter().next();
        seen.is_some()
    })
    .await;
    seen.unwrap()
}

/// Answers a question at the address that it named.
async fn replies(server: &TestServer, question: &Seen, sent_at: Value) -> u16 {
    let asked = question.json();
    let path = asked["reply_to"].as_str().unwrap().strip_prefix(&server.url).unwrap().to_owned();
    let correlation = &asked["meta"]["correlation_id"];
    let reply = json!({
        "correlation_id": correlation, "agent_id": "desk", "content": "blue", "sent_at": sent_at,
    });
    server.calls(Request::post(path).body(Body::from(reply.to_string())).unwrap()).await.0.as_u16()
}

#[tokio::test]
async fn a_question_that_is_answered_has_arrived_whatever_was_heard_of_its_delivery() {
    // On a manual clock no retry is due before the answer.
    let (server, receiver) = (TestServer::wound().await, Receiver::open().await);
    let program = with_webhook(&server, &receiver).await;
    receiver.says(503, "");
    let ask = json!({ "agent": "desk", "message": "?", "correlation_id": "q-1", "wait": 0 });
    assert_eq!(program.posts("/v1/exchange", ask).await.0, 202);
    let question = first(&receiver).await;
    assert_eq!(replies(&server, &question, json!(9)).await, 204);
    let dispatch = question.json()["meta"]["dispatch_id"].clone();
    let response = program.receipt_when(&dispatch, |receipt| receipt["state"] != "queued").await;
    assert_eq!((&response["state"], &response["error"]), (&json!("delivered"), &Value::Null), "{response}");
    assert_eq!(program.gets("/v1/exchanges/q-1").await.1["content"], "blue");
}

#[tokio::test]
async fn an_answer_is_not_lost_for_the_way_its_time_is_written() {
    let (server, receiver) = (TestServer::open().await, Receiver::open().await);
    let program = with_webhook(&server, &receiver).await;
    receiver.says(202, "");
    for (correlation, sent_at, kept) in [
        ("q-1", json!(1_794_813_039_507.25), Some(1_794_813_039_507_i64)),
        ("q-2", json!("2026-11-16T07:00:00Z"), None),
        ("q-3", Value::Null, None),
    ] {
        let ask = json!({ "agent": "desk", "message": "?", "correlation_id": correlation, "wait": 0 });
        assert_eq!(program.posts("/v1/exchange", ask).await.0, 202);
        assert_eq!(replies(&server, &first(&receiver).await, sent_at).await, 204);
        let (_, answer) = program.gets(&format!("/v1/exchanges/{correlation}")).await;
        assert_eq!(answer["content"], "blue", "{answer}");
        assert!(kept.is_none_or(|kept| answer["sent_at"] == kept), "{answer}");
    }
}

#[tokio::test]
async fn a_wake_that_could_send_nothing_is_answered_the_same_again() {
    let (server, receiver) = (TestServer::open().await, Receiver::open().await);
    let program = with_webhook(&server, &receiver).await;
    let wakes = async || {
        let key = [("idempotency-key", "w-1")];
        program.posts_with("/v1/wake", &key, json!({ "agent": "desk" })).await
    };
    let (status, response) = wakes().await;
    assert_eq!((status.as_u16(), &response["woken"]), (200, &json!(false)), "{response}");
    assert_eq!(wakes().await, (status, response.clone()));
    let (_, kept) = program.gets("/v1/receipts/w-1").await;
    let kept = &kept["items"][0];
    assert_eq!((&kept["state"], &kept["error_kind"]), (&json!("failed"), &json!("client_validation")));
    assert_eq!(kept["receipt"]["woken"], false, "{kept}");
    assert!(receiver.seen().is_empty());
}

#[tokio::test]
async fn a_receipt_says_for_which_session_a_connector_was_woken() {
    let (server, receiver) = (TestServer::open().await, Receiver::open().await);
    let program = with_webhook(&server, &receiver).await;
    let key = [("idempotency-key", "w-1")];
    program.posts_with("/v1/wake", &key, json!({ "agent": "desk@pane", "context": "look" })).await;
    let (_, kept) = program.gets("/v1/receipts/w-1").await;
    assert_eq!(kept["items"][0]["session_id"], "pane", "{kept}");
    let (_, listed) = program.gets("/v1/receipts?agent=desk").await;
    assert_eq!(listed["items"][0]["dispatch_id"], "w-1");
}

#[tokio::test]
async fn what_waits_for_its_next_attempt_was_accepted_when_it_was_accepted() {
    let (server, receiver) = (TestServer::open().await, Receiver::open().await);
    let program = with_webhook(&server, &receiver).await;
    receiver.says(503, "");
    let sent = program.notifies("desk", "x").await;
    let response = &sent["dispatched"][0]["receipt"];
    assert_eq!(response["delivery_skipped"], true, "{sent}");
    let (_, kept) = program.gets(&format!("/v1/receipts/{}", sent["dispatch_id"].as_str().unwrap())).await;
    assert_eq!(kept["items"][0]["accepted_at"], response["delivered_at"]);
}

#[tokio::test]
async fn a_refusal_names_the_id_under_which_it_is_on_record() {
    let (server, receiver) = (TestServer::open().await, Receiver::open().await);
    let program = with_webhook(&server, &receiver).await;
    receiver.says(410, "");
    let (status, response) = program.posts("/v1/wake", json!({ "agent": "desk", "context": "look" })).await;
    assert_eq!(status, 502, "{response}");
    let kept = program.gets(&format!("/v1/receipts/{}", response["dispatch_id"].as_str().unwrap())).await;
    assert_eq!(kept.1["items"][0]["state"], "failed", "{kept:?}");
    let ask = json!({ "agent": "desk", "message": "?", "timeout": 30 });
    let (status, response) = program.posts("/v1/exchange", ask).await;
    assert_eq!(status, 502, "{response}");
    let path = format!("/v1/exchanges/{}", response["correlation_id"].as_str().unwrap());
    assert_eq!(program.gets(&path).await.0, 502);
    // All 404 answers are equal: none contains an id that would reveal more.
    let (status, response) = program.posts("/v1/wake", json!({ "agent": "nobody" })).await;
    assert_eq!((status.as_u16(), &response["dispatch_id"]), (404, &Value::Null));
}

#[tokio::test]
async fn a_question_to_an_agent_that_is_gone_is_still_there_and_has_failed() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await;
    let program = server.program("acme").await;
    let ask = json!({ "agent": "heron", "message": "?", "correlation_id": "q-1", "wait": 0 });
    assert_eq!(program.posts("/v1/exchange", ask).await.0, 202);
    server.identity.accounts.remove_agent(&heron.instance).await.unwrap();
    let (status, response) = program.gets("/v1/exchanges/q-1").await;
    assert_eq!((status.as_u16(), &response["code"]), (502, &json!("delivery_failed")), "{response}");
    assert_eq!(program.gets("/v1/exchanges/q-2").await.0, 404);
}

#[tokio::test]
async fn an_agent_that_slept_through_a_question_is_not_given_it() {
    let server = TestServer::wound().await;
    let heron = server.enrol("acme", "heron").await;
    let program = server.program("acme").await;
    let ask =
        |id: &str| json!({ "agent": "heron", "message": id, "correlation_id": id, "timeout": 20, "wait": 0 });
    assert_eq!(program.posts("/v1/exchange", ask("q-1")).await.0, 202);
    server.time.wind(Duration::from_secs(21));
    assert_eq!(program.gets("/v1/exchanges/q-1").await.0, 504);
    let (_, kept) = program.gets("/v1/receipts").await;
    let dispatch = &kept["items"][0]["dispatch_id"];
    program.receipt_when(dispatch, |receipt| receipt["state"] == "expired").await;
    assert_eq!(program.posts("/v1/exchange", ask("q-2")).await.0, 202);
    let seated = heron.sits().await;
    assert!(seated.hears().await.event.text.ends_with("q-2"));
    seated.hears_nothing_more().await;
}

#[tokio::test]
async fn an_edit_stands_in_the_place_of_what_it_edits_and_in_nobody_elses_receipt() {
    let server = TestServer::open().await;
    let perry = server.enrol("acme", "perry").await.sits().await;
    let heron = server.enrol("acme", "heron").await.program().await;
    let program = server.program("acme").await;
    let sent = program.notifies("perry@kitchen", "how long?").await;
    let room = chat(&perry.hears().await);
    let said = perry.says(&room, "The ans", Metadata::default()).await;
    let message = said.message_id.unwrap();
    let woken = heron.notifies("perry@kitchen", "me too").await;
    perry.hears().await;
    assert!(perry.edits(&room, &message, "The answer is 42").await.success);
    let response = program.receipt_when(&sent["dispatch_id"], |_| true).await;
    let texts: Vec<&Value> =
        response["replies"].as_array().unwrap().iter().map(|reply| &reply["text"]).collect();
    assert_eq!(texts, ["The answer is 42"]);
    assert!(!perry.edits(&room, &"act_unknown".into(), "to nobody").await.success);
    // A message without `reply_to` belongs to the program, not to the agent that wrote into the room later.
    perry.says(&room, "between us", Metadata::default()).await;
    let theirs = heron.receipt_when(&woken["dispatch_id"], |_| true).await;
    assert_eq!(theirs["replies"], json!([]));
    let response = program.receipt_when(&sent["dispatch_id"], |_| true).await;
    assert_eq!(response["replies"][1]["text"], "between us");
}

#[tokio::test]
async fn an_agent_is_reached_by_the_same_ways_under_each_of_its_names() {
    let (server, receiver) = (TestServer::open().await, Receiver::open().await);
    let perry = server.enrol("acme", "perry").await;
    let settings = json!({ "agents": { "perry": { "url": format!("{}/in", receiver.base) } } });
    server.wires("acme", "hook", "webhook", settings).await;
    let alias = ledger::Alias { tenant: perry.tenant.clone(), name: "bird".into(), agent: "perry".into() };
    server.post.connectors().records().create_alias(alias).await.unwrap();
    server.post.connectors().changed(&perry.tenant);
    let program = server.program("acme").await;
    for address in ["perry", "bird", perry.instance.as_str()] {
        let sent = program.notifies(address, "x").await;
        let paths: Vec<&Value> =
            sent["dispatched"].as_array().unwrap().iter().map(|one| &one["connector"]).collect();
        assert_eq!(paths, ["relay", "hook"], "{address}");
        assert_eq!(receiver.one().json()["agent_id"], "perry");
    }
}

#[tokio::test]
async fn a_schedule_an_event_or_a_person_at_a_terminal_is_no_agent() {
    let (server, receiver) = (TestServer::open().await, Receiver::open().await);
    let program = with_webhook(&server, &receiver).await;
    for (kind, caller) in [
        (json!("webhook"), json!("cook")),
        (Value::Null, json!("cook")),
        (json!("cron"), Value::Null),
        (json!("event"), Value::Null),
        (json!("cli"), Value::Null),
        (json!("dashboard"), Value::Null),
    ] {
        let body = json!({ "agent": "desk", "message": "x", "trigger_kind": kind });
        program.posts_with("/v1/notify", &[("x-agent-id", "cook")], body).await;
        assert_eq!(receiver.one().json()["meta"]["origin"]["caller_agent_id"], caller, "{kind}");
    }
}

#[tokio::test]
async fn the_operator_names_the_header_of_its_fronting_host() {
    let config = post::Config { caller_header: "X-Caller".to_owned(), ..post::Config::default() };
    let (server, receiver) = (TestServer::open_with(config).await, Receiver::open().await);
    let program = with_webhook(&server, &receiver).await;
    let headers = [("x-caller", "cook"), ("x-agent-id", "ignored")];
    program.posts_with("/v1/notify", &headers, json!({ "agent": "desk", "message": "x" })).await;
    assert_eq!(receiver.one().json()["meta"]["origin"]["caller_agent_id"], "cook");
}

#[tokio::test]
async fn a_sleeper_that_was_called_is_not_said_to_be_called_again_at_once() {
    let (server, wake) = (TestServer::open().await, Receiver::open().await);
    server.enrol_with("acme", "heron", Some(format!("{}/up", wake.base))).await;
    let program = server.program("acme").await;
    let wakes = async || {
        let (_, response) = program.posts("/v1/wake", json!({ "agent": "heron", "context": "up!" })).await;
        response["warnings"][0].as_str().unwrap().to_owned()
    };
    wakes().await;
    eventually("its wake URL is called", async || !wake.seen().is_empty()).await;
    let warning = wakes().await;
    assert!(warning.contains("was called, and is called again at"), "{warning}");
}

//! Tests of exchanges: one question, one answer, only from the agent that was asked.

use std::time::Duration;

use ledger::Location;
use posthouse_time::Timepiece;
use posthouse_wire::action::Metadata;
use serde_json::{Value, json};

use crate::receiver::Receiver;
use crate::test_server::{TestServer, answering, chat, eventually};

#[tokio::test]
async fn an_agent_of_the_sdk_answers_and_its_other_talk_is_only_kept() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let program = server.program("acme").await;
    let asking = tokio::spawn({
        let program = program.clone();
        let body =
            json!({ "agent": "heron", "message": "how many?", "correlation_id": "q-1", "timeout": 20 });
        async move { program.posts("/v1/exchange", body).await }
    });
    let question = heron.hears().await;
    assert_eq!(chat(&question), "post-x-q-1");
    let posted = question.event.post.as_ref().unwrap();
    assert!(posted.expects_reply);
    heron.says(&chat(&question), "let me look", Metadata::default()).await;
    heron.says(&chat(&question), "{\"count\": 3}", answering(&question)).await;
    heron.says(&chat(&question), "four, rather", answering(&question)).await;
    let (status, answer) = asking.await.unwrap();
    assert_eq!(status, 200, "{answer}");
    assert_eq!((&answer["content"], &answer["agent_id"]), (&json!("{\"count\": 3}"), &json!("heron")));
    assert_eq!((&answer["correlation_id"], &answer["data"]["count"]), (&json!("q-1"), &json!(3)));
    let (_, response) = program.gets("/v1/receipts").await;
    let kinds: Vec<_> =
        response["items"][0]["replies"].as_array().unwrap().iter().map(|reply| &reply["kind"]).collect();
    assert_eq!(kinds, ["said", "answer", "duplicate"]);
    // A repeated request gets the same answer.
    let (status, again) = program.gets("/v1/exchanges/q-1").await;
    assert_eq!((status.as_u16(), again), (200, answer));
}

#[tokio::test]
async fn a_stock_agents_answer_is_the_one_it_marks() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let program = server.program("acme").await;
    let asking = tokio::spawn(async move {
        program.posts("/v1/exchange", json!({ "agent": "heron", "message": "?", "timeout": 20 })).await
    });
    let question = heron.hears().await;
    heron.says(&chat(&question), "no home channel is set", Metadata::default()).await;
    heron
        .says(&chat(&question), "I shall look first", Metadata { notify: Some(false), ..Metadata::default() })
        .await;
    heron.says(&chat(&question), "it is blue", Metadata { notify: Some(true), ..Metadata::default() }).await;
    assert_eq!(asking.await.unwrap().1["content"], "it is blue");
}

#[tokio::test]
async fn nobody_answering_is_a_timeout_on_record_and_a_late_answer_is_kept_apart() {
    let server = TestServer::wound().await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let program = server.program("acme").await;
    let asking = tokio::spawn({
        let program = program.clone();
        let body = json!({ "agent": "heron", "message": "?", "correlation_id": "q-1", "timeout": 20 });
        async move { program.posts("/v1/exchange", body).await }
    });
    let question = heron.hears().await;
    let (status, response) = server.time.wind_until(Duration::from_secs(5), asking).await.unwrap();
    assert_eq!((status.as_u16(), &response["code"]), (504, &json!("timeout")), "{response}");
    heron.says(&chat(&question), "too late", answering(&question)).await;
    let (status, _) = program.gets("/v1/exchanges/q-1").await;
    assert_eq!(status, 504);
    let (_, response) = program.gets("/v1/receipts").await;
    assert_eq!(response["items"][0]["replies"][0]["kind"], "late_reply");
}

#[tokio::test]
async fn an_open_question_is_told_as_such_and_attached_to_again() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let program = server.program("acme").await;
    let body = json!({ "agent": "heron", "message": "?", "correlation_id": "q-1", "wait": 0 });
    let (status, response) = program.posts("/v1/exchange", body.clone()).await;
    assert_eq!((status.as_u16(), &response["correlation_id"]), (202, &json!("q-1")), "{response}");
    // The same question again is the same question.
    let (status, _) = program.posts("/v1/exchange", body).await;
    assert_eq!(status, 202);
    let question = heron.hears().await;
    let waiting = tokio::spawn(async move { program.gets("/v1/exchanges/q-1?wait=20").await });
    heron.says(&chat(&question), "yes", answering(&question)).await;
    let (status, answer) = waiting.await.unwrap();
    assert_eq!((status.as_u16(), &answer["content"]), (200, &json!("yes")));
    heron.hears_nothing_more().await;
}

#[tokio::test]
async fn an_id_that_belongs_to_another_question_is_refused() {
    let server = TestServer::open().await;
    let wren = server.enrol("acme", "wren").await;
    server.enrol("acme", "heron").await;
    let program = server.program("acme").await;
    let ask = |agent: &str, message: &str| json!({ "agent": agent, "message": message, "correlation_id": "q", "wait": 0 });
    assert_eq!(program.posts("/v1/exchange", ask("heron", "a")).await.0, 202);
    for (agent, message) in [("heron", "b"), ("wren", "a")] {
        let (status, response) = program.posts("/v1/exchange", ask(agent, message)).await;
        assert_eq!((status.as_u16(), &response["code"]), (409, &json!("correlation_in_use")));
    }
    // Another caller of the tenant with the same id does not interfere.
    assert_eq!(wren.program().await.gets("/v1/exchanges/q").await.0, 404);
}

#[tokio::test]
async fn another_agents_correlation_id_is_as_free_as_any() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let wren = server.enrol("acme", "wren").await.program().await;
    let robin = server.enrol("acme", "robin").await.program().await;
    let tenant = server.program("acme").await;
    let ask =
        |message: &str| json!({ "agent": "heron", "message": message, "correlation_id": "q", "wait": 0 });
    for (program, message) in [(&wren, "from wren"), (&robin, "from robin")] {
        for _ in 0..2 {
            let (status, response) = program.posts("/v1/exchange", ask(message)).await;
            assert_eq!(
                (status.as_u16(), &response["correlation_id"]),
                (202, &json!("q")),
                "{message}: {response}"
            );
        }
        let (status, response) = program.posts("/v1/exchange", ask("something else")).await;
        assert_eq!((status.as_u16(), &response["code"]), (409, &json!("correlation_in_use")), "its own id");
    }
    for _ in 0..2 {
        let question = heron.hears().await;
        let answer = if question.event.text.ends_with("wren") { "to wren" } else { "to robin" };
        heron.says(&chat(&question), answer, answering(&question)).await;
    }
    for (program, content) in [(&wren, "to wren"), (&robin, "to robin")] {
        let (status, answer) = program.gets("/v1/exchanges/q?wait=20").await;
        assert_eq!((status.as_u16(), &answer["content"]), (200, &json!(content)), "{answer}");
        assert_eq!(answer["correlation_id"], "q");
        let (_, listed) = program.gets("/v1/exchanges").await;
        let ids: Vec<_> =
            listed["items"].as_array().unwrap().iter().map(|item| &item["correlation_id"]).collect();
        assert_eq!(ids, ["q"]);
    }
    // The tenant sees both under different ids.
    let (_, listed) = tenant.gets("/v1/exchanges").await;
    let items = listed["items"].as_array().unwrap();
    assert_eq!(items.len(), 2);
    for item in items {
        let id = item["correlation_id"].as_str().unwrap().replace('#', "%23");
        assert_eq!(tenant.gets(&format!("/v1/exchanges/{id}")).await.0, 200, "{id}");
    }
    heron.hears_nothing_more().await;
}

#[tokio::test]
async fn an_answer_from_another_agent_is_nothing() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let wren = server.enrol("acme", "wren").await.sits().await;
    let program = server.program("acme").await;
    let body = json!({ "agent": "heron", "message": "?", "correlation_id": "q-1", "wait": 0 });
    program.posts("/v1/exchange", body).await;
    let question = heron.hears().await;
    let outcome = wren.says(&chat(&question), "me, me", answering(&question)).await;
    assert_eq!(outcome.code.as_deref(), Some("egress_declined"));
    assert_eq!(program.gets("/v1/exchanges/q-1").await.0, 202);
}

#[tokio::test]
async fn a_session_cannot_be_asked_and_nobody_known_is_a_validation_fault() {
    let server = TestServer::open().await;
    let program = server.program("acme").await;
    let (status, response) =
        program.posts("/v1/exchange", json!({ "agent": "heron@x", "message": "?" })).await;
    assert_eq!((status.as_u16(), &response["code"]), (422, &json!("exchange_address")));
    let (status, response) =
        program.posts("/v1/exchange", json!({ "agent": "nobody", "message": "?" })).await;
    assert_eq!((status.as_u16(), &response["cause_kind"]), (404, &json!("client_validation")));
}

#[tokio::test]
async fn a_connector_without_a_reply_channel_is_said_to_have_none() {
    let server = TestServer::open_with(post::Config { tmux: true, ..post::Config::default() }).await;
    server.wires("acme", "panes", "tmux", json!({ "sessions": { "desk": "nowhere" } })).await;
    let program = server.program("acme").await;
    let (status, response) = program.posts("/v1/exchange", json!({ "agent": "desk", "message": "?" })).await;
    assert_eq!((status.as_u16(), &response["code"]), (501, &json!("not_implemented")), "{response}");
}

#[tokio::test]
async fn a_webhook_answers_at_once_or_later_at_the_address_it_was_given() {
    let server = TestServer::open().await;
    let receiver = Receiver::open().await;
    let settings = json!({ "agents": { "desk": { "url": format!("{}/in", receiver.base) } } });
    server.wires("acme", "hook", "webhook", settings).await;
    let program = server.program("acme").await;
    receiver.says(200, r#"{"reply":{"content":"at once","sent_at":7}}"#);
    let (status, answer) = program.posts("/v1/exchange", json!({ "agent": "desk", "message": "?" })).await;
    assert_eq!(
        (status.as_u16(), &answer["content"], &answer["sent_at"]),
        (200, &json!("at once"), &json!(7))
    );
    receiver.seen();

    receiver.says(202, "");
    let body = json!({ "agent": "desk", "message": "?", "correlation_id": "q-2", "wait": 0 });
    assert_eq!(program.posts("/v1/exchange", body).await.0, 202);
    let mut asked = None;
    eventually("the receiver is asked", async || {
        asked = receiver.seen().pop();
        asked.is_some()
    })
    .await;
    let asked = asked.unwrap().json();
    let path = asked["reply_to"].as_str().unwrap().strip_prefix(&server.url).unwrap().to_owned();
    let reply = |agent: &str, correlation: &str| json!({ "correlation_id": correlation, "agent_id": agent, "content": "later", "sent_at": 9 });
    let send = async |path: &str, body: Value| {
        let request = http::Request::post(path).body(axum::body::Body::from(body.to_string())).unwrap();
        server.calls(request).await.0.as_u16()
    };
    assert_eq!(send("/v1/replies/0000", reply("desk", "q-2")).await, 404);
    assert_eq!(send(&path, reply("other", "q-2")).await, 404);
    assert_eq!(send(&path, reply("desk", "q-3")).await, 404);
    assert_eq!(send(&path, json!({ "content": 5 })).await, 400);
    assert_eq!(send(&path, reply("desk", "q-2")).await, 204);
    assert_eq!(send(&path, reply("desk", "q-2")).await, 409);
    let (status, answer) = program.gets("/v1/exchanges/q-2").await;
    assert_eq!((status.as_u16(), &answer["content"]), (200, &json!("later")));
}

#[tokio::test]
async fn whoever_asks_waits_no_longer_than_it_said_whatever_the_receiver_does() {
    let server = TestServer::open().await;
    let receiver = Receiver::open().await;
    receiver.stalls();
    let settings = json!({ "agents": { "desk": { "url": format!("{}/in", receiver.base) } } });
    server.wires("acme", "hook", "webhook", settings).await;
    let program = server.program("acme").await;
    let body =
        json!({ "agent": "desk", "message": "?", "correlation_id": "q-1", "wait": 0.05, "timeout": 3600 });
    assert_eq!(program.posts("/v1/exchange", body).await.0, 202);
    assert_eq!(program.gets("/v1/exchanges/q-1?wait=0.05").await.0, 202);
}

#[tokio::test]
async fn no_session_and_no_sender_can_enter_a_questions_conversation() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await.sits().await;
    let program = server.program("acme").await;
    let body = json!({ "agent": "heron", "message": "?", "correlation_id": "q-1", "wait": 0 });
    program.posts("/v1/exchange", body).await;
    heron.hears().await;
    program.notifies("heron@x-q-1", "look here").await;
    let (_, _) =
        program.posts("/v1/notify", json!({ "agent": "heron", "message": "y", "from": "x-q-1" })).await;
    for _ in 0..2 {
        let intruder = heron.hears().await;
        let answer = Metadata { notify: Some(true), ..Metadata::default() };
        assert!(heron.says(&chat(&intruder), "not to you", answer).await.success);
    }
    assert_eq!(program.gets("/v1/exchanges/q-1").await.0, 202);
}

#[tokio::test]
async fn an_answer_dropped_as_a_file_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let drop_dirs = vec![folder.path().to_owned()];
    let server = TestServer::open_with(post::Config { drop_dirs, ..post::Config::default() }).await;
    let dir = folder.path().join("desk");
    std::fs::create_dir(&dir).unwrap();
    server.wires("acme", "drawer", "file-drop", json!({ "dirs": { "desk": dir } })).await;
    let program = server.program("acme").await;
    let asking = tokio::spawn(async move {
        program.posts("/v1/exchange", json!({ "agent": "desk", "message": "?", "timeout": 20 })).await
    });
    let mut question = None;
    eventually("the question is dropped", async || {
        let mut dropped = std::fs::read_dir(&dir).unwrap().map(|file| file.unwrap().path());
        question = dropped.find(|path| path.extension().is_some_and(|end| end == "json"));
        question.is_some()
    })
    .await;
    std::fs::write(question.unwrap().with_extension("reply.json"), r#"{"content":"found"}"#).unwrap();
    let (status, answer) = asking.await.unwrap();
    assert_eq!((status.as_u16(), &answer["content"]), (200, &json!("found")), "{answer}");
}

#[tokio::test]
async fn an_answer_dropped_after_the_deadline_is_kept_as_a_late_one() {
    let folder = tempfile::tempdir().unwrap();
    let config = post::Config { drop_dirs: vec![folder.path().to_owned()], ..post::Config::default() };
    let time = Timepiece::wound(Timepiece::wall().now());
    let server = TestServer::build(Location::Memory, config, time).await;
    let dir = folder.path().join("desk");
    std::fs::create_dir(&dir).unwrap();
    server.wires("acme", "drawer", "file-drop", json!({ "dirs": { "desk": dir } })).await;
    let program = server.program("acme").await;
    let ask = json!({ "agent": "desk", "message": "?", "correlation_id": "q-1", "timeout": 20, "wait": 0 });
    assert_eq!(program.posts("/v1/exchange", ask).await.0, 202);
    let (_, sent) = program.gets("/v1/receipts").await;
    let dispatch = &sent["items"][0]["dispatch_id"];
    program.receipt_when(dispatch, |receipt| receipt["state"] == "delivered").await;
    server.time.wind(Duration::from_secs(21));
    assert_eq!(program.gets("/v1/exchanges/q-1").await.0, 504);
    let name = format!("{}.reply.json", dispatch.as_str().unwrap());
    std::fs::write(dir.join(name), r#"{"content":"sorry, I was out"}"#).unwrap();
    let found = program.receipt_when(dispatch, |receipt| receipt["replies"][0] != Value::Null);
    let response = server.time.wind_until(Duration::from_secs(20), found).await;
    assert_eq!(response["replies"][0]["kind"], "late_reply");
    assert_eq!(response["replies"][0]["text"], "sorry, I was out");
}

#[tokio::test]
async fn a_tenant_has_so_many_open_questions_and_no_more() {
    let server = TestServer::open_with(post::Config { open_exchanges: 2, ..post::Config::default() }).await;
    server.enrol("acme", "heron").await;
    let program = server.program("acme").await;
    let ask = |text: &str| json!({ "agent": "heron", "message": text, "wait": 0 });
    assert_eq!(program.posts("/v1/exchange", ask("1")).await.0, 202);
    assert_eq!(program.posts("/v1/exchange", ask("2")).await.0, 202);
    let (status, response) = program.posts("/v1/exchange", ask("3")).await;
    assert_eq!((status.as_u16(), &response["code"]), (429, &json!("quota_exceeded")));
}

//! Answers in files that are not the answer: another agent's, or another question's.

use post::connector::memory::ConnectorMemory;
use post::connector::settings::{self, Tools};
use posthouse_wire::delivery::Cause;
use serde_json::json;

use crate::bench::{Bench, fails};
use crate::log::Log;
use crate::test_server::{TestServer, eventually};

#[tokio::test]
async fn an_answer_file_that_names_somebody_else_is_dropped_and_told_of_once() {
    let mut bench = Bench::open().await;
    let folder = tempfile::tempdir().unwrap();
    bench.config.drop_dirs = vec![folder.path().to_owned()];
    let settings = json!({ "dirs": { "desk": folder.path() } });
    let memory = ConnectorMemory::default();
    let log = Log::listen();
    let opens = || settings::build("file-drop", &settings, Tools { memory: memory.clone(), ..bench.tools() });
    let path = folder.path().join("q-1.reply.json");
    for (foreign, why) in [
        (r#"{"content":"mine","agent_id":"somebody-else"}"#, "another agent"),
        (r#"{"content":"mine","agent_id":"somebody-else","correlation_id":"c-1"}"#, ""),
        (r#"{"content":"mine","agent_id":"desk","correlation_id":"c-2"}"#, "another question"),
    ] {
        std::fs::write(&path, foreign).unwrap();
        let mut warnings = Vec::new();
        for _ in 0..5 {
            // As often as it is looked for, and by a connector that was opened anew.
            let drops = opens().unwrap();
            assert_eq!(drops.collect("desk", &"q-1".into(), &"c-1".into()).await.unwrap(), None, "{foreign}");
            warnings.extend(log.warnings());
        }
        // The same file with the same trouble is no news.
        assert_eq!(warnings.len(), usize::from(!why.is_empty()), "{foreign}: {warnings:?}");
        assert!(warnings.iter().all(|line| line.contains(why) && line.contains("q-1")), "{warnings:?}");
        assert!(!warnings.iter().any(|line| line.contains("mine")), "{warnings:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), foreign, "it is left where it lies");
    }
    std::fs::write(&path, r#"{"content":"42","agent_id":"desk","correlation_id":"c-1"}"#).unwrap();
    let found = opens().unwrap().collect("desk", &"q-1".into(), &"c-1".into()).await.unwrap();
    assert_eq!(found.map(|answer| answer.content).as_deref(), Some("42"));
    assert!(log.warnings().is_empty());
}

#[tokio::test]
async fn a_question_is_answered_by_a_file_of_whom_it_was_put_to_and_of_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let drop_dirs = vec![folder.path().to_owned()];
    let server = TestServer::open_with(post::Config { drop_dirs, ..post::Config::default() }).await;
    server.wires("acme", "drawer", "file-drop", json!({ "dirs": { "box": folder.path() } })).await;
    let program = server.program("acme").await;
    let log = Log::listen();
    let ask = json!({ "agent": "box", "message": "?", "correlation_id": "q-1", "timeout": 600, "wait": 0 });
    assert_eq!(program.posts("/v1/exchange", ask).await.0, 202);
    let (_, sent) = program.gets("/v1/receipts").await;
    let dispatch = sent["items"][0]["dispatch_id"].as_str().unwrap().to_owned();
    let path = folder.path().join(format!("{dispatch}.reply.json"));
    // Whole from the moment it has its name.
    let drops = |body: &str| {
        let draft = path.with_extension("draft");
        std::fs::write(&draft, body).unwrap();
        std::fs::rename(&draft, &path).unwrap();
    };
    drops(r#"{"content":"forged","agent_id":"somebody-else"}"#);
    let mut warnings = Vec::new();
    eventually("the foreign answer is logged", async || {
        warnings.extend(log.warnings().into_iter().filter(|line| line.contains("another agent")));
        !warnings.is_empty()
    })
    .await;
    assert_eq!(program.gets("/v1/exchanges/q-1").await.0, 202);
    drops(r#"{"content":"mine","agent_id":"box"}"#);
    let (status, answer) = program.gets("/v1/exchanges/q-1?wait=20").await;
    assert_eq!((status.as_u16(), &answer["content"]), (200, &json!("mine")), "{answer}");
}

#[tokio::test]
async fn a_reply_on_the_spot_in_the_name_of_somebody_else_fails_the_question() {
    use crate::bench::payload;
    use crate::receiver::Receiver;
    let bench = Bench::open().await;
    let receiver = Receiver::open().await;
    let url = format!("{}/in", receiver.base);
    let webhook = bench.connector("webhook", json!({ "agents": { "desk": { "url": url } } }));
    receiver.says(200, r#"{"reply":{"content":"42","agent_id":"somebody-else"}}"#);
    let asked = payload(posthouse_wire::delivery::PayloadKind::Augment, "d-1", "?");
    let timeout = std::time::Duration::from_secs(20);
    let question = post::connector::ExpectedReply { correlation_id: "c-1".into(), timeout, reply_to: None };
    let message = fails(webhook.request_response("desk", &asked, &question).await, Cause::MalformedResponse);
    assert!(message.contains("another agent"), "{message}");
}

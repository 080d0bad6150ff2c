//! Vectors of release 0.20.5 of the stock agent: every hello and every request of it is answered.

use std::path::PathBuf;

use posthouse_wire::Action;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::test_server::{TestServer, bot};

fn cases(name: &str, list: &str) -> Vec<Value> {
    let folder = std::env::var_os("POSTHOUSE_VECTORS")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors")), PathBuf::from);
    let path = folder.join("hermes-0.20.5").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let file: Value = serde_json::from_str(&text).unwrap();
    let cases = file[list].as_array().unwrap().clone();
    assert!(!cases.is_empty(), "{}: `{list}` is empty", path.display());
    cases
}

#[tokio::test]
async fn every_hello_of_the_vectors_of_0_20_5_for_a_bot_of_its_agent_is_answered_in_order() {
    for case in cases("hello.json", "cases") {
        let server = TestServer::open().await;
        let known = |pair: &&Value| ["telegram", "discord", "slack"].contains(&pair[0].as_str().unwrap());
        let named =
            |pair: &Value| (pair[0].as_str().unwrap().to_owned(), pair[1].as_str().unwrap().to_owned());
        let pairs: Vec<_> = case["identities"].as_array().unwrap().iter().filter(known).map(named).collect();
        // An empty id stands for the only bot of that platform.
        let bots: Vec<_> = pairs
            .iter()
            .map(|(platform, id)| bot(platform, if id.is_empty() { "7001" } else { id }))
            .collect();
        let heron = server.enrol("acme", "heron", &bots).await;
        let mut gateway = heron.dials().await;
        for hello in case["hellos"].as_array().unwrap() {
            gateway.say(hello.clone()).await;
        }
        for (platform, _) in &pairs {
            let answer = gateway.hears().await;
            assert_eq!(answer["descriptor"]["platform"], **platform, "{}: {answer}", case["id"]);
        }
    }
}

/// Dials in as an SDK agent that fronts one bot on each platform of the vectors.
async fn seated(server: &TestServer) -> Gateway {
    let bots = ["telegram", "discord", "slack"].map(|platform| bot(platform, "b1"));
    let heron = server.enrol("acme", "heron", &bots).await;
    let mut gateway = heron.sits_with_window(64).await;
    for on in &bots[1..] {
        gateway.says_hello(on).await;
    }
    gateway
}

#[tokio::test]
async fn every_request_of_the_vectors_of_0_20_5_is_answered_once_and_in_words_where_it_is_refused() {
    let server = TestServer::open().await;
    let mut gateway = seated(&server).await;
    let mut requests = 0;
    for (file, list) in [("outbound.json", "cases"), ("prompts.json", "frames")] {
        for case in cases(file, list) {
            let before = &case["after_inbound"];
            if let (Some(platform), Some(chat)) = (before["platform"].as_str(), before["chat_id"].as_str()) {
                server.says(&bot(platform, "b1"), chat, "hello").await;
                gateway.takes("hello").await;
            }
            for frame in case["frames"].as_array().unwrap() {
                requests += 1;
                let request = format!("r{requests}");
                gateway.say(request_of(&request, frame)).await;
                let result = gateway.hears_result(&request).await;
                check(&case, frame, &result);
            }
        }
    }
    assert!(requests > 0);
    gateway.hears_nothing().await;
}

fn request_of(request: &str, frame: &Value) -> Value {
    let mut action = frame["action"].clone();
    if action["op"] == "prompt" {
        // The vectors write a placeholder where every run has another id.
        action["prompt_id"] = json!("abc123.deadbeef");
    }
    let mut line = json!({"type": "outbound", "requestId": request, "action": action});
    if frame["platform"].is_string() {
        line["platform"] = frame["platform"].clone();
        line["botId"] = json!("b1");
    }
    line
}

fn check(case: &Value, frame: &Value, result: &Value) {
    let (id, op) = (&case["id"], frame["action"]["op"].as_str().unwrap());
    match op {
        // What it may redeem is known to the platform's own code, which is played here.
        "follow_up" => assert!(result["success"].is_boolean(), "{id}: {result}"),
        op if Action::OPS.contains(&op) => {
            // It may write where it was written to, on that platform, and nowhere else.
            let before = &case["after_inbound"];
            let is_tagged_so = frame["platform"].is_null() || frame["platform"] == before["platform"];
            let was_written_to = is_tagged_so && before["chat_id"] == frame["action"]["chat_id"];
            assert_eq!(result["success"], was_written_to, "{id}: {result}");
        }
        _ => assert_eq!(result["error"], format!("unsupported op: {op}"), "{id}"),
    }
}

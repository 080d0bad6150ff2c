//! Receivers, terminal panes and folders that misbehave, and unexpected answers.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::Fixture;
use crate::canaries_post::signature;
use crate::receiver::MANNERS;

/// Receivers that answer, with a timeout that even a busy machine does not reach.
fn wired(fixture: &Fixture) -> Value {
    let agents: Value = MANNERS
        .iter()
        .filter(|manner| **manner != "hanging")
        .map(|manner| ((*manner).to_owned(), json!({ "url": fixture.receiver.at(manner) })))
        .collect();
    json!({ "agents": agents, "timeout_ms": 20_000 })
}

/// The receiver that must time out: long enough that every call arrives.
fn hung(fixture: &Fixture) -> Value {
    json!({ "agents": { "hanging": { "url": fixture.receiver.at("hanging") } }, "timeout_ms": 5000 })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_fails_hangs_or_talks_nonsense_is_told_of_by_its_class_and_loses_nothing() {
    let fixture = Fixture::open(&[]).await;
    fixture.wires("hooks", "webhook", &wired(&fixture));
    fixture.wires("dead-line", "webhook", &hung(&fixture));
    // What comes of it in the end, after how many calls.
    for (manner, state, kind, calls) in [
        ("good", "delivered", Value::Null, 1),
        ("nonsense", "delivered", Value::Null, 1),
        ("refusing", "failed", json!("http_status"), 1),
        ("moved", "failed", json!("http_status"), 1),
        ("angry-once", "delivered", Value::Null, 2),
        ("angry", "failed", json!("http_status"), 3),
        ("hanging", "failed", json!("timeout"), 3),
    ] {
        let dispatch = format!("d-{manner}");
        let body = json!({ "agent": manner, "message": "hello" }).to_string();
        let (status, told) = fixture.tells("/v1/notify", body.clone(), Some(&dispatch)).await;
        assert_eq!(status, 200, "{told}");
        let one = &told["dispatched"][0];
        let final_at_once = calls == 1 && state == "failed";
        assert_eq!(one["ok"], !final_at_once, "{manner}: {told}");
        if calls > 1 {
            assert_eq!(one["receipt"]["delivery_skipped"], true, "{told}");
            assert_eq!(one["receipt"]["warnings"], json!(["queued for retry"]));
        }
        let shown = fixture.becomes(&dispatch, state).await;
        assert_eq!(shown["error_kind"], kind, "{shown}");
        let made: Vec<_> =
            fixture.receiver.calls().into_iter().filter(|call| call.manner == manner).collect();
        assert_eq!(made.len(), calls, "{manner}");
        assert!(made.iter().all(|call| call.bytes == made[0].bytes), "the same bytes every time");
        // Repeating a request gives the same result, whatever it was.
        fixture.tells("/v1/notify", body, Some(&dispatch)).await;
        assert_eq!(fixture.receiver.calls().iter().filter(|call| call.manner == manner).count(), calls);
    }
    fixture.has_not_panicked();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_ends_in_its_answer_or_in_the_class_of_what_went_wrong() {
    let fixture = Fixture::open(&[]).await;
    fixture.wires("hooks", "webhook", &wired(&fixture));
    fixture.wires("dead-line", "webhook", &hung(&fixture));
    // Short where a timeout is expected, otherwise unreachable.
    let (short, long) = (1.5, 60.0);
    let asks = async |agent: &str, timeout: f64| {
        let body = json!({ "agent": agent, "message": "well?", "timeout": timeout, "wait": 60 });
        fixture.posts("/v1/exchange", &body).await
    };
    let (status, answer) = asks("answering", long).await;
    assert_eq!((status, &answer["content"]), (200, &json!("here you are")));
    for (agent, timeout, status, code, kind) in [
        ("misanswering", long, 502, "delivery_failed", json!("malformed_response")),
        ("refusing", long, 502, "delivery_failed", json!("http_status")),
        ("moved", long, 502, "delivery_failed", json!("http_status")),
        ("nonsense", short, 504, "timeout", Value::Null),
        ("good", short, 504, "timeout", Value::Null),
    ] {
        let (heard, answer) = asks(agent, timeout).await;
        assert_eq!((heard, &answer["code"]), (status, &json!(code)), "{agent}: {answer}");
        assert_eq!(answer["cause_kind"], kind, "{agent}: {answer}");
    }
    // One that never answers the call, or always with an error, has until the deadline and no longer.
    for agent in ["hanging", "angry"] {
        let (heard, answer) = asks(agent, short).await;
        assert!(matches!(heard, 502 | 504), "{agent}: {heard} {answer}");
    }
    fixture.has_not_panicked();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_asked_twice_is_one_and_an_answer_counts_once_in_time_and_from_whom_was_asked() {
    let fixture = Fixture::open(&[]).await;
    let file = fixture.server.secret_file("hooks.json", &wired(&fixture).to_string());
    let hmac = fixture.server.secret_file("hmac", "shared");
    let words = ["connector", "create", "hooks", "--tenant", "acme", "--kind", "webhook"];
    let secrets = ["--settings", &file, "--hmac-secret-file", &hmac, "--force"];
    fixture.server.does(&[&words[..], &secrets].concat());
    let ask = |id: &str, message: &str, timeout: f64| json!({ "agent": "good", "message": message, "correlation_id": id, "timeout": timeout, "wait": 0 });
    // Twice the same is one call; the same id over another question is refused.
    for _ in 0..2 {
        assert_eq!(fixture.posts("/v1/exchange", &ask("q-1", "well?", 60.0)).await.0, 202);
    }
    let (status, answer) = fixture.posts("/v1/exchange", &ask("q-1", "really?", 60.0)).await;
    assert_eq!((status, &answer["code"]), (409, &json!("correlation_in_use")));
    let path_of = async |id: &str| {
        let call = fixture.receiver.called(|call| call.body["meta"]["correlation_id"] == id).await;
        call.reply_to().unwrap().strip_prefix(&fixture.server.url).unwrap().to_owned()
    };
    let replies = async |path: &str, body: String, stamp: Option<String>| {
        let mut request = fixture.client.post(format!("{}{path}", fixture.server.url)).body(body);
        if let Some(stamp) = stamp {
            request = request.header("x-signature", stamp);
        }
        request.send().await.unwrap().status().as_u16()
    };
    let stamped = async |path: &str, body: Value| {
        let body = body.to_string();
        let stamp = signature("shared", &body);
        replies(path, body, Some(stamp)).await
    };
    let said = |id: &str, by: &str, content: &str| json!({ "correlation_id": id, "agent_id": by, "content": content });
    let first = path_of("q-1").await;
    assert_eq!(fixture.receiver.calls().len(), 1);
    assert_eq!(replies(&first, said("q-1", "good", "forged").to_string(), None).await, 401);
    assert_eq!(stamped(&first, said("q-1", "angry", "from somebody else")).await, 404);
    assert_eq!(stamped(&first, said("q-2", "good", "to something else")).await, 404);
    assert_eq!(stamped(&first, json!({ "correlation_id": "q-1", "agent_id": "good" })).await, 400);
    assert_eq!(stamped(&first, said("q-1", "good", &"x".repeat(256 * 1024 + 1))).await, 413);
    assert_eq!(fixture.gets("/v1/exchanges/q-1").await.0, 202, "none of that was an answer");
    assert_eq!(stamped(&first, said("q-1", "good", "yes")).await, 204);
    assert_eq!(stamped(&first, said("q-1", "good", "no")).await, 409);
    let (status, answer) = fixture.gets("/v1/exchanges/q-1").await;
    assert_eq!((status, &answer["content"]), (200, &json!("yes")));

    // Too late: kept with the receipt, and no answer to anybody.
    assert_eq!(fixture.posts("/v1/exchange", &ask("q-3", "quick!", 5.0)).await.0, 202);
    let path = path_of("q-3").await;
    let (status, answer) = fixture.gets("/v1/exchanges/q-3?wait=60").await;
    assert_eq!((status, &answer["code"]), (504, &json!("timeout")));
    assert_eq!(stamped(&path, said("q-3", "good", "sorry")).await, 404);
    assert_eq!(fixture.gets("/v1/exchanges/q-3").await.0, 504);
    let (_, listed) = fixture.gets("/v1/receipts").await;
    let kinds = |of: &Value| -> Vec<(String, String)> {
        let text = |of: &Value| of.as_str().unwrap().to_owned();
        of["replies"]
            .as_array()
            .unwrap()
            .iter()
            .map(|said| (text(&said["kind"]), text(&said["text"])))
            .collect()
    };
    let pair = |kind: &str, text: &str| (kind.to_owned(), text.to_owned());
    assert_eq!(kinds(&listed["items"][0]), [pair("late_reply", "sorry")], "{listed}");
    assert_eq!(kinds(&listed["items"][1]), [pair("answer", "yes"), pair("duplicate", "no")], "{listed}");
    fixture.has_not_panicked();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pane_or_a_folder_that_is_gone_fails_its_own_delivery_and_no_other() {
    let drops = tempfile::tempdir().unwrap();
    let shelf = drops.path().join("shelf");
    std::fs::create_dir(&shelf).unwrap();
    let socket = drops.path().join("no-such-socket");
    let fixture = Fixture::open(&[
        ("POSTHOUSE_POST__TMUX", "true"),
        ("POSTHOUSE_POST__TMUX_SOCKETS", socket.to_str().unwrap()),
        ("POSTHOUSE_POST__DROP_DIRS", drops.path().to_str().unwrap()),
    ])
    .await;
    fixture.wires("panes", "tmux", &json!({ "sessions": { "clerk": "nowhere" }, "socket": socket }));
    fixture.wires("shelves", "file-drop", &json!({ "dirs": { "clerk": shelf } }));
    fixture.wires(
        "hooks",
        "webhook",
        &json!({ "agents": { "clerk": { "url": fixture.receiver.at("good") } } }),
    );
    let notify = async |key: &str| {
        let body = json!({ "agent": "clerk", "message": "-n ;" }).to_string();
        let (status, told) = fixture.tells("/v1/notify", body, Some(key)).await;
        assert_eq!(status, 200, "{told}");
        told["dispatched"].as_array().unwrap().clone()
    };
    let told = notify("d-1").await;
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(
        [&told[0]["ok"], &told[1]["ok"], &told[2]["ok"]],
        [&json!(false), &json!(true), &json!(true)],
        "{told:?}"
    );
    assert!(told[0]["error_kind"].is_string(), "{told:?}");
    let kept: Value = serde_json::from_slice(&std::fs::read(shelf.join("d-1.json")).unwrap()).unwrap();
    assert_eq!(kept["content"], "-n ;");

    // A file where the folder was: nothing can be put there, not even by root.
    std::fs::rename(&shelf, drops.path().join("away")).unwrap();
    std::fs::write(&shelf, "in the way").unwrap();
    let told = notify("d-2").await;
    assert_eq!(told[2]["ok"], true, "{told:?}");
    std::fs::remove_file(&shelf).unwrap();
    std::fs::rename(drops.path().join("away"), &shelf).unwrap();
    // It is either retried and arrives, or fails with its class; it is never lost silently.
    let settled = async {
        loop {
            let (_, shown) = fixture.gets("/v1/receipts/d-2").await;
            let of = shown["items"].as_array().unwrap().iter().find(|item| item["connector"] == "shelves");
            let of = of.unwrap_or_else(|| panic!("{shown}")).clone();
            if of["state"] != "queued" {
                return of;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let of = tokio::time::timeout(crate::talk::PATIENCE, settled).await.expect("it never came to an end");
    match of["state"].as_str().unwrap() {
        "delivered" => assert!(shelf.join("d-2.json").exists()),
        state => assert!(state == "failed" && of["error_kind"].is_string(), "{of}"),
    }
    let files = Command::new("find").arg(drops.path()).arg("-name").arg("*.tmp").output().unwrap();
    assert!(files.stdout.is_empty(), "half a file was left");
    fixture.has_not_panicked();
}

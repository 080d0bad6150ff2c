//! Actions of agents, each with exactly one result (section 11).

use std::sync::atomic::Ordering;

use ledger::BeginOutcome;
use posthouse_wire::Outcome;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::gateway::Gateway;
use crate::recorder::Habit;
use crate::test_server::{Agent, TestServer, bot, eventually, seconds};

/// An agent at its socket, to whom something was said in these chats.
async fn in_chats(server: &TestServer, chats: &[&str]) -> (Agent, Gateway) {
    let heron = server.heron().await;
    let mut gateway = heron.sits_with_window(64).await;
    for chat in chats {
        server.says(&heron.bots[0], chat, "hello").await;
        gateway.takes("hello").await;
    }
    heron.has_unread(0).await;
    (heron, gateway)
}

#[tokio::test]
async fn every_request_gets_exactly_one_result() {
    let server = TestServer::open().await;
    let (_, mut gateway) = in_chats(&server, &["c1"]).await;
    gateway.sends("r1", "c1", "pong").await;
    let result = gateway.hears_result("r1").await;
    assert_eq!(result, json!({"success": true, "message_id": "m1"}));
    gateway.hears_nothing().await;
    let order = server.egress.orders().remove(0);
    assert_eq!((order.on, order.deadline), (bot("telegram", "7001"), server.clock.instant() + seconds(25)));
}

#[tokio::test]
async fn what_is_asked_for_one_chat_happens_in_order() {
    let server = TestServer::open().await;
    let (_, mut gateway) = in_chats(&server, &["c1"]).await;
    let later = server.clock.now() + seconds(5);
    server.egress.in_chat("c1", Habit::Until(later));
    for number in 0..20 {
        gateway.sends(&format!("r{number}"), "c1", &number.to_string()).await;
    }
    server.egress.has_begun(1).await;
    gateway.hears_nothing().await;
    assert_eq!(server.egress.texts("c1"), ["0"]);
    server.winds(seconds(5));
    for number in 0..20 {
        assert_eq!(gateway.hears_result(&format!("r{number}")).await["success"], true);
    }
    let expected: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    assert_eq!(server.egress.texts("c1"), expected);
}

#[tokio::test]
async fn edits_of_one_message_run_together_and_everything_else_waits_for_them() {
    let server = TestServer::open().await;
    let (_, mut gateway) = in_chats(&server, &["c1"]).await;
    let later = server.clock.now() + seconds(5);
    server.egress.in_chat("c1", Habit::Until(later));
    let edit = |message: &str| json!({"op": "edit", "chat_id": "c1", "message_id": message, "content": "x"});
    gateway.asks("r1", edit("m1")).await;
    server.egress.has_begun(1).await;
    gateway.asks("r2", edit("m1")).await;
    server.egress.has_begun(2).await;
    for (request, action) in
        [("r3", edit("m2")), ("r4", json!({"op": "send", "chat_id": "c1", "content": "x"}))]
    {
        gateway.asks(request, action).await;
    }
    gateway.hears_nothing().await;
    assert_eq!(server.egress.orders().len(), 2, "another message and another op wait");
    server.winds(seconds(5));
    for request in ["r1", "r2", "r3", "r4"] {
        assert_eq!(gateway.hears_result_among(request).await["success"], true, "{request}");
    }
}

#[tokio::test]
async fn the_order_of_a_chat_holds_whether_or_not_a_request_names_its_bot() {
    let server = TestServer::open().await;
    let (_, mut gateway) = in_chats(&server, &["c1"]).await;
    let later = server.clock.now() + seconds(5);
    server.egress.in_chat("c1", Habit::Until(later));
    for (request, tag) in [
        ("r0", json!({"platform": "telegram", "botId": "7001"})),
        ("r1", json!({})),
        ("r2", json!({"platform": "telegram"})),
    ] {
        let mut frame = json!({"type": "outbound", "requestId": request,
            "action": {"op": "send", "chat_id": "c1", "content": request}});
        frame.as_object_mut().unwrap().extend(tag.as_object().unwrap().clone());
        gateway.say(frame).await;
    }
    server.egress.has_begun(1).await;
    gateway.hears_nothing().await;
    assert_eq!(server.egress.texts("c1"), ["r0"]);
    server.winds(seconds(5));
    for request in ["r0", "r1", "r2"] {
        assert_eq!(gateway.hears_result(request).await["success"], true);
    }
    assert_eq!(server.egress.texts("c1"), ["r0", "r1", "r2"]);
}

#[tokio::test]
async fn one_hanging_chat_holds_up_no_other() {
    let server = TestServer::open().await;
    let (_, mut gateway) = in_chats(&server, &["c1", "c2"]).await;
    server.egress.in_chat("c1", Habit::Hangs);
    gateway.sends("slow", "c1", "stuck").await;
    server.egress.has_begun(1).await;
    for number in 0..5 {
        gateway.sends(&format!("r{number}"), "c2", "fine").await;
        assert_eq!(gateway.hears_result(&format!("r{number}")).await["success"], true);
    }
    server.winds(seconds(25));
    assert_eq!(gateway.hears_result("slow").await, json!({"success": false, "error": "send timed out"}));
}

#[tokio::test]
async fn one_hanging_follow_up_holds_up_no_other_session() {
    let server = TestServer::open().await;
    let (_, mut gateway) = in_chats(&server, &["c1"]).await;
    let follow_up =
        |key: &str| json!({"op": "follow_up", "session_key": key, "kind": "x.y", "content": "more"});
    for key in ["agent:main:telegram:dm:c1", "agent:main:telegram:dm:c2"] {
        gateway.asks(key, follow_up(key)).await;
        assert_eq!(gateway.hears_result(key).await["success"], true);
    }
}

#[tokio::test]
async fn at_the_deadline_it_is_answered_as_timed_out_and_remembered_so() {
    let server = TestServer::open().await;
    let (_, mut gateway) = in_chats(&server, &["c1"]).await;
    server.egress.in_chat("c1", Habit::Hangs);
    gateway.sends("r1", "c1", "stuck").await;
    server.egress.has_begun(1).await;
    server.winds(seconds(24));
    gateway.hears_nothing().await;
    server.winds(seconds(1));
    let first = gateway.hears_result("r1").await;
    assert_eq!(first, json!({"success": false, "error": "send timed out"}));
    gateway.sends("r1", "c1", "stuck").await;
    assert_eq!(gateway.hears_result("r1").await, first);
    assert_eq!(server.egress.orders().len(), 1);
}

#[tokio::test]
async fn what_waited_behind_a_hanging_one_past_its_own_deadline_is_not_begun() {
    let server = TestServer::open().await;
    let (_, mut gateway) = in_chats(&server, &["c1"]).await;
    server.egress.in_chat("c1", Habit::Hangs);
    gateway.sends("r1", "c1", "stuck").await;
    gateway.sends("r2", "c1", "behind").await;
    server.egress.has_begun(1).await;
    gateway.hears_nothing().await;
    server.winds(seconds(25));
    assert_eq!(gateway.hears_result("r1").await["error"], "send timed out");
    assert_eq!(gateway.hears_result("r2").await["error"], "send timed out");
    assert_eq!(server.egress.texts("c1"), ["stuck"]);
}

#[tokio::test]
async fn an_action_done_at_the_last_moment_is_answered_and_remembered_as_done() {
    let server = TestServer::open().await;
    let (_, mut gateway) = in_chats(&server, &["c1"]).await;
    let deadline = server.clock.now() + seconds(25);
    server.egress.in_chat("c1", Habit::Until(deadline));
    gateway.sends("r1", "c1", "just in time").await;
    server.egress.has_begun(1).await;
    server.winds(seconds(25));
    let first = gateway.hears_result("r1").await;
    gateway.sends("r1", "c1", "just in time").await;
    // Whichever of the two came first, it is told the same way for ever.
    assert_eq!(gateway.hears_result("r1").await, first);
    assert_eq!(server.egress.orders().len(), 1);
}

#[tokio::test]
async fn a_platform_whose_code_breaks_costs_one_answer_and_not_the_chat() {
    let server = TestServer::open().await;
    let (_, mut gateway) = in_chats(&server, &["c1"]).await;
    server.egress.in_chat("c1", Habit::Panics);
    gateway.sends("r1", "c1", "bang").await;
    assert_eq!(gateway.hears_result("r1").await["error"], "send timed out");
    server.egress.in_chat("c1", Habit::Answers(Outcome::done()));
    gateway.sends("r2", "c1", "fine").await;
    assert_eq!(gateway.hears_result("r2").await["success"], true);
}

#[tokio::test]
async fn every_op_of_the_contract_is_carried() {
    let server = TestServer::open().await;
    let (_, mut gateway) = in_chats(&server, &["c1"]).await;
    let ops = [
        json!({"op": "send", "chat_id": "c1", "content": "x"}),
        json!({"op": "edit", "chat_id": "c1", "message_id": "m1", "content": "x"}),
        json!({"op": "typing", "chat_id": "c1"}),
        json!({"op": "follow_up", "session_key": "agent:main:telegram:dm:c1", "kind": "a.b", "content": "x"}),
        json!({"op": "get_chat_info", "chat_id": "c1"}),
    ];
    for (number, action) in ops.into_iter().enumerate() {
        let request = format!("r{number}");
        gateway.asks(&request, action.clone()).await;
        assert_eq!(gateway.hears_result(&request).await["success"], true, "{action}");
        assert_eq!(server.egress.orders()[number].action.op(), action["op"]);
    }
}

#[tokio::test]
async fn an_unknown_op_is_refused_at_once_and_a_malformed_one_in_words() {
    let server = TestServer::open().await;
    let (_, mut gateway) = in_chats(&server, &["c1"]).await;
    server.egress.in_chat("c1", Habit::Hangs);
    gateway.sends("stuck", "c1", "stuck").await;
    gateway.asks("r1", json!({"op": "levitate", "chat_id": "c1"})).await;
    assert_eq!(
        gateway.hears_result("r1").await,
        json!({"success": false, "error": "unsupported op: levitate"})
    );
    gateway.asks("r2", json!({"op": "send", "chat_id": "c1"})).await;
    assert_eq!(gateway.hears_result("r2").await["error"], "malformed send: content is missing");
    gateway.asks("r3", json!({"op": "send", "chat_id": 5, "content": "x"})).await;
    assert_eq!(gateway.hears_result("r3").await["success"], false);
    for (request, action) in
        [("r4", json!("send")), ("r5", json!(null)), ("r6", json!([1])), ("r7", json!(7))]
    {
        gateway.asks(request, action).await;
        assert_eq!(gateway.hears_result(request).await["success"], false);
    }
    gateway.say(json!({"type": "outbound", "requestId": "r8"})).await;
    assert_eq!(gateway.hears_result("r8").await["success"], false);
    // Nothing to answer to: ignored.
    gateway.say(json!({"type": "outbound", "action": {"op": "send"}})).await;
    gateway.say(json!({"type": "outbound", "requestId": {}, "action": {"op": "send"}})).await;
    gateway.hears_nothing().await;
}

#[tokio::test]
async fn lone_surrogates_and_nan_are_mended() {
    let server = TestServer::open().await;
    let (_, mut gateway) = in_chats(&server, &["c1"]).await;
    let line = r#"{"type":"outbound","requestId":"r1","action":{"op":"send","chat_id":"c1","content":"a\ud83d b","metadata":{"x":NaN}}}"#;
    gateway.say_raw(Message::text(format!("{line}\n"))).await;
    assert_eq!(gateway.hears_result("r1").await["success"], true);
    assert_eq!(server.egress.texts("c1"), ["a\u{fffd} b"]);
}

#[tokio::test]
async fn a_result_finds_the_gateways_next_socket_when_the_first_dropped() {
    let server = TestServer::open().await;
    let (heron, mut gateway) = in_chats(&server, &["c1"]).await;
    let later = server.clock.now() + seconds(5);
    server.egress.in_chat("c1", Habit::Until(later));
    gateway.sends("r1", "c1", "slow").await;
    server.egress.has_begun(1).await;
    gateway.dies();
    eventually(|| !server.relay.connections().presence(&heron.instance).connected).await;
    // Done while nobody is there.
    server.winds(seconds(5));
    is_noted(&heron).await;
    let mut back = heron.sits_with_window(1).await;
    assert_eq!(back.hears_result("r1").await["success"], true);
    back.hears_nothing().await;
}

#[tokio::test]
async fn a_result_that_comes_after_the_redial_is_sent_on_the_new_socket() {
    let server = TestServer::open().await;
    let (heron, mut gateway) = in_chats(&server, &["c1"]).await;
    let later = server.clock.now() + seconds(5);
    server.egress.in_chat("c1", Habit::Until(later));
    gateway.sends("r1", "c1", "slow").await;
    server.egress.has_begun(1).await;
    gateway.dies();
    eventually(|| !server.relay.connections().presence(&heron.instance).connected).await;
    let mut back = heron.sits_with_window(1).await;
    back.hears_nothing().await;
    server.winds(seconds(5));
    assert_eq!(back.hears_result("r1").await["success"], true);
}

#[tokio::test]
async fn a_request_before_any_hello_is_declined_on_its_own_socket() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    server.says(&heron.bots[0], "c1", "hello").await;
    let mut gateway = heron.dials().await;
    gateway.sends("r1", "c1", "hi").await;
    assert_eq!(gateway.hears_result("r1").await["code"], "egress_declined");
    assert!(server.egress.orders().is_empty());
}

#[tokio::test]
async fn too_many_requests_for_one_chat_are_refused_in_words() {
    let server = TestServer::open().await;
    let (_, mut gateway) = in_chats(&server, &["c1"]).await;
    server.egress.in_chat("c1", Habit::Hangs);
    for number in 0..258 {
        gateway.sends(&format!("r{number}"), "c1", "flood").await;
    }
    let refused = gateway.hears_result("r257").await;
    assert!(refused["error"].as_str().unwrap().starts_with("rate limit"), "{refused}");
}

#[tokio::test]
async fn requests_that_weigh_too_much_together_are_refused_until_some_are_answered() {
    let server = TestServer::open().await;
    let (_, mut gateway) = in_chats(&server, &["c1"]).await;
    let later = server.clock.now() + seconds(5);
    server.egress.in_chat("c1", Habit::Until(later));
    let long = "x".repeat(256 * 1024);
    for number in 0..128 {
        gateway.sends(&format!("r{number}"), "c1", &long).await;
    }
    let refused = gateway.hears_result("r127").await;
    assert!(refused["error"].as_str().unwrap().starts_with("rate limit"), "{refused}");
    server.winds(seconds(5));
    for number in 0..127 {
        assert_eq!(gateway.hears_result(&format!("r{number}")).await["success"], true);
    }
    gateway.sends("r11", "c1", &long).await;
    assert_eq!(gateway.hears_result("r11").await["success"], true);
    // An id is kept longer than its request, so it has a limit of its own.
    let id = "r".repeat(257);
    gateway.sends(&id, "c1", "hi").await;
    let refused = gateway.hears_result(&id).await;
    assert!(refused["error"].as_str().unwrap().starts_with("malformed request"), "{refused}");
}

#[tokio::test]
async fn a_text_of_256_kib_goes_out_and_a_longer_one_is_refused_in_words() {
    let server = TestServer::open().await;
    let (_, mut gateway) = in_chats(&server, &["c1"]).await;
    gateway.sends("r1", "c1", &"x".repeat(256 * 1024)).await;
    assert_eq!(gateway.hears_result("r1").await["success"], true);
    gateway.sends("r2", "c1", &"x".repeat(256 * 1024 + 1)).await;
    let refused = gateway.hears_result("r2").await;
    assert_eq!(refused["error"], "too long: 262145 bytes, at most 262144");
}

#[tokio::test]
async fn an_outcome_the_ledger_could_not_note_is_still_told_truly() {
    let server = TestServer::open().await;
    let (heron, mut gateway) = in_chats(&server, &["c1"]).await;
    let later = server.clock.now() + seconds(5);
    server.egress.in_chat("c1", Habit::Until(later));
    gateway.sends("r1", "c1", "done").await;
    server.egress.has_begun(1).await;
    server.outbox.is_full.store(true, Ordering::SeqCst);
    server.winds(seconds(5));
    assert_eq!(gateway.hears_result("r1").await["success"], true);
    // And what cannot even be begun is not done.
    gateway.sends("r2", "c1", "not done").await;
    let refused = gateway.hears_result("r2").await;
    assert!(refused["error"].as_str().unwrap().starts_with("network:"), "{refused}");
    assert_eq!(server.egress.texts("c1"), ["done"]);
    // Once there is room again the noting is made up for.
    server.outbox.is_full.store(false, Ordering::SeqCst);
    server.winds(seconds(1));
    is_noted(&heron).await;
}

/// The first request is remembered as done.
pub async fn is_noted(heron: &Agent) {
    let noted = async {
        loop {
            let begun = heron.server.ledger.outbox().begin(request(heron)).await.unwrap();
            if matches!(&begun, BeginOutcome::Finished { outcome, .. } if outcome.success) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::test_server::PATIENCE, noted).await.expect("it is not noted");
}

fn request(heron: &Agent) -> ledger::Request {
    ledger::Request {
        gateway: heron.gateway.clone(),
        request: "r1".into(),
        instance: heron.instance.clone(),
        op: "send".to_owned(),
        platform: "telegram".into(),
        bot: "7001".into(),
        chat: Some("c1".into()),
        reply_to: None,
        received: heron.server.clock.now(),
    }
}

#[tokio::test]
async fn a_request_tagged_relay_goes_out_under_the_identity_of_its_chat_like_an_untagged_one() {
    let server = TestServer::open().await;
    let (_, mut gateway) = in_chats(&server, &["c1"]).await;
    let mut frame = json!({"type": "outbound", "requestId": "r1", "platform": "relay",
        "action": {"op": "send", "chat_id": "c1", "content": "your reminder"}});
    gateway.say(frame.clone()).await;
    assert_eq!(gateway.hears_result("r1").await["success"], true);
    assert_eq!(server.egress.orders().remove(0).on, bot("telegram", "7001"));
    // It opens no chat that was never delivered.
    frame["requestId"] = json!("r2");
    frame["action"]["chat_id"] = json!("never-seen");
    gateway.say(frame).await;
    assert_eq!(gateway.hears_result("r2").await["code"], "egress_declined");
}

//! Messages of people in the web chat, and the answers of agents.

use std::collections::BTreeMap;
use std::time::Duration;

use http::StatusCode;
use ledger::LimitName;
use posthouse_wire::{Action, ActionId, ChatInfo, MessageType, Outcome};
use serde_json::json;

use super::actors::{TestServer, edit, send, typing};

#[tokio::test]
async fn what_a_person_says_is_kept_for_the_agent_before_the_page_hears_so() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("Zoë 🦉", &heron.instance).await;
    assert!(room.starts_with("web-"));
    let said = server.says(&room, "good morning 日本語", "nonce-0001").await;
    assert_eq!(said.status, StatusCode::OK, "{}", said.text);
    let [(entry, event)] = &heron.unread().await[..] else { panic!("one entry") };
    assert_eq!(said.json()["entry"], json!(entry));
    assert_eq!(event.text, "good morning 日本語");
    assert_eq!(event.message_id.as_ref().unwrap().as_str(), said.json()["message_id"]);
    assert_eq!(event.bot_id.as_ref().unwrap().as_str(), heron.instance.as_str());
    let source = &event.source;
    assert_eq!((source.platform.as_str(), source.chat_type.as_str()), ("web", "dm"));
    assert_eq!(source.chat_id.as_ref().unwrap(), room.as_str());
    assert_eq!(source.user_name.as_deref(), Some("Zoë 🦉"));
    assert!(source.user_id.as_ref().unwrap().as_str().starts_with("web-user-"));
    assert_eq!(server.reads(&room).await, [("person".to_owned(), "good morning 日本語".to_owned())]);
}

#[tokio::test]
async fn saying_the_same_again_changes_nothing() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let first = server.says(&room, "once", "nonce-0001").await;
    let again = server.says(&room, "once", "nonce-0001").await;
    assert_eq!(first.json(), again.json());
    assert_eq!(heron.unread().await.len(), 1);
    assert_eq!(server.reads(&room).await.len(), 1);
    server.says(&room, "once", "nonce-0002").await;
    assert_eq!(heron.unread().await.len(), 2);
}

#[tokio::test]
async fn the_page_hears_429_with_the_reason_when_the_inbox_is_full() {
    let server = TestServer::with_small_inboxes(4).await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    assert_eq!(server.says(&room, "first", "nonce-0001").await.status, StatusCode::OK);
    let refused = server.says(&room, "second", "nonce-0002").await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "{}", refused.text);
    assert_eq!(refused.json()["code"], "inbox_full");
    // A message that was not stored for the agent is not in the room either. Another person can still write.
    assert_eq!(server.reads(&room).await.len(), 1);
    let other = server.enters("ben", &heron.instance).await;
    assert_eq!(server.says(&other, "hello", "nonce-0003").await.status, StatusCode::OK);
    assert_eq!(heron.unread().await.len(), 2);
}

#[tokio::test]
async fn the_page_hears_429_with_the_reason_when_the_tenant_gets_too_many_messages() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let tenant = server.ledger.roster().instance(&heron.instance).await.unwrap().unwrap().tenant;
    let limits = BTreeMap::from([(LimitName::AgentMessages, Some(1))]);
    assert!(server.identity.quotas.set_limits(&tenant, limits).await.unwrap());
    assert_eq!(server.says(&room, "first", "nonce-0001").await.status, StatusCode::OK);
    let refused = server.says(&room, "second", "nonce-0002").await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "{}", refused.text);
    assert_eq!(refused.json()["code"], "over_quota");
    assert_eq!(server.reads(&room).await.len(), 1);
    server.clock.wind(Duration::from_secs(60));
    assert_eq!(server.says(&room, "second", "nonce-0002").await.status, StatusCode::OK);
    assert_eq!(heron.unread().await.len(), 2);
}

#[tokio::test]
async fn a_command_is_told_apart_from_a_text() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    server.says(&room, "/stop", "nonce-0001").await;
    server.says(&room, "/etc/hosts is a file", "nonce-0002").await;
    let kinds: Vec<MessageType> =
        heron.unread().await.into_iter().map(|(_, event)| event.message_type).collect();
    assert_eq!(kinds, [MessageType::Command, MessageType::Text]);
}

#[tokio::test]
async fn each_person_has_a_room_of_their_own_with_each_agent() {
    let server = TestServer::open().await;
    let (heron, otter) = (server.enrol("heron").await, server.enrol("otter").await);
    let rooms = [
        server.enters("ann", &heron.instance).await,
        server.enters("bob", &heron.instance).await,
        server.enters("ann", &otter.instance).await,
    ];
    assert!(rooms[0] != rooms[1] && rooms[0] != rooms[2] && rooms[1] != rooms[2]);
    assert_eq!(server.enters("ann", &heron.instance).await, rooms[0]);
    server.says(&rooms[0], "to heron", "nonce-0001").await;
    assert_eq!((heron.unread().await.len(), otter.unread().await.len()), (1, 0));
}

#[tokio::test]
async fn an_answer_that_grows_is_found_whole_after_a_reload() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    server.says(&room, "tell me", "nonce-0001").await;
    let sent = heron.does(send(&room, "Once")).await;
    let message = sent.message_id.clone().unwrap();
    for text in ["Once upon", "Once upon a time"] {
        assert!(heron.does(edit(&room, message.as_str(), text)).await.success);
    }
    let ann = server.page_of("ann").await;
    let entered = server.post(&ann, "/chat/api/rooms", json!({ "agent": heron.instance })).await.json();
    let told: Vec<_> =
        entered["history"].as_array().unwrap().iter().map(|line| (&line["author"], &line["text"])).collect();
    assert_eq!(told, [(&json!("person"), &json!("tell me")), (&json!("agent"), &json!("Once upon a time"))]);
}

#[tokio::test]
async fn the_same_action_carried_twice_is_one_line() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let action = ActionId::mint(1);
    let first = heron.repeats(action.clone(), send(&room, "hello")).await;
    assert_eq!(first, heron.repeats(action, send(&room, "hello")).await);
    assert_eq!(server.reads(&room).await.len(), 1);
}

#[tokio::test]
async fn an_agent_cannot_reach_into_another_agents_room() {
    let server = TestServer::open().await;
    let (heron, otter) = (server.enrol("heron").await, server.enrol("otter").await);
    let room = server.enters("ann", &heron.instance).await;
    let message = heron.does(send(&room, "mine")).await.message_id.unwrap();
    let absent = Outcome::failed("chat not found");
    for action in [
        send(&room, "hi"),
        edit(&room, message.as_str(), "hi"),
        typing(&room, None),
        Action::GetChatInfo { chat_id: room.as_str().into() },
    ] {
        assert_eq!(otter.does(action).await, absent);
    }
    assert_eq!(otter.does(send("web-nowhere", "hi")).await, absent);
    assert_eq!(server.reads(&room).await, [("agent".to_owned(), "mine".to_owned())]);
}

#[tokio::test]
async fn an_answer_over_the_limit_becomes_several_messages_and_shrinks_again() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let long = "word ".repeat(8_000);
    let message = heron.does(send(&room, &long)).await.message_id.unwrap();
    let lines = server.reads(&room).await;
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|(_, text)| text.chars().count() <= 32_000));
    let longer = "word ".repeat(14_000);
    assert!(heron.does(edit(&room, message.as_str(), &longer)).await.success);
    assert_eq!(server.reads(&room).await.len(), 3);
    assert!(heron.does(edit(&room, message.as_str(), "short")).await.success);
    let texts: Vec<String> = server.reads(&room).await.into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["short", "", ""]);
}

#[tokio::test]
async fn actions_that_cannot_be_are_answered_in_words_the_agents_know() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let said = server.says(&room, "mine", "nonce-0001").await;
    let of_person = said.json()["message_id"].as_str().unwrap().to_owned();
    let not_found = Outcome::failed("message to edit not found");
    assert_eq!(heron.does(edit(&room, "w0", "x")).await, not_found);
    assert_eq!(heron.does(edit(&room, &of_person, "forged")).await, not_found);
    assert!(!heron.does(send(&room, " \n ")).await.success);
    let info = heron.does(Action::GetChatInfo { chat_id: room.as_str().into() }).await;
    assert_eq!(info, Outcome::info(ChatInfo { name: "ann".to_owned(), kind: "dm".to_owned() }));
}

#[tokio::test]
async fn what_cannot_be_said_is_refused_and_nothing_is_kept() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let long = "é".repeat(32_001);
    for (text, nonce, status) in [
        ("", "nonce-0001", StatusCode::UNPROCESSABLE_ENTITY),
        (" \n\t", "nonce-0001", StatusCode::UNPROCESSABLE_ENTITY),
        (&long, "nonce-0001", StatusCode::PAYLOAD_TOO_LARGE),
        ("fine", "short", StatusCode::UNPROCESSABLE_ENTITY),
        ("fine", "nonce with blanks", StatusCode::UNPROCESSABLE_ENTITY),
    ] {
        assert_eq!(server.says(&room, text, nonce).await.status, status, "{nonce}");
    }
    assert!(server.says("web-unknown", "hi", "nonce-0001").await.is_absence());
    let path = format!("/chat/api/rooms/{room}/messages");
    let ann = server.page_of("ann").await;
    let malformed = server.post(&ann, &path, json!(["text"])).await;
    assert_eq!((malformed.status, &malformed.json()["code"]), (StatusCode::BAD_REQUEST, &json!("malformed")));
    let huge = json!({"text": "x".repeat(500_000), "nonce": "nonce-0001"});
    assert_eq!(server.post(&ann, &path, huge).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(server.says(&room, &"é".repeat(32_000), "nonce-0001").await.status, StatusCode::OK);
    assert_eq!(heron.unread().await.len(), 1);
    let nowhere = server.post(&ann, "/chat/api/rooms", json!({"agent": "inst_0"})).await;
    assert!(nowhere.is_absence());
}

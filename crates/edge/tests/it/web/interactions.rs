//! Prompts and presses, follow-ups, reactions, threads, drafts and replies in the web chat.

use http::StatusCode;
use posthouse_wire::action::{Metadata, PromptKind, PromptOption, RenameGuard};
use posthouse_wire::{Action, Event, MessageType, Outcome, session_key};
use serde_json::{Value, json};

use super::actors::{Heron, PageResponse, TestServer, send};

fn option(id: &str, label: &str) -> PromptOption {
    PromptOption { id: id.into(), label: label.to_owned(), style: None }
}

fn prompt(room: &str) -> Action {
    Action::Prompt {
        chat_id: room.into(),
        prompt_kind: PromptKind::Approval,
        prompt_id: "a1.b2".into(),
        content: "Run it?".to_owned(),
        options: vec![option("once", "Allow once"), option("deny", "Deny")],
        reply_to: None,
        metadata: Metadata::default(),
    }
}

fn follow_up(key: &str, kind: &str) -> Action {
    Action::FollowUp {
        session_key: key.into(),
        kind: kind.into(),
        content: "thank you".to_owned(),
        metadata: Metadata::default(),
    }
}

fn rename(room: &str, thread: &str, name: &str, guard: RenameGuard) -> Action {
    Action::ThreadRename {
        chat_id: room.into(),
        thread_id: thread.into(),
        thread_name: name.to_owned(),
        guard,
        metadata: Metadata::default(),
    }
}

async fn press(server: &TestServer, person: &str, room: &str, message: &str, option: &str) -> PageResponse {
    let page = server.page_of(person).await;
    let path = format!("/chat/api/rooms/{room}/presses");
    server.post(&page, &path, json!({"message_id": message, "option_id": option})).await
}

/// The key under which the agent knows the session of this event.
fn key_of(event: &Event) -> String {
    session_key::plausible(&event.source)[0].to_string()
}

/// Asks in a room of ann, who presses a button. Returns the room and the event of the press.
async fn pressed(server: &TestServer, heron: &Heron<'_>) -> (String, Event) {
    let room = server.enters("ann", &heron.instance).await;
    let message = heron.asks(prompt(&room)).await.message_id.unwrap();
    let answer = press(server, "ann", &room, message.as_str(), "once").await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let (_, event) = heron.unread().await.pop().unwrap();
    (room, event)
}

#[tokio::test]
async fn a_press_on_the_page_answers_the_prompt_once_and_every_page_shows_it() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let page = server.page_of("ann").await;
    let mut watcher = server.watches(&page, &room, "").await;
    let message = heron.asks(prompt(&room)).await.message_id.unwrap();
    let shown = watcher.hears().await;
    let options = json!([{"id": "once", "label": "Allow once"}, {"id": "deny", "label": "Deny"}]);
    assert_eq!(shown.data["prompt"], json!({"options": options, "pressed": null}));

    for (person, message, option) in
        [("ann", "w-nothing", "once"), ("ann", message.as_str(), "always"), ("ben", message.as_str(), "once")]
    {
        let refused = press(&server, person, &room, message, option).await;
        assert_eq!(refused.status, StatusCode::NOT_FOUND, "{person} {message} {option}");
    }
    assert_eq!(press(&server, "ann", &room, message.as_str(), "deny").await.status, StatusCode::OK);
    let marks = watcher.hears().await;
    assert_eq!((marks.name.as_str(), &marks.data["prompt"]["pressed"]), ("marks", &json!("deny")));
    let again = press(&server, "ann", &room, message.as_str(), "once").await;
    assert_eq!((again.status, &again.json()["code"]), (StatusCode::CONFLICT, &json!("answered")));

    let [(_, event)] = &heron.unread().await[..] else { panic!("one entry") };
    assert_eq!((event.text.as_str(), event.message_type), ("/deny", MessageType::Command));
    let response = event.prompt_response.as_ref().unwrap();
    assert_eq!((response.prompt_id.as_str(), response.option_id.as_str()), ("a1.b2", "deny"));
    let entered = server.post(&page, "/chat/api/rooms", json!({"agent": heron.instance})).await;
    assert_eq!(entered.json()["history"][0]["prompt"]["pressed"], "deny");
}

#[tokio::test]
async fn a_press_brings_a_capability_that_one_follow_up_spends() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let (room, event) = pressed(&server, &heron).await;
    let key = key_of(&event);
    let sent = heron.asks(follow_up(&key, "web.reply_token")).await;
    assert!(sent.success, "{sent:?}");
    let lines = server.rooms().messages_after(&room.as_str().into(), 0, None, usize::MAX).await.unwrap();
    let (_, answer) = lines.last().unwrap();
    assert_eq!((answer.text.as_str(), answer.by_agent), ("thank you", true));
    assert_eq!(answer.reply_to, event.message_id, "it answers the press");
    assert_eq!(heron.asks(follow_up(&key, "web.reply_token")).await, Outcome::no_capability(), "used up");
    let uses = server.vault_records().credential_uses(&heron.instance, None, 10).await.unwrap();
    assert_eq!(uses.len(), 1, "a refused follow-up used nothing");
    assert_eq!(uses[0].kind, "web.reply_token");
    assert_eq!((uses[0].outcome.as_deref(), uses[0].entry.is_some()), (Some("ok"), true));
}

#[tokio::test]
async fn every_follow_up_without_a_usable_capability_gets_one_answer_after_the_same_work() {
    let server = TestServer::open().await;
    let (heron, otter) = (server.enrol("heron").await, server.enrol_for("umbrella", "otter").await);
    let sister = server.enrol("sister").await;
    let (room, event) = pressed(&server, &heron).await;
    let key = key_of(&event);
    let answer = async |who: &Heron<'_>, key: &str, kind: &str, may_redeem: bool| {
        let before = (server.ledger.commits(), server.ledger.reads());
        let outcome = who.asks_with(follow_up(key, kind), may_redeem).await;
        (outcome, server.ledger.commits() - before.0, server.ledger.reads() - before.1)
    };
    let mut answers = vec![
        answer(&heron, "agent:main:web:dm:nobody", "web.reply_token", true).await,
        answer(&heron, &key, "web.unknown", true).await,
        answer(&heron, &key, "discord.interaction_token", true).await,
        answer(&heron, &key, "", true).await,
        answer(&heron, &key, "web.reply_token", false).await,
        answer(&otter, &key, "web.reply_token", true).await,
        answer(&sister, &key, "web.reply_token", true).await,
    ];
    server.clock.wind(std::time::Duration::from_secs(14 * 60 + 1));
    answers.push(answer(&heron, &key, "web.reply_token", true).await);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert_eq!(answers[0].0, Outcome::no_capability());
    let lines = server.rooms().messages_after(&room.as_str().into(), 0, None, usize::MAX).await.unwrap();
    assert_eq!(lines.len(), 1, "only the prompt");
}

#[tokio::test]
async fn reactions_of_the_agent_are_shown_and_stay() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let page = server.page_of("ann").await;
    let said =
        server.says(&room, "hello", "nonce-0001").await.json()["message_id"].as_str().unwrap().to_owned();
    let mut watcher = server.watches(&page, &room, "").await;
    assert_eq!(watcher.hears().await.data["reactions"], json!([]));
    let react = |message: &str, remove| Action::React {
        chat_id: room.as_str().into(),
        message_id: message.into(),
        emoji: "👀".to_owned(),
        remove,
        metadata: Metadata::default(),
    };
    for (remove, shown) in
        [(false, json!(["👀"])), (false, json!(["👀"])), (true, json!([])), (true, json!([]))]
    {
        assert_eq!(heron.asks(react(&said, remove)).await, Outcome::done());
        let marks = watcher.hears().await;
        assert_eq!((marks.name.as_str(), &marks.data["reactions"]), ("marks", &shown));
    }
    assert!(!heron.asks(react("w-nothing", false)).await.success);
    heron.asks(react(&said, false)).await;
    let entered = server.post(&page, "/chat/api/rooms", json!({"agent": heron.instance})).await;
    assert_eq!(entered.json()["history"][0]["reactions"], json!(["👀"]));
}

#[tokio::test]
async fn a_thread_has_its_own_session_and_its_guards_keep_a_name_that_changed() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let page = server.page_of("ann").await;
    let create = Action::ThreadCreate {
        chat_id: room.as_str().into(),
        thread_name: "plans".to_owned(),
        message_id: None,
        metadata: Metadata::default(),
    };
    let thread = heron.asks(create).await.thread_id.unwrap();
    let in_thread = |thread: &str| Action::Send {
        chat_id: room.as_str().into(),
        content: "inside".to_owned(),
        reply_to: None,
        metadata: Metadata { thread_id: Some(thread.into()), ..Metadata::default() },
    };
    assert!(heron.asks(in_thread(thread.as_str())).await.success);
    assert_eq!(heron.asks(in_thread("t-nothing")).await, Outcome::failed("thread not found"));
    let path = format!("/chat/api/rooms/{room}/messages");
    let said =
        server.post(&page, &path, json!({"text": "me too", "nonce": "nonce-0001", "thread": thread})).await;
    assert_eq!(said.status, StatusCode::OK, "{}", said.text);
    let unknown =
        server.post(&page, &path, json!({"text": "x", "nonce": "nonce-0002", "thread": "t9"})).await;
    assert_eq!(unknown.status, StatusCode::UNPROCESSABLE_ENTITY);
    let (_, event) = heron.unread().await.pop().unwrap();
    assert_eq!(event.source.thread_id, Some(thread.clone()));

    let created = || RenameGuard { only_if_connector_created: true, only_if_current_name: None };
    let named =
        |name: &str| RenameGuard { only_if_current_name: Some(name.to_owned()), ..RenameGuard::default() };
    let id = thread.as_str();
    assert!(!heron.asks(rename(&room, id, "x", named("other"))).await.success);
    assert!(heron.asks(rename(&room, id, "second", named("plans"))).await.success);
    assert!(heron.asks(rename(&room, id, "third", created())).await.success);
    assert!(!heron.asks(rename(&room, "t-nothing", "x", created())).await.success);
    assert!(!heron.asks(rename(&room, "t-nothing", "x", RenameGuard::default())).await.success);
    let entered = server.post(&page, "/chat/api/rooms", json!({"agent": heron.instance})).await.json();
    assert_eq!(entered["threads"], json!([{"thread_id": thread, "name": "third"}]));
    let threads: Vec<Value> =
        entered["history"].as_array().unwrap().iter().map(|line| line["thread"].clone()).collect();
    assert_eq!(threads, [json!(thread), json!(thread)]);
}

#[tokio::test]
async fn a_draft_is_shown_and_not_stored_and_its_final_is_posted_once() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let page = server.page_of("ann").await;
    let mut watcher = server.watches(&page, &room, "").await;
    let draft = |content: &str, is_final| Action::Draft {
        chat_id: room.as_str().into(),
        draft_id: 1 << 48,
        content: content.to_owned(),
        is_final,
        metadata: Metadata::default(),
    };
    assert_eq!(heron.asks(draft("so **far**", false)).await, Outcome::done());
    let shown = loop {
        let heard = watcher.hears().await;
        if heard.name != "turn" {
            break heard;
        }
    };
    assert_eq!((shown.name.as_str(), &shown.data["text"]), ("draft", &json!("so **far**")));
    assert!(server.reads(&room).await.is_empty());
    let posted = heron.asks(draft("all of it", true)).await;
    assert_eq!(heron.asks(draft("all of it", true)).await, posted);
    assert_eq!(server.reads(&room).await, [("agent".to_owned(), "all of it".to_owned())]);
}

#[tokio::test]
async fn a_reply_tells_the_agent_what_was_quoted() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let page = server.page_of("ann").await;
    let message = heron.asks(send(&room, "blue or green?")).await.message_id.unwrap();
    let path = format!("/chat/api/rooms/{room}/messages");
    server.post(&page, &path, json!({"text": "blue", "nonce": "nonce-0001", "reply_to": message})).await;
    server.post(&page, &path, json!({"text": "red", "nonce": "nonce-0002", "reply_to": "w-nothing"})).await;
    let events = heron.unread().await;
    let quoted = events[0].1.reply_to.as_ref().unwrap();
    assert_eq!((quoted.text.as_deref(), quoted.is_own), (Some("blue or green?"), Some(true)));
    assert_eq!(events[0].1.reply_to_message_id, Some(message));
    assert_eq!((&events[1].1.reply_to, &events[1].1.reply_to_message_id), (&None, &None), "it is gone");
}

//! The event stream of a room: live messages, edits, deliveries and turns.

use std::time::Duration;

use ledger::{RoomMarks, RoomMessage};
use serde_json::json;

use super::actors::{Heron, ServerSentEvent, TestServer, Watcher, answer, edit, send, typing};

#[tokio::test]
async fn a_page_sees_what_was_said_and_then_what_is_being_said() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    server.says(&room, "hello", "nonce-0001").await;
    let mut page = server.watches(&server.page_of("ann").await, &room, "").await;
    let told = page.hears_of_lines().await;
    assert_eq!(
        (told.name.as_str(), &told.data["author"], &told.data["text"]),
        ("line", &json!("person"), &json!("hello"))
    );
    heron.does(typing(&room, None)).await;
    assert_eq!(page.hears_of_lines().await.data, json!({"on": true, "text": null}));
    let message = heron.does(send(&room, "Go")).await.message_id.unwrap();
    let told = page.hears_of_lines().await;
    assert_eq!((told.name.as_str(), &told.data["message_id"]), ("line", &json!(message)));
    for text in ["Good", "Good morning"] {
        heron.does(edit(&room, message.as_str(), text)).await;
        let told = page.hears_of_lines().await;
        assert_eq!((told.name.as_str(), &told.data["text"]), ("edit", &json!(text)));
    }
    heron.does(typing(&room, Some(""))).await;
    assert_eq!(page.hears_of_lines().await.data["on"], json!(false));
}

#[tokio::test]
async fn a_page_that_comes_back_is_told_what_it_missed_edits_too() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let old = heron.does(send(&room, "old")).await.message_id.unwrap();
    server.clock.wind(Duration::from_secs(3600));
    heron.does(send(&room, "untouched")).await;
    server.clock.wind(Duration::from_secs(3600));
    heron.does(send(&room, "seen last")).await;
    let mut page = server.watches(&server.page_of("ann").await, &room, "").await;
    let mut last = None;
    for _ in 0..3 {
        last = page.hears_of_lines().await.id;
    }
    drop(page);
    server.clock.wind(Duration::from_secs(3600));
    heron.does(edit(&room, old.as_str(), "old, mended")).await;
    heron.does(send(&room, "new")).await;
    let last = last.expect("lines carry an id");
    let ann = server.page_of("ann").await;
    for (from, after) in
        [(ann.clone(), format!("?after={last}")), (ann.with("last-event-id", &last), String::new())]
    {
        let mut page = server.watches(&from, &room, &after).await;
        let texts = [page.hears_of_lines().await, page.hears_of_lines().await, page.hears_of_lines().await]
            .map(|told| told.data["text"].clone());
        assert_eq!(texts, [json!("old, mended"), json!("seen last"), json!("new")]);
    }
}

#[tokio::test]
async fn a_page_that_fell_far_behind_still_ends_with_the_whole_story() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let message = heron.does(send(&room, "0")).await.message_id.unwrap();
    let mut page = server.watches(&server.page_of("ann").await, &room, "").await;
    for number in 1..=400 {
        heron.does(edit(&room, message.as_str(), &number.to_string())).await;
    }
    loop {
        let told = page.hears().await;
        if told.data["text"] == json!("400") {
            break;
        }
    }
}

#[tokio::test]
async fn streams_end_when_the_server_closes() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let mut page = server.watches(&server.page_of("ann").await, &room, "").await;
    server.closing.cancel();
    assert_eq!(page.next().await, None);
}

#[tokio::test]
async fn the_page_shows_delivered_from_the_acknowledgement_and_a_turn_until_the_answer() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let said = server.says(&room, "hello", "nonce-0001").await.json();
    let ann = server.page_of("ann").await;
    let mut page = server.watches(&ann, &room, "").await;
    let line = page.hears().await;
    assert_eq!((line.name.as_str(), &line.data["delivered"]), ("line", &json!(false)));
    // Nothing is delivered yet: later signs of the agent arrive first.
    for sign in [Some("thinking of something else"), Some("")] {
        heron.does(typing(&room, sign)).await;
        let mut names = [page.hears().await.name, page.hears().await.name];
        names.sort();
        assert_eq!(names, ["turn", "typing"]);
    }
    drop(page);

    heron.acknowledges(said["entry"].as_str().unwrap()).await;
    let mut page = server.watches(&ann, &room, "").await;
    assert_eq!(page.hears().await.name, "line");
    assert_eq!(page.hears().await, told("turn", json!({ "open": true })));
    assert_eq!(page.hears().await, told("delivered", json!({ "message_id": said["message_id"] })));
    // A page that comes later sees both at once.
    let mut second = server.watches(&ann, &room, "").await;
    assert_eq!(second.hears().await, told("turn", json!({ "open": true })));
    assert_eq!(second.hears().await.data["delivered"], json!(true));

    heron.does(answer(&room, "good morning")).await;
    for page in [&mut page, &mut second] {
        let mut heard = [page.hears().await, page.hears().await];
        heard.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(heard[0].data["text"], json!("good morning"));
        assert_eq!(heard[1], told("turn", json!({ "open": false })));
    }
    // Answered: a page that is opened now shows no turn.
    let mut third = server.watches(&ann, &room, "").await;
    assert_eq!((third.hears().await.name, third.hears().await.name), ("line".to_owned(), "line".to_owned()));
    heron.does(typing(&room, None)).await;
    let next = [third.hears().await.name, third.hears().await.name];
    assert!(next.contains(&"typing".to_owned()) && next.contains(&"turn".to_owned()));
}

#[tokio::test]
async fn a_turn_that_nothing_is_heard_of_any_more_is_over() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let mut page = server.watches(&server.page_of("ann").await, &room, "").await;
    heron.does(typing(&room, None)).await;
    let mut names = [page.hears().await.name, page.hears().await.name];
    names.sort();
    assert_eq!(names, ["turn", "typing"]);
    server.clock.wind(Duration::from_secs(10));
    assert_eq!(page.hears().await, told("turn", json!({ "open": false })));
}

/// The page of ann, who sent this message a while ago. The agent has acknowledged it meanwhile.
async fn opened_after(server: &TestServer, heron: &Heron<'_>, room: &str, text: &str, ago: u64) -> Watcher {
    let said = server.says(room, text, "nonce-0001").await.json();
    heron.acknowledges(said["entry"].as_str().unwrap()).await;
    server.clock.wind(Duration::from_secs(ago));
    server.watches(&server.page_of("ann").await, room, "").await
}

/// Asserts that no turn is shown: the next event is about something else.
async fn shows_no_turn(page: &mut Watcher, heron: &Heron<'_>, room: &str) {
    heron.does(send(room, "by the way")).await;
    let heard = page.hears().await;
    assert_eq!((heard.name.as_str(), &heard.data["text"]), ("line", &json!("by the way")));
}

#[tokio::test]
async fn a_typed_stop_opens_no_turn() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let mut page = opened_after(&server, &heron, &room, "/stop", 0).await;
    assert_eq!(page.hears().await.name, "line");
    assert_eq!(page.hears().await.name, "delivered");
    shows_no_turn(&mut page, &heron, &room).await;
}

#[tokio::test]
async fn a_typed_stop_ends_the_turn_that_runs_unless_the_agent_goes_on() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let mut page = opened_after(&server, &heron, &room, "work", 0).await;
    assert_eq!(page.hears().await.name, "line");
    assert_eq!(page.hears().await, told("turn", json!({ "open": true })));
    assert_eq!(page.hears().await.name, "delivered");
    server.says(&room, "/stop", "nonce-0002").await;
    assert_eq!(page.hears().await.name, "line");
    server.clock.wind(Duration::from_secs(5));
    heron.does(send(&room, "a reminder")).await;
    assert_eq!(page.hears().await, told("turn", json!({ "open": false })));
}

#[tokio::test]
async fn an_answer_that_comes_before_the_acknowledgement_is_noted_leaves_no_turn_open() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let mut page = server.watches(&server.page_of("ann").await, &room, "").await;
    heron.does(typing(&room, Some(""))).await;
    assert_eq!(page.hears().await.name, "typing", "it has caught up");
    let said = server.says(&room, "quick?", "nonce-0001").await.json();
    heron.acknowledges(said["entry"].as_str().unwrap()).await;
    // Stored, but not shown on this page yet.
    let line = RoomMessage {
        message: "w1".into(),
        by_agent: true,
        text: "yes".to_owned(),
        reply_to: None,
        sent: server.clock.now(),
        edited: None,
        entry: None,
        delivered: None,
        marks: RoomMarks::default(),
        files: Vec::new(),
    };
    server.rooms().say(&room.as_str().into(), line).await.unwrap();
    assert_eq!(page.hears().await.name, "line");
    assert_eq!(page.hears().await.name, "delivered");
    shows_no_turn(&mut page, &heron, &room).await;
}

#[tokio::test]
async fn a_page_opened_later_shows_no_turn_that_ended_long_ago() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    // There was no sign for longer than an agent is assumed to work.
    let room = server.enters("ann", &heron.instance).await;
    let mut page = opened_after(&server, &heron, &room, "hello?", 30 * 60).await;
    assert_eq!(page.hears().await.name, "line");
    assert_eq!(page.hears().await.name, "delivered");
    shows_no_turn(&mut page, &heron, &room).await;
}

#[tokio::test]
async fn a_page_opened_later_shows_no_turn_whose_typing_has_ended() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let said = server.says(&room, "hello?", "nonce-0001").await.json();
    heron.acknowledges(said["entry"].as_str().unwrap()).await;
    server.clock.wind(Duration::from_secs(1));
    heron.does(typing(&room, None)).await;
    server.clock.wind(Duration::from_secs(10));
    let mut page = server.watches(&server.page_of("ann").await, &room, "").await;
    assert_eq!(page.hears().await.name, "line");
    assert_eq!(page.hears().await.name, "delivered");
    shows_no_turn(&mut page, &heron, &room).await;
}

#[tokio::test]
async fn what_an_agent_writes_reaches_the_page_as_safe_html() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    server.says(&room, "**mine**", "nonce-0001").await;
    let mut page = server.watches(&server.page_of("ann").await, &room, "").await;
    assert_eq!(page.hears().await.data["html"], json!(null), "what people write stays text");
    let message = heron.does(send(&room, "**Go** <i>")).await.message_id.unwrap();
    assert_eq!(page.hears().await.data["html"], json!("<p><strong>Go</strong> &lt;i&gt;</p>"));
    // Long texts are rendered on another thread and arrive in the same way.
    let long = format!("# Title\n\n{}", "word ".repeat(5_000));
    heron.does(edit(&room, message.as_str(), &long)).await;
    let edited = loop {
        let told = page.hears().await;
        if told.name == "edit" {
            break told;
        }
    };
    assert!(edited.data["html"].as_str().unwrap().starts_with("<h3>Title</h3><p>word"));
    let ann = server.page_of("ann").await;
    let entered = server.post(&ann, "/chat/api/rooms", json!({ "agent": heron.instance })).await.json();
    assert_eq!(entered["history"][1]["html"], edited.data["html"]);
}

#[tokio::test]
async fn streams_of_one_invitation_are_bounded_and_another_gets_its_own() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let ann = server.page_of("ann").await;
    let mut pages = Vec::new();
    for _ in 0..16 {
        pages.push(server.watches(&ann, &room, "").await);
    }
    let refused = server.get(&ann, &format!("/chat/api/rooms/{room}/stream")).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (429, &json!("too_many_streams")));
    let of_bob = server.enters("bob", &heron.instance).await;
    server.watches(&server.page_of("bob").await, &of_bob, "").await;
    pages.pop();
    server.watches(&ann, &room, "").await;
}

#[tokio::test]
async fn a_long_room_is_told_within_bounds_and_read_a_little_at_a_time() {
    let server = TestServer::open().await;
    let heron = server.enrol("heron").await;
    let room = server.enters("ann", &heron.instance).await;
    let text = "x".repeat(30_000);
    for number in 0..40 {
        heron.does(send(&room, &format!("{number} {text}"))).await;
    }
    let ann = server.page_of("ann").await;
    let entered = server.post(&ann, "/chat/api/rooms", json!({ "agent": heron.instance })).await.json();
    let history = entered["history"].as_array().unwrap();
    assert!((10..20).contains(&history.len()), "half a MiB of text: {}", history.len());
    assert!(history.last().unwrap()["text"].as_str().unwrap().starts_with("39 "));
    let mut page = server.watches(&ann, &room, "").await;
    for expected in (40 - history.len())..40 {
        let told = page.hears().await;
        assert!(told.data["text"].as_str().unwrap().starts_with(&format!("{expected} ")));
    }
}

fn told(name: &str, data: serde_json::Value) -> ServerSentEvent {
    ServerSentEvent { name: name.to_owned(), id: None, data }
}

//! Sending of actions to Telegram, and the failures on the way.

use std::time::Duration;

use edge::platform::Platform;
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::Action;
use posthouse_wire::action::Metadata;
use serde_json::{Value, json};
use stand_ins::telegram::{Fault, FaultKind, Filter, Injection, RowKind};

use super::actors::{Fixture, LONG, edit, error, open, send, telegram};

fn raw(row: &stand_ins::telegram::TranscriptRow) -> Value {
    serde_json::from_str(row.raw.get()).unwrap()
}

#[tokio::test]
async fn an_answer_goes_out_as_markup_and_names_its_message() {
    let fixture = open(Timepiece::wall()).await;
    let before = fixture.clock.now();
    let carried =
        fixture.perform(send("5", "**bold** and 1.5 - a_b! [site](https://example.test/a_(b))")).await;
    assert!(carried.outcome.success, "{:?}", carried.outcome);
    assert!(carried.posted.unwrap() >= before);
    let row = &fixture.stand_in.transcript(&Filter::sent(5))[0];
    assert_eq!(row.text.as_deref(), Some("bold and 1.5 - a_b! site"));
    assert_eq!(carried.outcome.message_id.unwrap(), row.message_id.unwrap().to_string().as_str());
    assert_eq!(raw(row)["parse_mode"], "MarkdownV2");
}

#[tokio::test]
async fn an_answer_goes_to_its_topic_and_replies_to_its_question() {
    let fixture = open(Timepiece::wall()).await;
    let forum = Injection { thread_id: Some(77), is_forum: true, ..Injection::text(-1002, "in topic") };
    let asked = fixture.stand_in.inject(forum).unwrap().message_id.unwrap();
    for (thread, named) in [(Some("77"), Some(77)), (Some("1"), None), (None, None)] {
        let metadata = Metadata { thread_id: thread.map(Into::into), ..Metadata::default() };
        let outcome = fixture
            .outcome(Action::Send {
                chat_id: "-1002".into(),
                content: "here".into(),
                reply_to: Some(asked.to_string().into()),
                metadata: metadata.clone(),
            })
            .await;
        assert!(outcome.success, "{outcome:?}");
        let row = fixture.stand_in.transcript(&Filter::sent(-1002)).pop().unwrap();
        assert_eq!((row.thread_id, row.reply_to), (named, Some(asked)));

        assert!(
            fixture
                .outcome(Action::Typing { chat_id: "-1002".into(), content: None, metadata })
                .await
                .success
        );
        let actions = Filter { kinds: vec![RowKind::Action], ..Filter::chat(-1002) };
        let typing = fixture.stand_in.transcript(&actions).pop().unwrap();
        // The typing sign appears in General only if General is named; a message only if it is not named.
        assert_eq!(
            (typing.text.as_deref(), typing.thread_id),
            (Some("typing"), thread.map(|id| id.parse().unwrap()))
        );
    }
    let gone = Action::Send {
        chat_id: "-1002".into(),
        content: "still said".into(),
        reply_to: Some("99999".into()),
        metadata: Metadata::default(),
    };
    assert!(fixture.outcome(gone).await.success);
}

#[tokio::test]
async fn a_long_answer_becomes_several_messages_in_order() {
    let fixture = open(Timepiece::wall()).await;
    // As long as a text that a stock gateway was seen to send in one piece, in letters of two UTF-16 units.
    let mut content: String = (0..800).map(|n| format!("{n:04} 𝔘𝔫𝔦 é\n")).collect();
    content.push_str(&"x".repeat(11_213 - content.encode_utf16().count()));
    assert_eq!(content.encode_utf16().count(), 11_213);
    let asked = fixture.stand_in.inject(Injection::text(5, "tell me")).unwrap().message_id;
    let outcome = fixture
        .outcome(Action::Send {
            chat_id: "5".into(),
            content: content.clone(),
            reply_to: asked.map(|id| id.to_string().into()),
            metadata: Metadata::default(),
        })
        .await;
    assert!(outcome.success, "{outcome:?}");
    let rows = fixture.stand_in.transcript(&Filter::sent(5));
    assert!(rows.len() >= 3);
    let said: Vec<&str> = rows.iter().map(|row| row.text.as_deref().unwrap()).collect();
    let without_space = |text: &str| text.split_whitespace().collect::<String>();
    assert_eq!(without_space(&said.concat()), without_space(&content));
    assert!(said.iter().all(|text| text.encode_utf16().count() <= 4096));
    let replies: Vec<Option<i64>> = rows.iter().map(|row| row.reply_to).collect();
    assert_eq!((replies[0], &replies[1..]), (asked, vec![None; rows.len() - 1].as_slice()));
    assert_eq!(outcome.message_id.unwrap(), rows.last().unwrap().message_id.unwrap().to_string().as_str());
}

#[tokio::test]
async fn an_edit_replaces_all_that_was_said_under_its_message() {
    let fixture = open(Timepiece::wall()).await;
    let standing = |fixture: &Fixture| {
        let mut texts = std::collections::BTreeMap::new();
        for row in fixture.stand_in.transcript(&Filter::chat(5)) {
            match row.kind {
                RowKind::Sent | RowKind::Edited => {
                    _ = texts.insert(row.message_id.unwrap(), row.text.unwrap())
                }
                RowKind::Deleted => _ = texts.remove(&row.message_id.unwrap()),
                _ => {}
            }
        }
        texts.into_values().collect::<Vec<String>>()
    };
    let id = fixture.outcome(send("5", "growing")).await.message_id.unwrap();
    let lines = |count: usize| (0..count).map(|n| format!("line {n:05}\n")).collect::<String>();
    for (content, messages) in
        [("short".to_owned(), 1), (lines(500), 2), (lines(900), 3), (lines(901), 3), ("end".to_owned(), 1)]
    {
        let outcome = fixture.outcome(edit("5", id.as_str(), &content)).await;
        assert!(outcome.success, "{outcome:?}");
        let said = standing(&fixture);
        assert_eq!(said.len(), messages);
        assert_eq!(said.join("\n"), content.trim_end());
        // An edit that changes nothing counts as done.
        assert!(fixture.outcome(edit("5", id.as_str(), &content)).await.success);
        assert_eq!(standing(&fixture), said);
    }
    let long = fixture.outcome(send("5", &lines(900))).await.message_id.unwrap();
    assert!(fixture.outcome(edit("5", long.as_str(), "all of it")).await.success);
    assert_eq!(standing(&fixture), ["end", "all of it"]);
}

#[tokio::test]
async fn an_edit_that_grows_too_long_goes_on_in_the_topic_of_its_message() {
    let fixture = open(Timepiece::wall()).await;
    let forum = Injection { thread_id: Some(77), is_forum: true, ..Injection::text(-1002, "in topic") };
    fixture.stand_in.inject(forum).unwrap();
    let first = Action::Send {
        chat_id: "-1002".into(),
        content: "growing".into(),
        reply_to: None,
        metadata: Metadata { thread_id: Some("77".into()), ..Metadata::default() },
    };
    let id = fixture.outcome(first).await.message_id.unwrap();
    assert!(fixture.outcome(edit("-1002", id.as_str(), &"word ".repeat(1000))).await.success);
    let topics: Vec<Option<i64>> =
        fixture.stand_in.transcript(&Filter::sent(-1002)).iter().map(|row| row.thread_id).collect();
    assert_eq!(topics, [Some(77), Some(77)]);
}

#[tokio::test]
async fn what_cannot_be_carried_out_is_told_in_words_that_gateways_know() {
    let fixture = open(Timepiece::wall()).await;
    for (action, expected) in [
        (send("777", "x"), "chat not found"),
        (send("@posty", "x"), "chat not found"),
        (send("5", " \n"), "empty"),
        (edit("5", "999", "x"), "message to edit not found"),
        (edit("5", "m1", "x"), "message to edit not found"),
        (
            Action::Send {
                chat_id: "5".into(),
                content: "x".into(),
                reply_to: None,
                metadata: Metadata { thread_id: Some("9999".into()), ..Metadata::default() },
            },
            "thread not found",
        ),
    ] {
        let outcome = fixture.outcome(action.clone()).await;
        assert!(error(&outcome).contains(expected), "{action:?}: {outcome:?}");
    }
    for (trouble, expected) in [
        (FaultKind::Blocked, "Forbidden"),
        (FaultKind::Unauthorized, "unauthorized"),
        (FaultKind::ChatNotFound, "chat not found"),
        (FaultKind::TooManyRequests { retry_after: 300 }, "wait 300 s"),
    ] {
        let fault = fixture.stand_in.fault(Fault::new(trouble).on("sendMessage"));
        let outcome = fixture.outcome(send("5", "x")).await;
        assert!(error(&outcome).contains(expected), "{outcome:?}");
        assert_eq!(fixture.stand_in.struck(fault), 1);
    }
    assert!(fixture.sent(5).is_empty());
}

#[tokio::test]
async fn markup_that_telegram_cannot_read_goes_out_plain() {
    // The stand-in refuses nothing that the converter writes, so this test uses its own server.
    let refusing = strict::open().await;
    let telegram = telegram(&refusing.base, Timepiece::wall());
    let fixture = open(Timepiece::wall()).await;
    let link = format!("[a](https://example.test/{})", "x".repeat(3000));
    for (content, messages) in [("**bold**".to_owned(), 1), (format!("{link}\n{link}"), 2)] {
        refusing.heard.lock().clear();
        let outcome = telegram.perform(&fixture.bot, fixture.order(send("5", &content))).await.outcome;
        assert!(outcome.success, "{outcome:?}");
        let heard = refusing.heard.lock().clone();
        assert_eq!(heard[0]["parse_mode"], "MarkdownV2");
        let plain: Vec<&str> = heard[1..].iter().map(|call| call["text"].as_str().unwrap()).collect();
        assert!(heard[1..].iter().all(|call| call.get("parse_mode").is_none()));
        assert_eq!((plain.len(), plain.join("\n")), (messages, content));
    }
}

/// A Bot API server that cannot parse any markup.
mod strict {
    use std::sync::Arc;

    use axum::extract::State;
    use axum::http::StatusCode;
    use axum::routing::post;
    use axum::{Json, Router};
    use parking_lot::Mutex;
    use serde_json::{Value, json};

    pub struct Strict {
        pub base: String,
        pub heard: Arc<Mutex<Vec<Value>>>,
    }

    pub async fn open() -> Strict {
        let heard: Arc<Mutex<Vec<Value>>> = Arc::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let routes = Router::new().route("/{token}/sendMessage", post(answer)).with_state(Arc::clone(&heard));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Strict { base, heard }
    }

    async fn answer(
        State(heard): State<Arc<Mutex<Vec<Value>>>>,
        Json(call): Json<Value>,
    ) -> (StatusCode, Json<Value>) {
        let marked = call.get("parse_mode").is_some();
        let mut heard = heard.lock();
        heard.push(call);
        if marked {
            let said = "Bad Request: can't parse entities: Character '.' is reserved";
            return (
                StatusCode::BAD_REQUEST,
                Json(json!({"ok": false, "error_code": 400, "description": said})),
            );
        }
        (StatusCode::OK, Json(json!({"ok": true, "result": {"message_id": heard.len()}})))
    }
}

#[tokio::test]
async fn a_request_to_wait_is_honoured_within_the_deadline() {
    let fixture = open(Timepiece::wound(Moment::from_seconds(1_765_000_000))).await;
    let fault =
        fixture.stand_in.fault(Fault::new(FaultKind::TooManyRequests { retry_after: 3 }).on("sendMessage"));
    let sending = fixture.perform(send("5", "patience"));
    let winding = async {
        assert!(fixture.stand_in.until(LONG, |stand_in| stand_in.struck(fault) == 1).await);
        // When a call that was made later is done, this one has been told to wait.
        assert!(fixture.outcome(send("6", "first marker")).await.success);
        // One second less than the call has to wait.
        fixture.clock.wind(Duration::from_secs(2));
        assert!(fixture.outcome(send("6", "second marker")).await.success);
        assert!(fixture.sent(5).is_empty());
        let sent = fixture.stand_in.until(LONG, |_| !fixture.sent(5).is_empty());
        assert!(fixture.clock.wind_until(Duration::from_secs(1), sent).await);
    };
    let (carried, ()) = tokio::join!(sending, winding);
    assert!(carried.outcome.success, "{:?}", carried.outcome);
    assert_eq!(carried.posted, Some(Moment::from_seconds(1_765_000_000)));
}

#[tokio::test]
async fn a_step_of_the_wall_clock_by_hours_fails_no_send_that_waits_its_turn() {
    for ahead in [true, false] {
        let start = Moment::from_seconds(1_765_000_000);
        let step = Duration::from_secs(5 * 3600);
        let fixture = open(Timepiece::wound(start)).await;
        let fault = fixture
            .stand_in
            .fault(Fault::new(FaultKind::TooManyRequests { retry_after: 3 }).on("sendMessage"));
        let sending = fixture.perform(send("5", "patience"));
        let winding = async {
            assert!(fixture.stand_in.until(LONG, |stand_in| stand_in.struck(fault) == 1).await);
            fixture.clock.set(if ahead { start + step } else { start - step });
            let sent = fixture.stand_in.until(LONG, |_| !fixture.sent(5).is_empty());
            assert!(fixture.clock.wind_until(Duration::from_secs(1), sent).await);
        };
        let (carried, ()) = tokio::join!(sending, winding);
        assert!(carried.outcome.success, "{:?}", carried.outcome);
    }
}

#[tokio::test]
async fn a_failing_server_is_asked_once_more_and_no_more_than_that() {
    let fixture = open(Timepiece::wall()).await;
    let once = fixture.stand_in.fault(Fault::new(FaultKind::ServerError { status: 502 }).on("sendMessage"));
    assert!(fixture.outcome(send("5", "second time lucky")).await.success);
    assert_eq!((fixture.stand_in.struck(once), fixture.sent(5).len()), (1, 1));

    let always = fixture
        .stand_in
        .fault(Fault::new(FaultKind::ServerError { status: 500 }).on("sendMessage").until_cleared());
    let outcome = fixture.outcome(send("5", "never")).await;
    assert!(error(&outcome).contains("status 500"), "{outcome:?}");
    assert_eq!((fixture.stand_in.struck(always), fixture.sent(5).len()), (2, 1));
}

#[tokio::test]
async fn a_lost_answer_to_a_send_is_never_sent_again() {
    let fixture = open(Timepiece::wall()).await;
    // The second call uses a connection that was used before.
    for times in 1..=2 {
        fixture.stand_in.fault(Fault::new(FaultKind::DropAfterWrite).on("sendMessage"));
        let carried = fixture.perform(send("5", "once")).await;
        assert!(error(&carried.outcome).contains("timed out"), "{:?}", carried.outcome);
        assert!(!error(&carried.outcome).contains("network"));
        assert!(carried.posted.is_some());
        assert_eq!(fixture.sent(5).len(), 2 * times - 1);
        assert!(fixture.outcome(send("5", "next")).await.success);
    }
}

#[tokio::test]
async fn a_lost_answer_to_an_edit_is_asked_for_again() {
    let fixture = open(Timepiece::wall()).await;
    let id = fixture.outcome(send("5", "draft")).await.message_id.unwrap();
    fixture.stand_in.fault(Fault::new(FaultKind::DropAfterWrite).on("editMessageText"));
    assert!(fixture.outcome(edit("5", id.as_str(), "final")).await.success);
}

#[tokio::test]
async fn a_hanging_chat_times_out_before_its_deadline_and_holds_up_no_other() {
    let fixture = open(Timepiece::wound(Moment::from_seconds(1_765_000_000))).await;
    fixture.stand_in.fault(Fault::new(FaultKind::HangAfterWrite).on("sendMessage").in_chat(5));
    let hanging = fixture.order(send("5", "stuck"));
    let deadline = hanging.deadline;
    let stuck = async {
        let carried = fixture.telegram.perform(&fixture.bot, hanging).await;
        (carried, fixture.clock.instant())
    };
    let others = async {
        assert!(fixture.stand_in.until(LONG, |stand_in| stand_in.hanging() == 1).await);
        for _ in 0..20 {
            assert!(fixture.outcome(send("6", "meanwhile")).await.success);
        }
        fixture.clock.wind(deadline.since(fixture.clock.instant()) - Duration::from_millis(500));
    };
    let ((carried, ended), ()) = tokio::join!(stuck, others);
    assert!(error(&carried.outcome).contains("timed out"), "{:?}", carried.outcome);
    assert!(ended < deadline);
    assert_eq!((fixture.sent(5).len(), fixture.sent(6).len()), (1, 20));
}

#[tokio::test]
async fn nothing_is_claimed_of_a_telegram_that_cannot_be_reached() {
    let mut fixture = open(Timepiece::wall()).await;
    fixture.bot.settings.insert("api_base_url".to_owned(), json!("http://127.0.0.1:1/"));
    let carried = fixture.perform(send("5", "x")).await;
    assert!(error(&carried.outcome).starts_with("network: "), "{:?}", carried.outcome);
    assert_eq!(carried.posted, None);
    let mut late = fixture.order(send("5", "x"));
    late.deadline = fixture.clock.instant();
    let outcome = fixture.telegram.perform(&fixture.bot, late).await.outcome;
    assert!(error(&outcome).starts_with("network: "), "{outcome:?}");
}

#[tokio::test]
async fn an_answer_that_broke_off_half_way_is_not_asked_for_again() {
    let fixture = open(Timepiece::wall()).await;
    let content = (0..900).map(|n| format!("line {n:05}\n")).collect::<String>();
    let first = fixture.stand_in.fault(Fault::new(FaultKind::Slow { delay_ms: 0 }).on("sendMessage"));
    let then = fixture.stand_in.fault(Fault::new(FaultKind::Blocked).on("sendMessage").until_cleared());
    let outcome = fixture.outcome(send("5", &content)).await;
    let error = error(&outcome);
    assert!(error.contains("1 of 3") && error.contains("timed out") && !error.contains("network"), "{error}");
    assert_eq!(
        (fixture.stand_in.struck(first), fixture.stand_in.struck(then), fixture.sent(5).len()),
        (1, 1, 1)
    );
}

#[tokio::test]
async fn a_group_that_moved_is_answered_where_it_went() {
    let fixture = open(Timepiece::wall()).await;
    for chat in [-7, -1009] {
        fixture.stand_in.inject(Injection::text(chat, "hello")).unwrap();
    }
    fixture.stand_in.fault(Fault::new(FaultKind::Migrated { to: -1009 }).in_chat(-7).until_cleared());
    assert!(fixture.outcome(send("-7", "found you")).await.success);
    assert_eq!(fixture.sent(-1009), ["found you"]);
}

#[tokio::test]
async fn chats_are_described_and_asked_about_once_a_minute() {
    let fixture = open(Timepiece::wall()).await;
    fixture
        .stand_in
        .inject(Injection { title: Some("Team".into()), ..Injection::text(-1001, "hello") })
        .unwrap();
    for (chat, name, kind) in [("5", "Ana", "dm"), ("-1001", "Team", "group")] {
        let outcome = fixture.outcome(Action::GetChatInfo { chat_id: chat.into() }).await;
        let info = outcome.chat_info.unwrap();
        assert_eq!((info.name.as_str(), info.kind.as_str()), (name, kind));
    }
    fixture.stand_in.fault(Fault::new(FaultKind::ChatNotFound).on("getChat").until_cleared());
    assert!(fixture.outcome(Action::GetChatInfo { chat_id: "5".into() }).await.success);
    let unknown = fixture.outcome(Action::GetChatInfo { chat_id: "6".into() }).await;
    assert!(error(&unknown).contains("chat not found"));
}

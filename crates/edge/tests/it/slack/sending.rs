//! Tests of actions on Slack: messages, edits, threads, reactions, status, rate limits and errors.

use std::time::Duration;

use posthouse_time::{Moment, Timepiece};
use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, Outcome};
use serde_json::json;
use stand_ins::harness::{CallFault, CallFaultKind, RowFilter};
use stand_ins::slack::{Settings, SlackLimits};

use edge::platform::Platform;

use super::actors::{DIRECT, Fixture, error, open, open_with, send};

/// A conversation in which U77 has spoken. Returns the id of that message.
async fn in_conversation(fixture: &Fixture) -> String {
    let ts = fixture.says("hello")["ts"].as_str().unwrap().to_owned();
    fixture.hears(&["hello"]).await;
    ts
}

fn edit(message: &str, content: &str) -> Action {
    Action::Edit {
        chat_id: DIRECT.into(),
        message_id: message.into(),
        content: content.to_owned(),
        metadata: Metadata::default(),
    }
}

fn threaded(thread: &str) -> Metadata {
    Metadata { thread_id: Some(thread.into()), ..Metadata::default() }
}

#[tokio::test]
async fn an_answer_is_mrkdwn_in_its_thread_and_can_be_edited() {
    let fixture = open().await;
    let ts = in_conversation(&fixture).await;
    let answer = Action::Send {
        chat_id: DIRECT.into(),
        content: "**bold** [link](https://a.test) <!channel>".to_owned(),
        reply_to: None,
        metadata: threaded(&ts),
    };
    let sent = fixture.outcome(answer).await;
    assert!(sent.success, "{sent:?}");
    let row = fixture.stand_in.transcript(&RowFilter::sent(DIRECT)).pop().unwrap();
    assert_eq!(row.text.as_deref(), Some("*bold* <https://a.test|link> &lt;!channel&gt;"));
    assert_eq!(
        (row.thread_id.as_deref(), row.message_id.as_deref()),
        (Some(&*ts), sent.message_id.as_ref().map(|id| id.as_str()))
    );
    let raw = row.raw;
    assert_eq!((&raw["unfurl_links"], &raw["parse"]), (&false.into(), &"none".into()));
    let edited = fixture.outcome(edit(sent.message_id.unwrap().as_str(), "*changed*")).await;
    assert!(edited.success, "{edited:?}");
    assert_eq!(fixture.rows("edited")[0].text.as_deref(), Some("_changed_"));
}

#[tokio::test]
async fn a_long_answer_becomes_several_messages_and_an_edit_changes_all_of_them() {
    let fixture = open().await;
    in_conversation(&fixture).await;
    let sent = fixture.outcome(send(DIRECT, &"a line & more of a long answer\n".repeat(1_500))).await;
    assert!(sent.success, "{sent:?}");
    let parts = fixture.sent(DIRECT);
    assert_eq!(parts.len(), 2);
    assert!(parts.iter().all(|part| part.chars().count() <= 39_000 && !part.ends_with("&am")));
    assert!(fixture.outcome(edit(sent.message_id.unwrap().as_str(), "short")).await.success);
    assert_eq!((fixture.rows("edited").len(), fixture.rows("deleted").len()), (1, 1));
}

#[tokio::test]
async fn a_message_whose_answer_is_lost_is_not_sent_again() {
    let fixture = open().await;
    in_conversation(&fixture).await;
    fixture.stand_in.fault(CallFault::new(CallFaultKind::DropAfterWrite).on("chat.postMessage"));
    let lost = fixture.outcome(send(DIRECT, "once")).await;
    assert!(error(&lost).contains("timed out"));
    assert_eq!(fixture.sent(DIRECT), ["once"]);
}

#[tokio::test]
async fn a_message_a_second_is_sent_to_a_channel_and_slack_never_refuses_one() {
    let settings = Settings { limits: Some(SlackLimits::default()), ..Settings::default() };
    let fixture = open_with(Timepiece::wall(), settings).await;
    fixture.serve_doors().await;
    in_conversation(&fixture).await;
    for number in 0..3 {
        let sent = fixture.outcome(send(DIRECT, &format!("message {number}"))).await;
        assert!(sent.success, "{sent:?}");
    }
    assert_eq!(fixture.sent(DIRECT).len(), 3);
    assert!(fixture.stand_in.refusals(&RowFilter::default()).is_empty());
}

#[tokio::test]
async fn a_request_to_wait_is_honoured_within_the_deadline_and_told_beyond_it() {
    let fixture = open().await;
    in_conversation(&fixture).await;
    let wait = |retry_after| CallFault::new(CallFaultKind::TooManyRequests { retry_after, global: false });
    let waited = fixture.stand_in.fault(wait(1.0).on("chat.postMessage"));
    assert!(fixture.outcome(send(DIRECT, "a moment later")).await.success);
    assert_eq!(fixture.stand_in.struck(waited), 1);
    fixture.stand_in.fault(wait(40.0).on("chat.update"));
    let refused = fixture.outcome(edit("1765000000.000100", "never")).await;
    assert!(error(&refused).contains("rate limit: Slack asks to wait 40 s"));
}

#[tokio::test]
async fn a_request_to_wait_does_not_slow_down_later_calls() {
    let clock = Timepiece::wound(Moment::from_seconds(1_765_000_000));
    let fixture = open_with(clock, Settings::default()).await;
    fixture.inject(json!({"do": "message", "text": "hello"}));
    let sent = fixture.outcome(send(DIRECT, "one")).await.message_id.unwrap();
    let wait = CallFaultKind::TooManyRequests { retry_after: 40.0, global: false };
    fixture.stand_in.fault(CallFault::new(wait).on("chat.update"));
    error(&fixture.outcome(edit(sent.as_str(), "too early")).await);
    assert!(
        error(&fixture.outcome(edit(sent.as_str(), "still")).await).contains("rate limit"),
        "without a call"
    );
    fixture.clock.wind(Duration::from_secs(41));
    // Nobody moves the clock, so that an edit that waits would wait for ever.
    for number in 0..5 {
        let edited = fixture.outcome(edit(sent.as_str(), &format!("edit {number}"))).await;
        assert!(edited.success, "{edited:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_carried_out_is_told_in_words_that_gateways_know() {
    let fixture = open().await;
    let ts = in_conversation(&fixture).await;
    for chat in ["C404", "#general", "general", "", "C1/../x", "D177\n"] {
        assert!(error(&fixture.outcome(send(chat, "x")).await).contains("chat not found"), "{chat}");
    }
    assert!(error(&fixture.outcome(send(DIRECT, " ")).await).contains("empty"));
    assert!(error(&fixture.outcome(edit("5", "x")).await).contains("message to edit not found"));
    assert!(error(&fixture.outcome(edit("5.5", "x")).await).contains("message to edit not found"));
    assert!(
        error(&fixture.outcome(edit(&ts, "x")).await).starts_with("forbidden"),
        "somebody else's message"
    );
    let rename = Action::ThreadRename {
        chat_id: DIRECT.into(),
        thread_id: ts.as_str().into(),
        thread_name: "x".to_owned(),
        guard: Default::default(),
        metadata: Metadata::default(),
    };
    assert_eq!(fixture.outcome(rename).await, Outcome::unsupported("thread_rename"), "threads have no names");
}

#[tokio::test]
async fn reactions_status_threads_and_chat_names_have_their_calls() {
    let fixture = open().await;
    let ts = in_conversation(&fixture).await;
    let react = |emoji: &str, remove: bool| Action::React {
        chat_id: DIRECT.into(),
        message_id: ts.as_str().into(),
        emoji: emoji.to_owned(),
        remove,
        metadata: Metadata::default(),
    };
    for (emoji, remove) in [("👀", false), (":eyes:", false), ("👀", true), ("👀", true)] {
        let reacted = fixture.outcome(react(emoji, remove)).await;
        assert!(reacted.success, "{emoji} {remove}: {reacted:?}");
    }
    assert_eq!((fixture.rows("reaction").len(), fixture.rows("reaction_removed").len()), (1, 1));
    assert!(error(&fixture.outcome(react("🦖", false)).await).contains("use the name"));

    let typing = |content: Option<&str>, metadata| Action::Typing {
        chat_id: DIRECT.into(),
        content: content.map(str::to_owned),
        metadata,
    };
    assert!(fixture.outcome(typing(None, threaded(&ts))).await.success);
    assert!(fixture.outcome(typing(Some(""), threaded(&ts))).await.success);
    assert!(fixture.outcome(typing(None, Metadata::default())).await.success, "nothing to show");
    let statuses: Vec<_> = fixture.rows("typing").into_iter().map(|row| row.text.unwrap()).collect();
    assert_eq!(statuses, ["is working on it...", ""]);

    let info = fixture.outcome(Action::GetChatInfo { chat_id: DIRECT.into() }).await.chat_info.unwrap();
    assert_eq!(info.kind, "dm");
    let create = |under: Option<&str>| Action::ThreadCreate {
        chat_id: DIRECT.into(),
        thread_name: "notes <x>".to_owned(),
        message_id: under.map(Into::into),
        metadata: Metadata::default(),
    };
    assert_eq!(fixture.outcome(create(Some(&ts))).await.thread_id.unwrap().as_str(), ts);
    let new = fixture.outcome(create(None)).await.thread_id.unwrap();
    let row = fixture.stand_in.transcript(&RowFilter::sent(DIRECT)).pop().unwrap();
    assert_eq!(
        (row.message_id.as_deref(), row.text.as_deref()),
        (Some(new.as_str()), Some("*notes &lt;x&gt;*"))
    );
}

#[tokio::test]
async fn a_person_is_written_to_in_their_direct_message() {
    let fixture = open().await;
    in_conversation(&fixture).await;
    let sent = fixture.outcome(send("U77", "by the person's id")).await;
    assert!(sent.success, "{sent:?}");
    assert_eq!(fixture.sent(DIRECT), ["by the person's id"]);
}

#[tokio::test]
async fn a_person_sees_a_channel_if_they_are_a_member() {
    let fixture = open().await;
    fixture.mentions("hello");
    fixture.hears(&["hello"]).await;
    let sees =
        async |user: &str, chat: &str| fixture.slack.sees(&fixture.bot, &user.into(), &chat.into()).await;
    assert!(sees("U77", "C10").await && sees("U77", "U77").await);
    assert!(!sees("U78", "C10").await && !sees("U77", "C404").await && !sees("U77", "nonsense").await);
    fixture.stand_in.fault(CallFault::new(CallFaultKind::DropAfterWrite).on("conversations.members"));
    assert!(!sees("U77", "C10").await, "no answer is no");
}

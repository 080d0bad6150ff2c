//! Actions on Matrix: texts, edits, typing, reactions, threads, limits and faults.

use edge::platform::Platform;
use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, MessageId};
use serde_json::{Value, json};
use stand_ins::harness::{CallFault, CallFaultKind, RowFilter};
use stand_ins::matrix::MatrixLimits;

use super::actors::{ANA, DIRECT, Fixture, POSTY, error, open, open_with, send};

fn edit(message: &MessageId, content: &str) -> Action {
    Action::Edit {
        chat_id: DIRECT.into(),
        message_id: message.clone(),
        content: content.to_owned(),
        metadata: Metadata::default(),
    }
}

fn react(message: &str, emoji: &str, remove: bool) -> Action {
    Action::React {
        chat_id: DIRECT.into(),
        message_id: message.into(),
        emoji: emoji.to_owned(),
        remove,
        metadata: Metadata::default(),
    }
}

fn said(fixture: &Fixture) -> Vec<Value> {
    fixture.stand_in.transcript(&RowFilter::sent(DIRECT)).into_iter().map(|row| row.raw).collect()
}

#[tokio::test]
async fn markdown_is_sent_as_html_with_the_text_beside_it() {
    let fixture = open().await;
    assert!(fixture.outcome(send(DIRECT, "**olá** `x<y`")).await.success);
    let content = said(&fixture).remove(0);
    assert_eq!((&content["msgtype"], &content["body"]), (&json!("m.text"), &json!("**olá** `x<y`")));
    assert_eq!(content["format"], "org.matrix.custom.html");
    assert_eq!(content["formatted_body"], "<p><strong>olá</strong> <code>x&lt;y</code></p>");
    assert_eq!(content["m.mentions"], json!({}), "names in the text notify nobody");
}

#[tokio::test]
async fn an_edit_changes_all_messages_of_a_long_text() {
    let fixture = open().await;
    let long = "word ".repeat(5_000);
    let sent = fixture.outcome(send(DIRECT, &long)).await;
    let message = sent.message_id.unwrap();
    let first = fixture.stand_in.transcript(&RowFilter::sent(DIRECT));
    assert_eq!((first.len(), first[1].message_id.as_deref()), (2, Some(message.as_str())));
    // The text becomes short: the first message has it, and the second is removed.
    let edited = fixture.outcome(edit(&message, "short")).await;
    assert_eq!(edited.message_id.unwrap(), message);
    let rows = fixture.rows("edited");
    assert_eq!((rows.len(), rows[0].message_id.as_ref()), (1, first[0].message_id.as_ref()));
    assert_eq!(rows[0].raw["m.new_content"]["body"], "short");
    assert_eq!(fixture.rows("deleted")[0].message_id.as_deref(), Some(message.as_str()));
    assert!(fixture.outcome(edit(&message, &long)).await.success);
    assert_eq!(said(&fixture).len(), 3, "the rest is a new message again");
    assert!(
        error(&fixture.outcome(edit(&"nonsense".into(), "x")).await).contains("message to edit not found")
    );
}

#[tokio::test]
async fn a_reply_names_its_message_and_a_thread_its_beginning() {
    let fixture = open().await;
    let mut action = send(DIRECT, "yes");
    let Action::Send { reply_to, .. } = &mut action else { unreachable!() };
    *reply_to = Some("$question".into());
    fixture.outcome(action.clone()).await;
    let relation = said(&fixture).remove(0)["m.relates_to"].clone();
    assert_eq!(relation, json!({ "m.in_reply_to": { "event_id": "$question" } }));
    let Action::Send { metadata, .. } = &mut action else { unreachable!() };
    metadata.thread_id = Some("$root".into());
    fixture.outcome(action.clone()).await;
    let relation = said(&fixture).remove(1)["m.relates_to"].clone();
    assert_eq!((&relation["event_id"], &relation["is_falling_back"]), (&json!("$root"), &json!(false)));
    let Action::Send { reply_to, .. } = &mut action else { unreachable!() };
    *reply_to = None;
    fixture.outcome(action).await;
    let relation = said(&fixture).remove(2)["m.relates_to"].clone();
    assert_eq!((&relation["rel_type"], &relation["is_falling_back"]), (&json!("m.thread"), &json!(true)));
    let create = |message_id: Option<&str>| Action::ThreadCreate {
        chat_id: DIRECT.into(),
        thread_name: "Plans".to_owned(),
        message_id: message_id.map(Into::into),
        metadata: Metadata::default(),
    };
    assert_eq!(fixture.outcome(create(Some("$root"))).await.thread_id.unwrap().as_str(), "$root");
    assert!(fixture.outcome(create(None)).await.thread_id.is_some());
    assert_eq!(said(&fixture)[3]["body"], "Plans");
}

#[tokio::test]
async fn a_reaction_is_set_once_and_taken_back() {
    let fixture = open().await;
    let message = fixture.says(DIRECT, "hello");
    for _ in 0..2 {
        assert!(fixture.outcome(react(&message, "👍", false)).await.success);
    }
    assert_eq!(fixture.rows("reacted").len(), 1);
    assert!(fixture.outcome(react(&message, "🎈", true)).await.success, "there is none to take back");
    assert_eq!(fixture.rows("deleted").len(), 0);
    assert!(fixture.outcome(react(&message, "👍", true)).await.success);
    assert_eq!(fixture.rows("deleted").len(), 1);
    assert!(error(&fixture.outcome(react("nonsense", "👍", false)).await).contains("not found"));
}

#[tokio::test]
async fn typing_and_the_description_of_a_room() {
    let fixture = open().await;
    let typing = |content: Option<&str>| Action::Typing {
        chat_id: DIRECT.into(),
        content: content.map(str::to_owned),
        metadata: Metadata::default(),
    };
    assert!(fixture.outcome(typing(None)).await.success && fixture.outcome(typing(Some(""))).await.success);
    assert_eq!((fixture.rows("typing").len(), fixture.rows("typing_ended").len()), (1, 1));
    let info = |chat: &str| Action::GetChatInfo { chat_id: chat.into() };
    let found = fixture.outcome(info("!r1:hs.test")).await.chat_info.unwrap();
    assert_eq!((found.name.as_str(), found.kind.as_str()), ("Ops", "group"));
    for nowhere in ["#ops:hs.test", "@ana:hs.test", "x"] {
        assert!(error(&fixture.outcome(info(nowhere)).await).contains("chat not found"), "{nowhere}");
        assert!(error(&fixture.outcome(send(nowhere, "x")).await).contains("chat not found"), "{nowhere}");
    }
    assert!(error(&fixture.outcome(send("!foreign", "x")).await).contains("forbidden"));
    assert!(error(&fixture.outcome(send(DIRECT, "  ")).await).contains("empty"));
}

#[tokio::test]
async fn a_call_without_an_answer_is_repeated_and_shown_once() {
    let fixture = open().await;
    let fault = fixture.stand_in.fault(CallFault::new(CallFaultKind::DropAfterWrite).on("PUT send"));
    assert!(fixture.outcome(send(DIRECT, "once")).await.success);
    assert_eq!((fixture.stand_in.struck(fault), said(&fixture).len()), (1, 1));
    let fault = CallFault::new(CallFaultKind::ServerError { status: 502 }).on("PUT send");
    fixture.stand_in.fault(fault);
    assert!(fixture.outcome(send(DIRECT, "after a fault")).await.success);
    assert_eq!(said(&fixture).len(), 2);
}

#[tokio::test]
async fn a_short_limit_is_waited_for_and_a_long_one_is_told() {
    let fixture = open().await;
    let limited = |retry_after| CallFault::new(CallFaultKind::TooManyRequests { retry_after, global: false });
    fixture.stand_in.fault(limited(0.2).on("PUT send"));
    assert!(fixture.outcome(send(DIRECT, "patience")).await.success);
    fixture.stand_in.fault(limited(60.0).on("PUT send"));
    assert!(error(&fixture.outcome(send(DIRECT, "later")).await).contains("rate limit"));
}

#[tokio::test]
async fn the_limit_of_a_homeserver_is_absorbed() {
    let limits = MatrixLimits { messages_per_10_seconds: 1 };
    let fixture = open_with(Some(limits), true).await;
    fixture.inject(json!({"do": "room", "room": DIRECT, "members": [ANA, POSTY]}));
    assert!(fixture.outcome(send(DIRECT, "one")).await.success);
    // The homeserver asks for two seconds; its own clock has passed them by then.
    fixture.stand_in.advance(std::time::Duration::from_secs(9));
    assert!(fixture.outcome(send(DIRECT, "two")).await.success);
    assert_eq!(said(&fixture).len(), 2);
    assert_eq!(fixture.matrix.edit_limits(&DIRECT.into()).most, None);
}

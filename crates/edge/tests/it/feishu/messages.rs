//! Messages and card actions from Feishu, by webhook and over the long connection.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use edge::platform::Platform;
use ledger::PrincipalPolicy;
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::MessageType;
use serde_json::json;
use stand_ins::feishu::{FeishuSocketOrder, Settings};
use stand_ins::harness::{CallFault, CallFaultKind, RowFilter};

use super::actors::{APP, DIRECT, Feed, Fixture, GROUP, LONG, open, open_with};

async fn connected(fixture: &Fixture, connections: usize) {
    let met = fixture.stand_in.until(LONG, |_| fixture.rows("connected").len() == connections).await;
    assert!(met, "no connection");
}

#[tokio::test]
async fn a_message_comes_encrypted_and_with_the_names_of_person_and_group() {
    let fixture = open().await;
    fixture.says("hello");
    fixture.hears(&["hello"]).await;
    fixture.inject(
        json!({"do": "message", "text": "status", "chat": GROUP, "mention": true, "user_name": "Ana"}),
    );
    fixture.hears(&["hello", "status"]).await;
    let events = fixture.events().await;
    let source = &events[1].source;
    assert_eq!((source.chat_type.as_str(), source.chat_name.as_deref()), ("group", Some("Group oc_group")));
    assert_eq!(source.user_name.as_deref(), Some("Ana"));
    assert_eq!(
        events[0].source.chat_name.as_deref(),
        Some("Ana"),
        "a direct chat has the name of the person"
    );
    assert!(!serde_json::to_string(&events).unwrap().contains("canary"));
}

#[tokio::test]
async fn a_group_is_not_heard_without_a_mention_and_other_bots_never() {
    let fixture = open().await;
    fixture.inject(json!({"do": "message", "text": "idle talk", "chat": GROUP}));
    fixture.inject(json!({"do": "message", "text": "beep", "by_app": true}));
    fixture.stand_in.wait(&RowFilter::kind("acknowledged"), 2, LONG).await.unwrap();
    fixture.says("marker");
    fixture.hears(&["marker"]).await;
}

#[tokio::test]
async fn a_file_is_fetched_by_its_message_and_its_key() {
    let fixture = open().await;
    let file = json!({"kind": "file", "name": "a.txt", "mime": "text/plain", "base64": STANDARD.encode("some words")});
    fixture.inject(json!({"do": "message", "file": file}));
    fixture.hears(&[""]).await;
    assert_eq!(fixture.events().await[0].message_type, MessageType::Document);
    let unread =
        fixture.server.ledger.inbox().unread(&fixture.server.agent, ledger::Seq(0), 1).await.unwrap();
    let reference = unread[0].references[0].clone();
    let fetches = async |reference: &str| {
        let store = fixture.server.relay.media().clone();
        let mut into = store.begin(&"ten_1".into(), &fixture.server.agent, None).await.unwrap();
        let fetched = fixture.feishu.fetch_media(&fixture.bot, reference, &mut into).await;
        (fetched.ok().and_then(|fetched| fetched.mime), into.size())
    };
    assert_eq!(fetches(&reference).await, (Some("text/plain".to_owned()), 10));
    for wrong in ["feishu:resource:om_404/file_v3_1", "feishu:resource:../x", "slack:file:T1/F1", ""] {
        assert_eq!(fetches(wrong).await, (None, 0), "{wrong}");
    }
}

#[tokio::test]
async fn events_over_the_long_connection_are_answered_after_they_are_stored() {
    let fixture = open_with(Timepiece::wall(), Settings::default()).await;
    let feed = Feed::start(&fixture);
    connected(&fixture, 1).await;
    fixture.says("over the connection");
    fixture.stand_in.wait(&RowFilter::kind("acknowledged"), 1, LONG).await.unwrap();
    assert_eq!(fixture.server.texts().await, ["over the connection"]);
    // An event in several frames is one event.
    fixture.stand_in.order(APP, &FeishuSocketOrder::Split { parts: 3 }).unwrap();
    fixture.says("in parts");
    fixture.hears(&["over the connection", "in parts"]).await;
    assert!(fixture.rows("unreadable").is_empty(), "the stand-in understands every frame");
    feed.stop().await;
    assert!(fixture.stand_in.until(LONG, |stand_in| stand_in.sockets(APP) == 0).await);
}

#[tokio::test]
async fn a_cut_connection_is_opened_again_and_strange_frames_are_skipped() {
    let fixture = open_with(Timepiece::wall(), Settings::default()).await;
    let feed = Feed::start(&fixture);
    connected(&fixture, 1).await;
    for bytes in [&b"\xff\xff"[..], b"", b"\x08\x01\x10\x01\x18\x01\x20\x07"] {
        let order = FeishuSocketOrder::Send { base64: STANDARD.encode(bytes) };
        fixture.stand_in.order(APP, &order).unwrap();
    }
    fixture.says("before");
    fixture.hears(&["before"]).await;
    fixture.stand_in.order(APP, &FeishuSocketOrder::Cut).unwrap();
    connected(&fixture, 2).await;
    fixture.says("after");
    fixture.hears(&["before", "after"]).await;
    feed.stop().await;
}

#[tokio::test]
async fn a_stranger_reaches_nobody_and_gets_a_pairing_code() {
    let fixture = open().await;
    let (access, bot) = (fixture.server.access(), fixture.bot.bot_ref());
    access.set_policy(&bot, PrincipalPolicy::AllowList).await.unwrap();
    fixture.says("let me in");
    let sent = fixture.stand_in.wait(&RowFilter::sent(DIRECT), 1, LONG).await.expect("a pairing code");
    let pending = access.pairings(Some(&bot)).await.unwrap();
    assert!(sent[0].text.as_ref().unwrap().contains(&pending[0].code), "{sent:?}");
    access.set_policy(&bot, PrincipalPolicy::Any).await.unwrap();
    fixture.says("the door is open");
    fixture.hears(&["the door is open"]).await;
}

#[tokio::test]
async fn a_message_that_waits_for_a_name_holds_up_its_own_group_only() {
    // The clock stands still, so that the question never times out.
    let clock = Timepiece::wound(Moment::from_seconds(1_765_000_000));
    let fixture = open_with(clock, Settings::default()).await;
    let feed = Feed::start(&fixture);
    connected(&fixture, 1).await;
    fixture.says("before");
    fixture.hears(&["before"]).await;
    fixture.stand_in.fault(CallFault::new(CallFaultKind::Hang).on("GET /im/v1/chats/{id}"));
    let mentions = |text: &str| {
        fixture.inject(json!({"do": "message", "text": text, "chat": GROUP, "mention": true}));
    };
    mentions("first in the group");
    assert!(fixture.stand_in.until(LONG, |stand_in| stand_in.hanging() == 1).await);
    mentions("second in the group");
    fixture.says("directly");
    fixture.hears(&["before", "directly"]).await;
    fixture.stand_in.wait(&RowFilter::kind("acknowledged"), 2, LONG).await.unwrap();
    assert_eq!(fixture.rows("acknowledged").len(), 2, "what waits is not answered");
    fixture.stand_in.release();
    fixture.hears(&["before", "directly", "first in the group", "second in the group"]).await;
    fixture.stand_in.wait(&RowFilter::kind("acknowledged"), 4, LONG).await.unwrap();
    feed.stop().await;
}

#[tokio::test]
async fn a_person_sees_a_group_if_feishu_lists_them_as_a_member() {
    let fixture = open().await;
    for user in ["u77", "u78"] {
        fixture.inject(json!({"do": "message", "text": user, "chat": GROUP, "mention": true, "user": user}));
    }
    fixture.says("marker");
    let sees =
        async |user: &str, chat: &str| fixture.feishu.sees(&fixture.bot, &user.into(), &chat.into()).await;
    assert!(sees("u77", GROUP).await);
    assert!(sees("u78", GROUP).await, "on the second page");
    assert!(sees("ou_u77", GROUP).await, "by the id that the app sees");
    assert!(!sees("u79", GROUP).await && !sees("u77", "oc_404").await && !sees("u77", "../x").await);
    fixture.stand_in.fault(CallFault::new(CallFaultKind::DropAfterWrite).on("GET /im/v1/chats/{id}/members"));
    assert!(!sees("u77", GROUP).await, "no answer is no");
}

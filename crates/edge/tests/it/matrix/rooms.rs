//! Rooms of Matrix: direct and larger ones, invitations, encryption, repeats, and who is answered.

use edge::DeliveryResult;
use edge::platform::Platform;
use ledger::PrincipalPolicy;
use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, MessageType};
use serde_json::{Value, json};
use stand_ins::harness::RowFilter;

use super::actors::{ANA, DIRECT, LONG, POSTY, ROOM, error, open, open_with, send};

#[tokio::test]
async fn a_room_of_two_is_a_direct_conversation_and_a_larger_one_is_not() {
    let fixture = open().await;
    fixture.says(DIRECT, "hello");
    fixture.hears(&["hello"]).await;
    let source = fixture.events().await.remove(0).source;
    assert_eq!((&*source.chat_type, source.chat_name.as_deref()), ("dm", Some("ana")));
    assert_eq!(source.scope_id.unwrap().as_str(), "hs.test", "the room names no server");
    fixture.says(ROOM, "among people");
    fixture.inject(json!({"do": "message", "room": ROOM, "text": "Posty: status", "mentions": [POSTY]}));
    fixture.hears(&["hello", "status"]).await;
    let event = fixture.events().await.remove(1);
    assert_eq!((&*event.source.chat_type, event.source.chat_name.as_deref()), ("group", Some("Ops")));
    assert_eq!(event.source.user_name.as_deref(), Some("ana"));
    // A third person joins, so that it is no direct conversation anymore.
    let joined = json!({ "membership": "join" });
    fixture
        .inject(json!({"do": "event", "room": DIRECT, "kind": "m.room.member", "state_key": "@bo:hs.test",
        "from": "@bo:hs.test", "content": joined}));
    fixture.says(DIRECT, "not for the bot");
    fixture.inject(json!({"do": "message", "room": DIRECT, "text": "/help", "mentions": [POSTY]}));
    fixture.hears(&["hello", "status", "/help"]).await;
    let event = fixture.events().await.remove(2);
    assert_eq!((&*event.source.chat_type, event.message_type), ("group", MessageType::Command));
}

#[tokio::test]
async fn a_reply_to_the_bot_and_its_threads_are_for_the_bot() {
    let fixture = open().await;
    fixture.inject(json!({"do": "message", "room": ROOM, "text": "start", "mentions": [POSTY]}));
    fixture.hears(&["start"]).await;
    let root = fixture.events().await.remove(0).message_id.unwrap();
    let mut answer = send(ROOM, "in the thread");
    if let Action::Send { metadata, .. } = &mut answer {
        *metadata = Metadata { thread_id: Some(root.as_str().into()), ..Metadata::default() };
    }
    let sent = fixture.outcome(answer).await.message_id.unwrap();
    fixture.inject(json!({"do": "message", "room": ROOM, "text": "further", "thread": root}));
    // The stand-in keeps no order between transactions.
    fixture.hears(&["start", "further"]).await;
    fixture.inject(json!({"do": "message", "room": ROOM, "text": "elsewhere", "thread": "$other"}));
    fixture.inject(json!({"do": "message", "room": ROOM, "text": "quoting", "reply_to": sent}));
    fixture.hears(&["start", "further", "quoting"]).await;
    let events = fixture.events().await;
    let source = &events[1].source;
    assert_eq!(source.thread_id.as_ref().unwrap().as_str(), root.as_str());
    assert_eq!(source.parent_chat_id.as_ref().unwrap().as_str(), ROOM);
    assert_eq!(events[1].reply_to_message_id, None, "the reply is only for clients without threads");
    assert_eq!(events[2].reply_to.as_ref().unwrap().is_own, Some(true));
}

#[tokio::test]
async fn a_transaction_that_comes_again_and_an_event_in_another_one_change_nothing() {
    let fixture = open().await;
    let event = |id: &str, text: &str| {
        json!({ "type": "m.room.message", "event_id": id, "room_id": DIRECT, "sender": ANA,
            "content": { "msgtype": "m.text", "body": text } })
    };
    for (transaction, events) in [
        ("7", vec![event("$a", "one")]),
        ("7", vec![event("$a", "one")]),
        ("8", vec![event("$a", "one"), json!({ "type": 5 }), event("$b", "two")]),
    ] {
        let taken = fixture.receives(transaction, &events).await;
        let DeliveryResult::Taken { reply, .. } = taken else { panic!("refused") };
        assert_eq!((reply.status.as_u16(), &reply.body[..]), (200, &b"{}"[..]));
    }
    fixture.hears(&["one", "two"]).await;
}

#[tokio::test]
async fn bots_do_not_answer_each_other_or_themselves() {
    let fixture = open().await;
    assert!(fixture.outcome(send(DIRECT, "from the bot")).await.success);
    let of_bot = fixture.rows("sent").remove(0).raw;
    // Another bot of this kind writes the same, and a bridge writes a notice.
    let from_other = json!({"do": "event", "room": DIRECT, "kind": "m.room.message", "content": of_bot});
    fixture.inject(from_other);
    let notice = json!({ "msgtype": "m.notice", "body": "beep" });
    fixture.inject(json!({"do": "event", "room": DIRECT, "kind": "m.room.message", "content": notice}));
    fixture.says(DIRECT, "a person");
    fixture.hears(&["a person"]).await;
}

#[tokio::test]
async fn edits_reactions_and_redactions_of_people_are_no_turns() {
    let fixture = open().await;
    let first = fixture.says(DIRECT, "first");
    let edit = json!({ "msgtype": "m.text", "body": "* x", "m.new_content": { "msgtype": "m.text", "body": "x" },
        "m.relates_to": { "rel_type": "m.replace", "event_id": first } });
    let reaction = json!({ "m.relates_to": { "rel_type": "m.annotation", "event_id": first, "key": "👍" } });
    for (kind, content) in [
        ("m.room.message", edit),
        ("m.reaction", reaction),
        ("m.room.redaction", json!({ "redacts": first })),
    ] {
        fixture.inject(json!({"do": "event", "room": DIRECT, "kind": kind, "content": content}));
    }
    let place = json!({ "msgtype": "m.location", "body": "geo", "geo_uri": "geo:51.5,-0.12;u=35" });
    fixture.inject(json!({"do": "event", "room": DIRECT, "kind": "m.room.message", "content": place}));
    fixture.hears(&["first", "[location: geo 51.5,-0.12]"]).await;
}

#[tokio::test]
async fn an_invitation_is_followed_or_declined_as_the_operator_wants() {
    let fixture = open_with(None, true).await;
    fixture.deliver_transactions().await;
    fixture.inject(json!({"do": "room", "room": "!new", "members": [ANA]}));
    fixture.inject(json!({"do": "invite", "room": "!new", "user": POSTY}));
    assert_eq!(fixture.row("joined").await.chat.as_deref(), Some("!new"));
    fixture.says("!new", "welcome");
    fixture.hears(&["welcome"]).await;
    assert_eq!(fixture.events().await[0].source.chat_type, "dm");

    let stranger = "@eve:evil.test";
    fixture.inject(json!({"do": "room", "room": "!evil", "members": [stranger]}));
    fixture.inject(json!({"do": "invite", "room": "!evil", "user": POSTY, "from": stranger}));
    let left = fixture.row("left").await;
    assert_eq!(left.chat.as_deref(), Some("!evil"));
    assert!(left.text.unwrap().contains("whom its operator has allowed"));
    assert_eq!(fixture.rows("joined").len(), 1);
}

/// The texts that the bot has sent to a room.
fn sent(rows: Vec<stand_ins::harness::PlatformRow>) -> Vec<(String, Value)> {
    rows.into_iter().map(|row| (row.text.unwrap_or_default(), row.raw["msgtype"].clone())).collect()
}

#[tokio::test]
async fn an_encrypted_room_gets_one_notice_and_never_an_answer() {
    let fixture = open_with(None, true).await;
    fixture.deliver_transactions().await;
    let room = "!secret";
    fixture.inject(json!({"do": "room", "room": room, "members": [ANA], "encrypted": true}));
    fixture.inject(json!({"do": "invite", "room": room, "user": POSTY, "direct": true}));
    assert_eq!(fixture.row("left").await.chat.as_deref(), Some(room));
    let notices = sent(fixture.stand_in.transcript(&RowFilter::sent(room)));
    assert_eq!(notices.len(), 1);
    assert!(notices[0].0.contains("cannot read encrypted rooms") && notices[0].1 == "m.notice");
    assert!(error(&fixture.outcome(send(room, "in the clear")).await).contains("encrypted"));
    assert_eq!(sent(fixture.stand_in.transcript(&RowFilter::sent(room))).len(), 1);
}

#[tokio::test]
async fn a_room_that_becomes_encrypted_is_refused_from_then_on() {
    let fixture = open().await;
    fixture.says(DIRECT, "still in the clear");
    fixture.hears(&["still in the clear"]).await;
    assert!(fixture.outcome(send(DIRECT, "yes")).await.success);
    let state = json!({ "algorithm": "m.megolm.v1.aes-sha2" });
    fixture.inject(json!({"do": "event", "room": DIRECT, "kind": "m.room.encryption", "state_key": "", "content": state}));
    assert_eq!(fixture.row("left").await.chat.as_deref(), Some(DIRECT));
    assert!(error(&fixture.outcome(send(DIRECT, "no")).await).contains("encrypted"));
    let said = sent(fixture.stand_in.transcript(&RowFilter::sent(DIRECT)));
    assert_eq!((said.len(), said[0].0.as_str()), (2, "yes"));
    // A text in the clear in such a room reaches nobody, and another room goes on.
    let clear = json!({ "type": "m.room.message", "event_id": "$c", "room_id": DIRECT, "sender": ANA,
        "content": { "msgtype": "m.text", "body": "leaked" } });
    fixture.receives("99", &[clear]).await;
    fixture.inject(json!({"do": "message", "room": ROOM, "text": "posty: and here?", "mentions": [POSTY]}));
    fixture.hears(&["still in the clear", "and here?"]).await;
}

#[tokio::test]
async fn only_members_see_a_room() {
    let fixture = open().await;
    let sees =
        async |user: &str, room: &str| fixture.matrix.sees(&fixture.bot, &user.into(), &room.into()).await;
    assert!(sees(ANA, ROOM).await && sees(ANA, DIRECT).await);
    assert!(
        !sees("@eve:hs.test", ROOM).await && !sees(ANA, "!elsewhere").await && !sees(ANA, "#alias").await
    );
}

#[tokio::test]
async fn a_token_that_is_not_known_anymore_is_reported() {
    let fixture = open().await;
    fixture.stand_in.revoke(POSTY);
    let (doubted, outcome) =
        tokio::join!(tokio::time::timeout(LONG, fixture.matrix.credential_doubted(&fixture.bot)), async {
            tokio::task::yield_now().await;
            fixture.outcome(send(DIRECT, "hello?")).await
        });
    assert!(doubted.is_ok());
    assert!(error(&outcome).contains("unauthorized"));
}

#[tokio::test]
async fn a_stranger_reaches_nobody_and_gets_a_pairing_code() {
    let fixture = open().await;
    let (access, bot) = (fixture.server.access(), fixture.bot.bot_ref());
    access.set_policy(&bot, PrincipalPolicy::AllowList).await.unwrap();
    fixture.says(DIRECT, "let me in");
    let sent = fixture.stand_in.wait(&RowFilter::sent(DIRECT), 1, LONG).await.expect("a pairing code");
    let pending = access.pairings(Some(&bot)).await.unwrap();
    assert!(sent[0].text.as_ref().unwrap().contains(&pending[0].code), "{sent:?}");
    access.set_policy(&bot, PrincipalPolicy::Any).await.unwrap();
    fixture.says(DIRECT, "the door is open");
    fixture.hears(&["the door is open"]).await;
}

//! People who hide their number on WhatsApp and show it again: one conversation, and never somebody else's.

use std::sync::Arc;

use edge::platform::Platform;
use ledger::{Decision, Discriminator, KnownPerson, PersonIds, Subject};
use posthouse_time::Timepiece;

use super::actors::{ANA, Fixture, bot, open, send, text, whatsapp};
use crate::telegram::test_server::TestServer;

const ANAS_ID: &str = "US.13491208655302741918";
const BENS_ID: &str = "US.2";

/// The chats of all messages that the agent has.
async fn chats(fixture: &Fixture) -> Vec<String> {
    let heard = fixture.heard().await;
    for event in &heard {
        let source = &event.source;
        assert_eq!(source.chat_id.as_ref().unwrap().as_str(), source.user_id.as_ref().unwrap().as_str());
    }
    heard.into_iter().map(|event| event.source.chat_id.unwrap().to_string()).collect()
}

#[tokio::test]
async fn a_conversation_goes_on_in_the_same_chat_when_the_number_goes_and_comes() {
    let fixture = open().await;
    let both = |id| text(id, Some(ANA), Some(ANAS_ID), "x");
    let hidden = |id| text(id, None, Some(ANAS_ID), "x");
    let shown = |id| text(id, Some(ANA), None, "x");
    fixture.receives(&[both("w1"), hidden("w2"), shown("w3"), both("w4")]).await;
    assert_eq!(chats(&fixture).await, [ANA; 4]);

    let fixture = open().await;
    fixture.receives(&[hidden("w1"), both("w2"), shown("w3"), hidden("w4")]).await;
    assert_eq!(chats(&fixture).await, [ANAS_ID; 4], "the chat that was first stays");
}

#[tokio::test]
async fn the_chat_of_a_person_is_remembered_over_a_restart() {
    let fixture = open().await;
    fixture.receives(&[text("w1", Some(ANA), Some(ANAS_ID), "x")]).await;
    // Another edge over the same ledger knows nothing but what is stored.
    let on = fixture.bot.bot_ref();
    let person = PersonIds { lasting: Some(ANAS_ID.into()), shown: None };
    let known = fixture.server.ledger.person_chats().chat_of_person(&on, &person).await.unwrap();
    assert_eq!(known, KnownPerson::InChat(ANA.into()));
}

#[tokio::test]
async fn whoever_gets_a_number_next_does_not_get_the_chat_of_the_person_before() {
    let fixture = open().await;
    fixture.receives(&[text("w1", Some(ANA), Some(ANAS_ID), "mine")]).await;
    fixture.receives(&[text("w2", Some(ANA), Some(BENS_ID), "whose?")]).await;
    fixture.receives(&[text("w3", None, Some(BENS_ID), "mine too")]).await;
    assert_eq!(chats(&fixture).await, [ANA, BENS_ID, BENS_ID]);
}

#[tokio::test]
async fn a_stranger_leaves_no_record_and_an_admitted_person_keeps_their_place_without_a_number() {
    let (whatsapp, bot) = (whatsapp("http://127.0.0.1:9"), bot());
    let clock = Timepiece::wall();
    let server = TestServer::closed(&bot, Discriminator::Any, &clock).await;
    let platform: Arc<dyn Platform> = Arc::new(whatsapp.clone());
    let on = bot.bot_ref();
    let receives = async |message| {
        let body =
            super::actors::notification(super::actors::NUMBER, &serde_json::json!({ "messages": [message] }));
        let raw = super::actors::signed(&body);
        server.intake().receive(&platform, &Arc::new(bot.clone()), raw).await.unwrap();
    };
    receives(text("w1", Some(ANA), Some(ANAS_ID), "let me in")).await;
    let person = PersonIds { lasting: Some(ANAS_ID.into()), shown: Some(ANA.into()) };
    let known = async || server.ledger.person_chats().chat_of_person(&on, &person).await.unwrap();
    assert_eq!(known().await, KnownPerson::Unknown);
    let ana = Subject::User(ANA.into());
    assert!(server.access().decide(&on, &ana, Decision::Allowed).await.unwrap());
    receives(text("w2", Some(ANA), Some(ANAS_ID), "hello")).await;
    receives(text("w3", None, Some(ANAS_ID), "hidden now")).await;
    assert_eq!(server.texts().await, ["hello", "hidden now"]);
}

#[tokio::test]
async fn a_person_without_a_number_is_answered_by_their_id() {
    let fixture = open().await;
    fixture.says(serde_json::json!({ "do": "message", "text": "psst",
        "from": { "number": null, "user_id": ANAS_ID } }));
    let sent = fixture.outcome(send(ANAS_ID, "heard you")).await;
    assert!(sent.success, "{sent:?}");
    let sent = fixture.sent(ANAS_ID);
    assert_eq!((&sent[0]["recipient"], sent[0].get("to")), (&ANAS_ID.into(), None));
}

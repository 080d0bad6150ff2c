//! Actions on WhatsApp, carried out at the stand-in.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use edge::platform::{BotTrouble, Platform};
use posthouse_wire::action::{MediaKind, Metadata, PromptKind, PromptOption};
use posthouse_wire::{Action, Secret};
use serde_json::json;
use stand_ins::harness::{CallFault, CallFaultKind};
use stand_ins::whatsapp::WhatsAppLimits;

use super::actors::{ANA, Fixture, NUMBER, bot, error, open, open_with, send};
use crate::telegram::media::stores;

/// Ana has written, so that the number may answer her.
async fn open_window() -> (Fixture, String) {
    let fixture = open().await;
    let said = fixture.says(json!({ "do": "message", "text": "hi" }));
    let id = said["message_id"].as_str().unwrap().to_owned();
    (fixture, id)
}

#[tokio::test]
async fn a_text_is_sent_in_the_markup_of_whatsapp_as_a_reply() {
    let (fixture, message) = open_window().await;
    let answer = Action::Send {
        chat_id: ANA.into(),
        content: "**Done**, see [docs](https://x.example)".to_owned(),
        reply_to: Some(message.as_str().into()),
        metadata: Metadata::default(),
    };
    let sent = fixture.outcome(answer).await;
    assert!(sent.success && sent.message_id.unwrap().as_str().starts_with("wamid."));
    let body = &fixture.sent(ANA)[0];
    assert_eq!(body["text"], json!({ "body": "*Done*, see docs (https://x.example)", "preview_url": false }));
    assert_eq!((&body["to"], &body["context"]["message_id"]), (&json!(ANA), &json!(message)));
}

#[tokio::test]
async fn a_reply_to_a_message_that_whatsapp_does_not_know_is_sent_without_it() {
    let (fixture, _) = open_window().await;
    let answer = Action::Send {
        chat_id: ANA.into(),
        content: "late".to_owned(),
        reply_to: Some("wamid.unknown".into()),
        metadata: Metadata::default(),
    };
    assert!(fixture.outcome(answer).await.success);
    assert_eq!(fixture.sent(ANA)[0].get("context"), None);
}

#[tokio::test]
async fn a_long_text_becomes_several_messages_that_each_fit() {
    let (fixture, _) = open_window().await;
    let text = "words of an answer 🦉\n".repeat(500);
    let sent = fixture.outcome(send(ANA, &text)).await;
    assert!(sent.success, "{sent:?}");
    let bodies = fixture.sent(ANA);
    assert!(bodies.len() >= 3);
    let count = |body: &serde_json::Value| body["text"]["body"].as_str().unwrap().matches('🦉').count();
    assert_eq!(bodies.iter().map(count).sum::<usize>(), 500);
    assert!(error(&fixture.outcome(send(ANA, " ")).await).contains("empty"));
}

#[tokio::test]
async fn outside_the_window_the_agent_hears_that_only_templates_are_accepted() {
    let (fixture, _) = open_window().await;
    fixture.stand_in.advance(std::time::Duration::from_secs(24 * 3600));
    let refused = fixture.outcome(send(ANA, "too late")).await;
    assert!(error(&refused).contains("24-hour window is closed"));
    assert!(error(&fixture.outcome(send("../106/media", "x")).await).contains("chat not found"));
}

#[tokio::test]
async fn a_prompt_has_buttons_or_a_list_and_its_press_comes_back() {
    let (fixture, _) = open_window().await;
    let prompt = |labels: &[&str]| {
        let options = labels.iter().enumerate().map(|(at, label)| PromptOption {
            id: format!("o{at}").as_str().into(),
            label: (*label).to_owned(),
            style: None,
        });
        Action::Prompt {
            chat_id: ANA.into(),
            prompt_kind: PromptKind::Choice,
            prompt_id: "p1".into(),
            content: "long ".repeat(900),
            options: options.collect(),
            reply_to: None,
            metadata: Metadata::default(),
        }
    };
    let asked = fixture.outcome(prompt(&["Yes", "No"])).await;
    let message = asked.message_id.unwrap();
    let sent = fixture.sent(ANA);
    let (question, before) = sent.split_last().unwrap();
    assert_eq!((&question["interactive"]["type"], before.is_empty()), (&json!("button"), false));
    fixture.says(json!({ "do": "press", "message_id": message, "id": "hp1:p1:o1" }));
    assert!(fixture.outcome(prompt(&["1", "2", "3", "4"])).await.success);
    assert_eq!(fixture.sent(ANA).last().unwrap()["interactive"]["type"], "list");
    assert!(error(&fixture.outcome(prompt(&["x"; 11])).await).contains("at most 10"));
}

#[tokio::test]
async fn typing_reactions_and_names_have_their_calls() {
    let (fixture, message) = open_window().await;
    let typing = || Action::Typing { chat_id: ANA.into(), content: None, metadata: Metadata::default() };
    assert!(error(&fixture.outcome(typing()).await).contains("has not written lately"));
    let mut hello = super::actors::text(&message, Some(ANA), None, "hi");
    hello["type"] = json!("text");
    fixture.receives(&[hello]).await;
    assert!(fixture.outcome(typing()).await.success);
    let react = Action::React {
        chat_id: ANA.into(),
        message_id: message.as_str().into(),
        emoji: "✅".to_owned(),
        remove: false,
        metadata: Metadata::default(),
    };
    assert!(fixture.outcome(react).await.success);
    let rows = |kind: &str| {
        let filter = serde_json::from_value(json!({ "kind": kind })).unwrap();
        fixture.stand_in.transcript(&filter).len()
    };
    assert_eq!((rows("typing"), rows("reaction")), (1, 1));
    let info = fixture.outcome(Action::GetChatInfo { chat_id: ANA.into() }).await.chat_info.unwrap();
    assert_eq!((info.name.as_str(), info.kind.as_str()), (ANA, "dm"));
    let edit = Action::Edit {
        chat_id: ANA.into(),
        message_id: message.as_str().into(),
        content: "x".to_owned(),
        metadata: Metadata::default(),
    };
    assert!(error(&fixture.outcome(edit).await).contains("unsupported op"));
}

#[tokio::test]
async fn a_request_to_wait_is_honoured_within_the_deadline() {
    let limits = WhatsAppLimits { per_number_per_second: 1, per_person_per_6_seconds: 100 };
    let fixture = open_with(Some(limits)).await;
    fixture.says(json!({ "do": "message", "text": "hi" }));
    for number in 0..2 {
        let sent = fixture.outcome(send(ANA, &format!("message {number}"))).await;
        assert!(sent.success, "{sent:?}");
    }
    assert_eq!(fixture.sent(ANA).len(), 2);
}

#[tokio::test]
async fn a_message_whose_answer_is_lost_is_not_sent_again() {
    let (fixture, _) = open_window().await;
    fixture.stand_in.fault(CallFault::new(CallFaultKind::DropAfterWrite).on("POST messages"));
    let lost = fixture.outcome(send(ANA, "once")).await;
    assert!(error(&lost).contains("timed out"));
    assert_eq!(fixture.sent(ANA).len(), 1);
}

#[tokio::test]
async fn the_token_and_the_number_are_checked_and_a_dead_token_is_told() {
    let fixture = open().await;
    let met = fixture.whatsapp.check_credentials(&bot()).await.unwrap();
    assert_eq!((met.id.as_str(), &met.settings["display_phone_number"]), (NUMBER, &json!("+1555106")));
    let mut wrong = bot();
    wrong.credentials.insert("token", Secret::new("canary-wrong"));
    let refused = fixture.whatsapp.check_credentials(&wrong).await.unwrap_err();
    assert_eq!(refused, BotTrouble::CredentialRefused("WhatsApp does not accept this token".to_owned()));
    let refused = fixture.whatsapp.perform(&wrong, fixture.order(send(ANA, "x"))).await.outcome;
    assert!(error(&refused).starts_with("unauthorized"));
    for number in ["", "404404", "+1 555", "../me"] {
        let mut wrong = bot();
        wrong.settings.insert("phone_number_id".to_owned(), json!(number));
        let refused = fixture.whatsapp.check_credentials(&wrong).await.unwrap_err().to_string();
        assert!(refused.contains("phone number id") || refused.contains("phone_number_id"), "{refused}");
    }
}

#[tokio::test]
async fn a_file_of_a_person_is_fetched_with_the_token_and_one_of_another_number_is_not() {
    let fixture = open().await;
    fixture.says(json!({ "do": "media", "kind": "image", "mime_type": "image/png", "base64": "aGk=" }));
    let filter = serde_json::from_value(json!({ "kind": "received" })).unwrap();
    let id = fixture.stand_in.transcript(&filter)[0].raw["image"]["id"].as_str().unwrap().to_owned();
    let store = fixture.server.relay.media();
    let begin = async || store.begin(&"ten_1".into(), &fixture.server.agent, None).await.unwrap();
    let mut writer = begin().await;
    let reference = format!("whatsapp:media:{NUMBER}/{id}");
    let fetched = fixture.whatsapp.fetch_media(&fixture.bot, &reference, &mut writer).await.unwrap();
    assert_eq!(fetched.mime.as_deref(), Some("image/png"));
    let page = STANDARD.encode("<!doctype html><title>log in</title>");
    fixture.says(json!({ "do": "media", "kind": "image", "mime_type": "image/png", "base64": page }));
    let lie = fixture.stand_in.transcript(&filter)[1].raw["image"]["id"].as_str().unwrap().to_owned();
    let mut page = begin().await;
    let reference = format!("whatsapp:media:{NUMBER}/{lie}");
    let mime = fixture.whatsapp.fetch_media(&fixture.bot, &reference, &mut page).await.unwrap().mime;
    let (media, life) = (posthouse_wire::MediaId::mint(), Duration::from_secs(60));
    let kept = page
        .keep(relay::NewMedia { id: media, mime, filename: Some("cat.png".to_owned()), life })
        .await
        .unwrap();
    assert_eq!((&*kept.mime, &*kept.filename), ("text/html", "cat.html"), "a page is no picture");
    for foreign in [format!("whatsapp:media:107/{id}"), format!("whatsapp:media:{NUMBER}/../me"), id] {
        let mut writer = begin().await;
        assert!(
            fixture.whatsapp.fetch_media(&fixture.bot, &foreign, &mut writer).await.is_err(),
            "{foreign}"
        );
    }
}

#[tokio::test]
async fn a_file_is_uploaded_and_sent_with_its_caption() {
    let (fixture, _) = open_window().await;
    let media = stores(&fixture.server, "cat.png", "image/png", &b"picture"[..]).await;
    let action = |caption: &str| {
        fixture.order(Action::SendMedia {
            chat_id: ANA.into(),
            media_kind: MediaKind::Image,
            source_url: String::new(),
            content: Some(caption.to_owned()),
            filename: None,
            reply_to: None,
            metadata: Metadata::default(),
        })
    };
    let sent = fixture.whatsapp.send_media(&fixture.bot, action("**look**"), media.clone()).await.outcome;
    assert!(sent.success, "{sent:?}");
    assert_eq!(fixture.sent(ANA)[0]["image"]["caption"], "*look*");
    let long = "caption ".repeat(200);
    assert!(fixture.whatsapp.send_media(&fixture.bot, action(&long), media).await.outcome.success);
    let sent = fixture.sent(ANA);
    assert_eq!((sent.len(), sent[1]["image"].get("caption")), (3, None), "the caption follows");
}

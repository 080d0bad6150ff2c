//! Conversations by SMS and WhatsApp over Twilio: what is read, what is sent, and what is refused.

use edge::platform::{BotTrouble, Platform, VerifiedRequest};
use edge::twilio::TwilioChannel;
use futures_util::FutureExt;
use posthouse_wire::{Action, MessageType, Secret};
use serde_json::json;
use stand_ins::harness::{CallFault, CallFaultKind};

use super::actors::{ACCOUNT, ANA, OWN, bot, error, open, open_with, send, twilio};
use crate::vector_checks::now;

const SMS: TwilioChannel = TwilioChannel::Sms;
const WHATSAPP: TwilioChannel = TwilioChannel::WhatsApp;

/// What a form is read as: its text and type, or the reason why it is no turn.
fn read(channel: TwilioChannel, fields: &[(&str, &str)]) -> Result<(String, MessageType), String> {
    let own = if channel == SMS { OWN.to_owned() } else { format!("whatsapp:{OWN}") };
    let usual = [("MessageSid", "SM1"), ("AccountSid", ACCOUNT), ("To", own.as_str())];
    let usual = usual.into_iter().filter(|(name, _)| !fields.iter().any(|(given, _)| given == name));
    let mut form = reqwest::Url::parse("http://form/").unwrap();
    form.query_pairs_mut().extend_pairs(usual).extend_pairs(fields);
    let verified = VerifiedRequest::fetched(form.query().unwrap().to_owned(), now());
    let reading = twilio(channel, "http://127.0.0.1:9").normalize(&bot(channel, json!({})), verified);
    let reading = reading.map_err(|refusal| refusal.reason.to_owned())?;
    match reading.arrivals.first() {
        Some(arrival) => Ok((arrival.event.text.clone(), arrival.event.message_type)),
        None => Err(reading.ignored.join(",")),
    }
}

#[test]
fn what_is_no_turn_of_this_bot_is_ignored_for_a_reason() {
    for (channel, fields, reason) in [
        (SMS, &[("From", ANA), ("Body", "x"), ("AccountSid", "AC2")][..], "other_account"),
        (SMS, &[("From", ANA), ("Body", "x"), ("To", "+15550199")], "other_number"),
        (SMS, &[("From", "whatsapp:+15550177"), ("Body", "x")], "other_channel"),
        (WHATSAPP, &[("From", ANA), ("Body", "x")], "other_channel"),
        (SMS, &[("From", OWN), ("Body", "x")], "self"),
        (SMS, &[("From", ANA), ("Body", "STOP"), ("OptOutType", "STOP")], "opt_out"),
        (SMS, &[("From", ANA), ("Body", " "), ("NumMedia", "0")], "empty"),
        (SMS, &[("From", ANA), ("MessageStatus", "sent")], "status"),
        (SMS, &[("From", ANA), ("MessageStatus", "undelivered"), ("ErrorCode", "30003")], "status_failed"),
        (SMS, &[("From", ANA), ("Body", "a"), ("Body", "b")], "malformed_body"),
        (SMS, &[("From", ANA), ("From", "+1"), ("Body", "a")], "malformed_body"),
    ] {
        assert_eq!(read(channel, fields), Err(reason.to_owned()), "{fields:?}");
    }
}

#[test]
fn texts_buttons_places_and_files_are_read() {
    assert_eq!(read(SMS, &[("From", ANA), ("Body", " hi ")]), Ok(("hi".into(), MessageType::Text)));
    assert_eq!(read(SMS, &[("From", ANA), ("Body", "/new")]), Ok(("/new".into(), MessageType::Command)));
    let person = ("From", "whatsapp:+15550177");
    assert_eq!(
        read(WHATSAPP, &[person, ("Body", "Yes"), ("ButtonPayload", "go")]),
        Ok(("go".into(), MessageType::Text))
    );
    let place = [person, ("Body", ""), ("Latitude", "52.5"), ("Longitude", "13.25"), ("Label", "Café")];
    assert_eq!(read(WHATSAPP, &place), Ok(("[location: Café 52.5,13.25]".into(), MessageType::Location)));
    let files = [
        person,
        ("Body", ""),
        ("NumMedia", "999999999"),
        ("MediaUrl0", "https://x/Media/ME1"),
        ("MediaContentType0", "audio/ogg"),
    ];
    assert_eq!(read(WHATSAPP, &files), Ok((String::new(), MessageType::Audio)));
}

#[tokio::test]
async fn a_text_is_sent_plain_by_sms_and_with_marks_by_whatsapp() {
    let fixture = open(SMS).await;
    let sent = fixture.twilio.perform(&fixture.bot, fixture.order(send(ANA, "**Done**: `x`"))).await.outcome;
    assert!(sent.success && sent.message_id.unwrap().as_str().starts_with("SM"));
    assert_eq!(fixture.sent(ANA), ["Done: x"]);
    let fixture = open(WHATSAPP).await;
    for (chat, to) in [("15550177", "whatsapp:+15550177"), ("US.77", "whatsapp:US.77")] {
        let sent = fixture.twilio.perform(&fixture.bot, fixture.order(send(chat, "**Done**"))).await.outcome;
        assert!(sent.success, "{sent:?}");
        assert_eq!(fixture.sent(to), ["*Done*"]);
    }
}

#[tokio::test]
async fn a_long_text_becomes_several_messages_that_each_fit() {
    let fixture = open(SMS).await;
    let text = "a word 🦉\n".repeat(300);
    let sent = fixture.twilio.perform(&fixture.bot, fixture.order(send(ANA, &text))).await.outcome;
    assert!(sent.success, "{sent:?}");
    let texts = fixture.sent(ANA);
    assert!(texts.len() > 2);
    assert_eq!(texts.iter().map(|text| text.matches('🦉').count()).sum::<usize>(), 300);
}

#[tokio::test]
async fn refusals_are_told_in_words_and_a_request_to_wait_is_honoured() {
    let fixture = open_with(SMS, Some(1)).await;
    let outcome =
        async |action: Action| fixture.twilio.perform(&fixture.bot, fixture.order(action)).await.outcome;
    assert!(error(&outcome(send("+1555x", "x")).await).contains("chat not found"));
    assert!(error(&outcome(send(ANA, " ")).await).contains("empty"));
    let typing = Action::Typing { chat_id: ANA.into(), content: None, metadata: Default::default() };
    assert!(error(&outcome(typing).await).contains("unsupported op"));
    for number in 0..2 {
        assert!(outcome(send(ANA, &format!("message {number}"))).await.success);
    }
}

#[tokio::test]
async fn a_message_whose_answer_is_lost_is_not_sent_again() {
    let fixture = open(SMS).await;
    fixture.stand_in.fault(CallFault::new(CallFaultKind::DropAfterWrite).on("POST Messages"));
    let lost = fixture.twilio.perform(&fixture.bot, fixture.order(send(ANA, "once"))).await.outcome;
    assert!(error(&lost).contains("timed out"));
    assert_eq!(fixture.sent(ANA).iter().filter(|text| *text == "once").count(), 1);
}

#[tokio::test]
async fn the_account_is_checked_and_a_dead_token_is_told() {
    let fixture = open(SMS).await;
    let met = fixture.twilio.check_credentials(&fixture.bot).await.unwrap();
    assert_eq!(met.id, "15550100");
    let mut wrong = fixture.bot.clone();
    wrong.credentials.insert("auth_token", Secret::new("canary-wrong"));
    let refused = fixture.twilio.check_credentials(&wrong).await.unwrap_err();
    assert!(matches!(refused, BotTrouble::CredentialRefused(_)), "{refused}");
    let refused = fixture.twilio.perform(&wrong, fixture.order(send(ANA, "x"))).await.outcome;
    assert!(error(&refused).starts_with("unauthorized"));
    for (settings, part) in [
        (json!({ "account_sid": "../AC1" }), "account_sid"),
        (json!({ "number": "15550100" }), "such as +15550100"),
        (json!({ "api_key_sid": "SK1" }), "need each other"),
        (json!({ "shared_key_id": "k" }), "need each other"),
    ] {
        let refused = fixture.twilio.check_credentials(&bot(SMS, settings)).await.unwrap_err().to_string();
        assert!(refused.contains(part), "{refused}");
    }
}

#[tokio::test]
async fn a_file_is_fetched_behind_its_redirect_and_one_of_another_account_is_not() {
    let fixture = open(SMS).await;
    fixture.stand_in.set_webhook(Some("http://127.0.0.1:9/".to_owned()));
    let injected = json!({ "do": "message", "text": "look",
        "files": [{ "content_type": "image/png", "base64": "aGk=" }] });
    let made = fixture.stand_in.inject(serde_json::from_value(injected).unwrap()).unwrap();
    let (message, file) = (made["message_id"].as_str().unwrap(), made["media"][0].as_str().unwrap());
    let store = fixture.server.relay.media();
    let begin = async || store.begin(&"ten_1".into(), &fixture.server.agent, None).await.unwrap();
    let mut writer = begin().await;
    let reference = format!("twilio:media:{ACCOUNT}/{message}/{file}");
    fixture.twilio.fetch_media(&fixture.bot, &reference, &mut writer).await.unwrap();
    for foreign in [
        format!("twilio:media:AC2/{message}/{file}"),
        format!("twilio:media:{ACCOUNT}/{message}/.."),
        format!("twilio:media:{ACCOUNT}/SM999/{file}"),
    ] {
        let mut writer = begin().await;
        assert!(fixture.twilio.fetch_media(&fixture.bot, &foreign, &mut writer).await.is_err(), "{foreign}");
    }
    let doubted = || fixture.twilio.credential_doubted(&fixture.bot).now_or_never().is_some();
    assert!(!doubted(), "a file that is not there says nothing about the credential");
    let mut revoked = fixture.bot.clone();
    revoked.credentials.insert("auth_token", Secret::new("canary-revoked"));
    let mut writer = begin().await;
    assert!(fixture.twilio.fetch_media(&revoked, &reference, &mut writer).await.is_err());
    assert!(doubted(), "the refusal leads to a check of the credential");
}

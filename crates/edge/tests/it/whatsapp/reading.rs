//! Reading of WhatsApp's notifications that the vectors do not show: hostile, unusual and of other numbers.

use std::sync::Arc;

use edge::DeliveryResult;
use edge::platform::{Platform, Reading, VerifiedRequest};
use http::StatusCode;
use posthouse_wire::{MessageType, PromptToken};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::actors::{ANA, NUMBER, bot, notification, open, signed, text, whatsapp};
use crate::vector_checks::now;

fn read(body: &str) -> Result<Reading, StatusCode> {
    let verified = VerifiedRequest::fetched(body.to_owned(), now());
    whatsapp("http://127.0.0.1:9").normalize(&bot(), verified).map_err(|refusal| refusal.status)
}

fn of(message: Value) -> Reading {
    read(&notification(NUMBER, &json!({ "messages": [message] })).to_string()).unwrap()
}

fn said(message: Value) -> (String, MessageType) {
    let reading = of(message);
    assert_eq!(reading.ignored, Vec::<&str>::new());
    let event = &reading.arrivals[0].event;
    (event.text.clone(), event.message_type)
}

/// A message of Ana with this type and content.
fn message(kind: &str, content: Value) -> Value {
    let mut message = json!({ "id": "wamid.1", "from": ANA, "timestamp": "1", "type": kind });
    message[kind] = content;
    message
}

#[test]
fn every_kind_of_message_has_words() {
    let place = json!({ "latitude": 52.5, "longitude": 13.25, "name": "Café" });
    assert_eq!(
        said(message("location", place)),
        ("[location: Café 52.5,13.25]".into(), MessageType::Location)
    );
    let contacts = json!([{ "name": { "formatted_name": "Ben" }, "phones": [{ "phone": "+1 555" }] }]);
    assert_eq!(said(message("contacts", contacts)).0, "[contact: Ben, +1 555]");
    let list = json!({ "type": "list_reply", "list_reply": { "id": "two", "title": "Two" } });
    assert_eq!(said(message("interactive", list)).0, "two");
    assert_eq!(said(message("button", json!({ "payload": "go", "text": "Go" }))).0, "go");
    assert_eq!(said(text("w", Some(ANA), None, "/status")), ("/status".into(), MessageType::Command));
    let recording = json!({ "id": "9", "mime_type": "audio/ogg; codecs=opus", "voice": true });
    let reading = of(message("audio", recording));
    let event = &reading.arrivals[0].event;
    assert_eq!((event.message_type, event.media[0].mime.as_deref()), (MessageType::Voice, Some("audio/ogg")));
    assert_eq!(reading.arrivals[0].references, ["whatsapp:media:106/9"]);
}

#[test]
fn what_is_no_turn_is_ignored_for_a_reason() {
    let mut group = text("w", Some(ANA), None, "hi all");
    group["group_id"] = json!("g1");
    for (message, reason) in [
        (message("reaction", json!({ "message_id": "w", "emoji": "👍" })), "reaction"),
        (message("system", json!({ "type": "user_changed_user_id" })), "system"),
        (message("unsupported", json!({})), "unsupported"),
        (message("order", json!({ "catalog_id": "1" })), "unsupported"),
        (text("w", None, None, "who"), "no_sender"),
        (text("w", Some("1555106"), None, "an echo"), "self"),
        (group, "group"),
        (json!({ "type": "text" }), "unreadable"),
        (text("w", Some(ANA), None, "  "), "unsupported"),
    ] {
        let reading = of(message.clone());
        assert_eq!((reading.arrivals.len(), &reading.ignored[..]), (0, &[reason][..]), "{message}");
    }
}

#[test]
fn one_body_may_hold_several_messages_and_one_that_cannot_be_read_holds_back_none() {
    let messages =
        json!([text("w1", Some(ANA), None, "one"), { "id": 5 }, text("w2", Some(ANA), None, "two")]);
    let body = notification(
        NUMBER,
        &json!({ "messages": messages, "statuses": [
        { "id": "w0", "status": "delivered" },
        { "id": "w0", "status": "failed", "errors": [{ "code": 131_026, "title": "x" }] }] }),
    );
    let reading = read(&body.to_string()).unwrap();
    let texts: Vec<&str> = reading.arrivals.iter().map(|arrival| arrival.event.text.as_str()).collect();
    assert_eq!(texts, ["one", "two"]);
    assert_eq!(reading.ignored, ["status", "status_failed", "unreadable"]);
    assert_ne!(reading.arrivals[0].dedup, reading.arrivals[1].dedup);
}

#[test]
fn a_message_to_another_number_of_the_same_app_is_not_for_this_bot() {
    let body = notification("107", &json!({ "messages": [text("w", Some(ANA), None, "psst")] }));
    let reading = read(&body.to_string()).unwrap();
    assert_eq!((reading.arrivals.len(), &reading.ignored[..]), (0, &["other_number"][..]));
}

#[test]
fn bodies_that_are_no_notification_are_refused() {
    let doubled = r#"{"object":"x","entry":[],"entry":[{"changes":[]}]}"#;
    for body in ["", "[]", "5", "{", "\"text\"", doubled, r#"{"entry":5}"#] {
        assert_eq!(read(body).err(), Some(StatusCode::BAD_REQUEST), "{body}");
    }
    let message = r#"{"id":"w","from":"15550177","from":"15550178","type":"text","text":{"body":"x"}}"#;
    let body = notification(NUMBER, &json!({ "messages": ["HERE"] })).to_string();
    let reading = read(&body.replace("\"HERE\"", message)).unwrap();
    assert_eq!(reading.ignored, ["unreadable"], "a message with two senders has none");
}

#[test]
fn a_press_is_that_of_a_prompt_only_with_the_payload_of_one() {
    let pressed = |id: &str| {
        let mut press = message(
            "interactive",
            json!({ "type": "button_reply", "button_reply": { "id": id, "title": "x" } }),
        );
        press["context"] = json!({ "from": "1555106", "id": "wamid.OUT" });
        of(press).arrivals.remove(0)
    };
    let press = pressed("hp1:p1:yes");
    assert_eq!(press.press, Some(PromptToken { prompt: "p1".into(), option: "yes".into() }));
    assert_eq!(press.event.reply_to_message_id.unwrap().as_str(), "wamid.OUT");
    assert_eq!(press.event.reply_to.unwrap().is_own, Some(true));
    assert_eq!(pressed("yes").press, None);
}

#[tokio::test]
async fn a_repeated_notification_adds_nothing_and_a_changed_one_is_refused() {
    let fixture = open().await;
    for _ in 0..2 {
        let taken = fixture.receives(&[text("wamid.1", Some(ANA), None, "once")]).await;
        assert!(matches!(taken, DeliveryResult::Taken { .. }));
    }
    let mut raw =
        signed(&notification(NUMBER, &json!({ "messages": [text("wamid.2", Some(ANA), None, "x")] })));
    raw.body = String::from_utf8(raw.body.to_vec()).unwrap().replace("wamid.2", "wamid.3").into();
    let platform: Arc<dyn Platform> = Arc::new(fixture.whatsapp.clone());
    let refused = fixture.server.intake().receive(&platform, &Arc::new(fixture.bot.clone()), raw).await;
    assert!(
        matches!(refused.unwrap(), DeliveryResult::Refused(refusal) if refusal.reason == "bad_signature")
    );
    assert_eq!(fixture.server.texts().await, ["once"]);
}

#[tokio::test]
async fn a_batch_of_three_megabytes_is_taken_and_one_of_more_than_four_is_not_read() {
    let fixture = open().await;
    let deliver = async |id: &str, megabytes: usize| {
        let padding = "x".repeat(megabytes << 20);
        let value = json!({ "messages": [text(id, Some(ANA), None, id)], "padding": padding });
        let raw = signed(&notification(NUMBER, &value));
        let mut request = http::Request::post(format!("/door/whatsapp_cloud/{NUMBER}"));
        *request.headers_mut().unwrap() = raw.headers;
        let request = request.body(axum::body::Body::from(raw.body)).unwrap();
        edge::routes(fixture.server.edge()).oneshot(request).await.unwrap().status()
    };
    assert_eq!(deliver("wamid.batch", 3).await, StatusCode::OK);
    assert_eq!(deliver("wamid.huge", 4).await, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(fixture.server.texts().await, ["wamid.batch"]);
}

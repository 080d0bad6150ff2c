//! Kinds of updates that the vectors do not cover.

use super::*;
use axum::body::Bytes;
use posthouse_time::Moment;
use serde_json::{Value, json};

fn bot(settings: Value) -> OpenedBot {
    let Value::Object(settings) = settings else { panic!("settings are an object") };
    OpenedBot {
        platform: PLATFORM.into(),
        id: "666".into(),
        shared: false,
        settings,
        credentials: vault::Credentials::default(),
    }
}

fn read(body: &str) -> Result<Reading, WebhookRefusal> {
    read_by(&bot(json!({"username": "posty_bot"})), body)
}

fn read_by(bot: &OpenedBot, body: &str) -> Result<Reading, WebhookRefusal> {
    let body = Bytes::copy_from_slice(body.as_bytes());
    normalize(bot, &VerifiedRequest::fetched(body, Moment::from_seconds(1)))
}

/// A message of Ana in a private chat, with these additional fields.
fn message(fields: Value) -> Value {
    let mut message = json!({"message_id": 7, "date": 1, "chat": {"id": 5, "type": "private", "first_name": "Ana"},
        "from": {"id": 5, "is_bot": false, "first_name": "Ana"}});
    for (name, value) in fields.as_object().unwrap() {
        message[name] = value.clone();
    }
    message
}

fn reading_of(fields: Value) -> Reading {
    read(&json!({"update_id": 1, "message": message(fields)}).to_string()).unwrap()
}

fn arrival(fields: Value) -> Arrival {
    reading_of(fields).arrivals.pop().expect("it is a turn")
}

fn reason(update: Value) -> &'static str {
    let reading = read(&update.to_string()).unwrap();
    assert!(reading.arrivals.is_empty());
    reading.ignored[0]
}

#[test]
fn attachments_are_described_and_their_names_at_telegram_stay_inside() {
    for (fields, message_type, kind, mime) in [
        (json!({"voice": {"file_id": "F1"}}), MessageType::Voice, "voice", Some("audio/ogg")),
        (
            json!({"audio": {"file_id": "F1", "mime_type": "audio/flac"}}),
            MessageType::Audio,
            "audio",
            Some("audio/flac"),
        ),
        (json!({"video": {"file_id": "F1"}}), MessageType::Video, "video", Some("video/mp4")),
        (json!({"video_note": {"file_id": "F1"}}), MessageType::Video, "video", Some("video/mp4")),
        (
            json!({"animation": {"file_id": "F1"}, "document": {"file_id": "F2"}}),
            MessageType::Video,
            "video",
            Some("video/mp4"),
        ),
        (
            json!({"sticker": {"file_id": "F1", "emoji": "👋"}}),
            MessageType::Sticker,
            "sticker",
            Some("image/webp"),
        ),
        (
            json!({"sticker": {"file_id": "F1", "is_video": true}}),
            MessageType::Sticker,
            "sticker",
            Some("video/webm"),
        ),
        (json!({"document": {"file_id": "F1"}}), MessageType::Document, "document", None),
    ] {
        let Arrival { event, references, .. } = arrival(fields);
        assert_eq!((event.message_type, event.text.as_str()), (message_type, ""));
        assert_eq!((event.media[0].kind.as_str(), event.media[0].mime.as_deref()), (kind, mime));
        assert_eq!(references, ["telegram:file:F1"]);
        assert!(!serde_json::to_string(&event).unwrap().contains("F1"));
    }
}

#[test]
fn what_is_neither_text_nor_file_becomes_a_short_line() {
    let place = json!({"latitude": 52.5, "longitude": 13.25});
    for (fields, text, message_type) in [
        (json!({"location": place}), "[location: 52.5,13.25]", MessageType::Location),
        (
            json!({"location": place, "venue": {"location": place, "title": "Inn", "address": "Road 1"}}),
            "[location: Inn, Road 1 52.5,13.25]",
            MessageType::Location,
        ),
        (
            json!({"contact": {"phone_number": "+1", "first_name": "Bo", "last_name": "Li"}}),
            "[contact: Bo Li, +1]",
            MessageType::Text,
        ),
        (json!({"poll": {"question": "Tea?"}}), "[poll: Tea?]", MessageType::Text),
        (json!({"dice": {"emoji": "🎲", "value": 4}}), "[dice 🎲: 4]", MessageType::Text),
    ] {
        let event = arrival(fields).event;
        assert_eq!((event.text.as_str(), event.message_type), (text, message_type));
    }
}

#[test]
fn what_is_no_turn_is_ignored_with_a_reason() {
    for (update, expected) in [
        (json!({"update_id": 1, "my_chat_member": {}}), "membership"),
        (json!({"update_id": 1, "message_reaction": {}}), "reaction"),
        (json!({"update_id": 1, "business_connection": {}}), "business_connection"),
        (json!({"update_id": 1, "edited_channel_post": {}}), "edit"),
        (json!({"update_id": 1, "poll_answer": {}}), "unknown"),
        (json!({"update_id": 1}), "unknown"),
        (json!({"update_id": 1, "message": message(json!({"new_chat_title": "x"}))}), "service"),
        (json!({"update_id": 1, "message": message(json!({"migrate_to_chat_id": -1009}))}), "migration"),
        (json!({"update_id": 1, "message": message(json!({"migrate_from_chat_id": -7}))}), "migration"),
        (json!({"update_id": 1, "message": message(json!({"web_app_data": {"data": "x"}}))}), "private_data"),
        (
            json!({"update_id": 1, "message": message(json!({"text": "x", "from": {"id": 666, "is_bot": true}}))}),
            "self",
        ),
        (
            json!({"update_id": 1, "message": message(json!({"text": "x", "chat": {"id": 1, "type": "cave"}}))}),
            "unknown_chat",
        ),
        (json!({"update_id": 1, "message": message(json!({"text": 5}))}), "unreadable"),
        (json!({"update_id": 1, "message": []}), "unreadable"),
    ] {
        assert_eq!(reason(update.clone()), expected, "{update}");
    }
}

#[test]
fn what_is_no_update_at_all_is_refused() {
    for body in ["", "{}", "[]", "[1]", "null", "\"x\"", r#"{"update_id":"x"}"#, "{\"update_id\":1", "\u{0}"]
    {
        assert_eq!(read(body).err(), Some(WebhookRefusal::malformed("malformed_body")), "{body}");
    }
    let bomb = format!(r#"{{"update_id":1,"message":{}}}"#, "[".repeat(100_000));
    assert!(read(&bomb).is_err());
}

#[test]
fn a_business_connection_is_captured_and_never_told() {
    let update = json!({"update_id": 1, "business_message":
        message(json!({"text": "hi", "business_connection_id": "canary-biz"}))});
    let arrival =
        read_by(&bot(json!({"business": "on"})), &update.to_string()).unwrap().arrivals.pop().unwrap();
    let captured = &arrival.capabilities[0];
    assert_eq!((captured.kind.as_str(), captured.value.expose()), (BUSINESS_CONNECTION, "canary-biz"));
    assert_eq!(captured.uses, Uses::Many);
    assert!(!serde_json::to_string(&arrival.event).unwrap().contains("canary"));
}

#[test]
fn what_concerns_a_business_is_ignored_unless_the_operator_wants_it_and_a_customer_did_it() {
    let owner = json!({"id": 8, "is_bot": false, "first_name": "Olga"});
    let written = |fields: Value| {
        let mut fields = fields;
        fields["text"] = json!("hi");
        fields["business_connection_id"] = json!("canary-biz");
        message(fields)
    };
    let pressed = |by: i64| {
        json!({"update_id": 1, "callback_query": {"id": "q", "from": {"id": by, "first_name": "x"}, "data": "x",
            "message": written(json!({"from": {"id": 8, "first_name": "Olga"}}))}})
    };
    let by_customer = [json!({"update_id": 1, "business_message": written(json!({}))}), pressed(5)];
    let by_owner = [json!({"update_id": 1, "business_message": written(json!({"from": owner}))}), pressed(8)];
    let unnamed = json!({"update_id": 1, "business_message": message(json!({"text": "hi"}))});
    for off in [json!({}), json!({"business": "off"}), json!({"business": ""})] {
        for update in by_customer.iter().chain(&by_owner).chain([&unnamed]) {
            let reading = read_by(&bot(off.clone()), &update.to_string()).unwrap();
            assert!(reading.arrivals.is_empty() && reading.from_bots.is_empty(), "{update}");
            assert_eq!(reading.ignored, ["business_off"], "{update}");
        }
    }
    let on = bot(json!({"business": "on"}));
    for update in &by_owner {
        let reading = read_by(&on, &update.to_string()).unwrap();
        assert!(reading.arrivals.is_empty() && reading.from_bots.is_empty(), "{update}");
        assert_eq!(reading.ignored, ["business_owner"], "{update}");
    }
    for update in &by_customer {
        assert_eq!(read_by(&on, &update.to_string()).unwrap().arrivals.len(), 1, "{update}");
    }
}

#[test]
fn a_press_without_a_message_or_data_is_answered_and_is_no_turn() {
    for (press, expected) in [
        (json!({"id": "q", "from": {"id": 5}, "data": "x", "inline_message_id": "i"}), "inline"),
        (json!({"id": "q", "from": {"id": 5}, "game_short_name": "g"}), "no_data"),
    ] {
        let reading = read(&json!({"update_id": 1, "callback_query": press}).to_string()).unwrap();
        assert_eq!((reading.ignored.as_slice(), reading.interaction_acks.len()), ([expected].as_slice(), 1));
    }
}

#[test]
fn the_message_that_opened_a_topic_is_answered_by_nobody() {
    let forum = json!({"id": -1002, "type": "supergroup", "title": "Forum", "is_forum": true});
    let root =
        json!({"message_id": 77, "from": {"id": 666, "is_bot": true}, "forum_topic_created": {"name": "t"}});
    let arrived =
        arrival(json!({"text": "x", "chat": forum, "message_thread_id": 77, "is_topic_message": true,
        "reply_to_message": root}));
    assert_eq!((arrived.event.reply_to_message_id, arrived.addressed), (None, false));
}

#[test]
fn an_anonymous_admin_is_a_person_and_a_forum_may_be_called_one() {
    let chat = json!({"id": -1002, "type": "supergroup", "title": "Forum", "is_forum": true});
    let update = json!({"update_id": 1, "message": message(json!({"text": "x", "chat": chat,
        "from": {"id": 1_087_968_824, "is_bot": true, "first_name": "Group"}, "sender_chat": chat}))});
    let body = Bytes::from(update.to_string());
    let verified = VerifiedRequest::fetched(body, Moment::from_seconds(1));
    let reading = normalize(&bot(json!({"forum_chat_type": "forum"})), &verified).unwrap();
    let source = &reading.arrivals[0].event.source;
    assert_eq!(source.user_id.as_ref().unwrap(), "1087968824");
    assert_eq!(source.chat_type, "forum");
}

//! Comparison with the vectors.

use std::path::PathBuf;

use axum::body::Bytes;
use base64::Engine;
use edge::OpenedBot;
use edge::platform::{Platform, Raw, Reading, VerifiedBody, WebhookRefusal};
use edge::telegram::Telegram;
use http::{HeaderMap, HeaderName, HeaderValue};
use ledger::Uses;
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::session_key::{self, Options};
use posthouse_wire::{DedupKey, Secret};
use serde_json::{Value, json};

use super::actors::bot;

fn vectors(file: &str) -> Value {
    let folder = std::env::var_os("POSTHOUSE_VECTORS")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors"), PathBuf::from);
    let path = folder.join("platforms").join(file);
    serde_json::from_slice(&std::fs::read(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"))).unwrap()
}

fn telegram() -> Telegram {
    Telegram::new(Telegram::API_BASE, Timepiece::wall())
}

#[test]
fn payloads_are_read_as_the_vectors_say() {
    let (file, telegram) = (vectors("payloads_telegram.json"), telegram());
    for case in file["cases"].as_array().unwrap() {
        let context = &case["context"];
        let mut bot = bot(json!({
            "username": context["bot_username"],
            "bot_user_id": context["bot_id"],
        }));
        bot.id = context["bot_id"].as_str().unwrap().into();
        let body = Bytes::from(case["raw"].to_string());
        let verified = VerifiedBody { body, received: Moment::from_seconds(1_765_000_000) };
        let reading =
            telegram.normalize(&bot, verified).unwrap_or_else(|refusal| panic!("{case}: {refusal:?}"));
        check_payload(case, &reading);
    }
}

fn check_payload(case: &Value, reading: &Reading) {
    let (name, expect) = (&case["name"], &case["expect"]);
    check_capabilities(case, reading);
    if expect["disposition"] == "ignore" {
        assert!(reading.arrivals.is_empty(), "{name}");
        assert_eq!(json!(reading.ignored), json!([expect["edge"]["reason"]]), "{name}");
        return;
    }
    assert_eq!((reading.arrivals.len(), reading.ignored.len()), (1, 0), "{name}");
    let arrival = &reading.arrivals[0];
    let event = serde_json::to_value(&arrival.event).unwrap();
    for (key, wanted) in expect["event"].as_object().unwrap().iter().filter(|(key, _)| *key != "media") {
        match wanted {
            Value::Object(fields) => {
                for (field, wanted) in fields {
                    assert_eq!(&event[key][field], wanted, "{name}: {key}.{field}");
                }
            }
            wanted => assert_eq!(&event[key], wanted, "{name}: {key}"),
        }
    }
    let wanted_media = expect["event"]["media"].as_array().cloned().unwrap_or_default();
    assert_eq!(
        (arrival.event.media.len(), arrival.references.len()),
        (wanted_media.len(), wanted_media.len()),
        "{name}"
    );
    for (at, wanted) in wanted_media.iter().enumerate() {
        for field in ["kind", "mime", "filename", "size"] {
            assert_eq!(event["media"][at][field], wanted[field], "{name}: {field}");
        }
        assert_eq!(json!(arrival.references[at]), wanted["ref"], "{name}");
    }
    if expect["event"].get("reply_to_message_id").is_none() {
        assert_eq!(event["reply_to_message_id"], Value::Null, "{name}");
    }
    let key = session_key::stock(&arrival.event.source, &Options::default()).unwrap();
    assert_eq!(json!(key), expect["session_key"], "{name}");

    let edge = &expect["edge"];
    if let Some(addressed) = edge["addressed"].as_bool() {
        assert_eq!(arrival.addressed, addressed, "{name}");
    }
    if let Some(text) = edge["reply_to_text"].as_str() {
        assert_eq!(arrival.event.reply_to.as_ref().unwrap().text.as_deref(), Some(text), "{name}");
    }
    if let Some(own) = edge["reply_to_is_own_message"].as_bool() {
        assert_eq!(arrival.event.reply_to.as_ref().unwrap().is_own, Some(own), "{name}");
    }
    for forbidden in case["expect"]["forbidden_substrings"].as_array().into_iter().flatten() {
        assert!(!event.to_string().contains(forbidden.as_str().unwrap()), "{name}");
    }
}

/// The capabilities of the event together with those that the edge uses itself.
fn check_capabilities(case: &Value, reading: &Reading) {
    let (name, expect) = (&case["name"], &case["expect"]);
    let bound = reading.arrivals.iter().flat_map(|arrival| &arrival.capabilities);
    let captured = bound.chain(reading.interaction_acks.iter().map(|ack| &ack.0));
    let captured: Vec<Value> = captured
        .map(|captured| {
            let uses = match captured.uses {
                Uses::Left(uses) => json!(uses),
                Uses::Many => Value::Null,
            };
            json!({
                "kind": captured.kind,
                "value": captured.value.expose(),
                "ttl_s": captured.lifetime.map(|lifetime| lifetime.as_secs()),
                "max_uses": uses,
            })
        })
        .collect();
    assert_eq!(json!(captured), expect["capabilities"], "{name}");
    let owed = expect["edge"]["must_answer"] == "answerCallbackQuery";
    assert_eq!(reading.interaction_acks.len(), usize::from(owed), "{name}");
}

#[test]
fn requests_are_proven_as_the_vectors_say() {
    let (file, telegram) = (vectors("verify_telegram.json"), telegram());
    let cases = file["cases"].as_array().unwrap();
    for case in cases {
        let (name, expect) = (&case["name"], &case["expect"]);
        // The route accepts only POST, so no other method reaches the platform's code.
        if case["request"]["method"] != "POST" {
            assert_eq!(expect["http_status"], 405, "{name}");
            continue;
        }
        let mut config = file["config"].clone();
        for (key, value) in case["config_override"].as_object().into_iter().flatten() {
            config[key] = value.clone();
        }
        let mut bot = bot(json!({}));
        bot.credentials.insert("webhook_secret", Secret::new(config["secret_token"].as_str().unwrap()));
        let judged = judge(&telegram, &bot, &case["request"]);
        let refused = expect["disposition"] == "reject";
        match judged {
            Ok(reading) => {
                assert!(!refused, "{name}");
                assert_eq!(json!(reading.reply.status.as_u16()), expect["http_status"], "{name}");
                // The inbox detects a repeat by this key.
                for prior in case["prior"].as_array().into_iter().flatten() {
                    let prior = cases.iter().find(|other| other["name"] == *prior).unwrap();
                    let before = judge(&telegram, &bot, &prior["request"]).unwrap();
                    let again = key(&before) == key(&reading);
                    assert_eq!(again, expect["disposition"] == "duplicate", "{name}");
                }
            }
            Err(refusal) => {
                assert!(refused, "{name}: {refusal:?}");
                assert_eq!(json!(refusal.status.as_u16()), expect["http_status"], "{name}");
                assert_eq!(json!(refusal.reason), expect["reason"], "{name}");
            }
        }
    }
}

fn key(reading: &Reading) -> Option<&DedupKey> {
    reading.arrivals.first().map(|arrival| &arrival.dedup)
}

fn judge(telegram: &Telegram, bot: &OpenedBot, request: &Value) -> Result<Reading, WebhookRefusal> {
    let mut headers = HeaderMap::new();
    for pair in request["headers"].as_array().unwrap() {
        let (name, value) = (pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
        headers.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    let body =
        base64::engine::general_purpose::STANDARD.decode(request["body_b64"].as_str().unwrap()).unwrap();
    let query = request["url"].as_str().unwrap().split_once('?').map_or("", |(_, query)| query);
    let raw = Raw {
        method: request["method"].as_str().unwrap().parse().unwrap(),
        query: query.to_owned(),
        headers,
        body: body.into(),
        received: Moment::from_seconds(1_765_000_000),
    };
    telegram.verify(bot, raw).and_then(|verified| telegram.normalize(bot, verified))
}

#[test]
fn a_bot_without_a_secret_opens_to_nobody() {
    let telegram = telegram();
    for secret in [None, Some("")] {
        let mut bot = bot(json!({}));
        bot.credentials = Default::default();
        if let Some(secret) = secret {
            bot.credentials.insert("webhook_secret", Secret::new(secret));
        }
        let request = json!({"method": "POST", "url": "/", "body_b64": "",
            "headers": [["X-Telegram-Bot-Api-Secret-Token", ""]]});
        assert_eq!(judge(&telegram, &bot, &request).err(), Some(WebhookRefusal::unproven("no_secret")));
    }
}

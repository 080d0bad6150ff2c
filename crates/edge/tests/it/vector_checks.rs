//! Checks of platform vectors that all platforms share.

use std::path::PathBuf;

use axum::body::Bytes;
use base64::Engine;
use edge::OpenedBot;
use edge::platform::{Arrival, Platform, Reading, UnverifiedRequest, WebhookRefusal, verify_request};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue};
use posthouse_time::Moment;
use posthouse_wire::session_key::{self, Options};
use serde_json::{Value, json};

/// A file of `vectors/platforms`.
pub fn vectors(file: &str) -> Value {
    let folder = std::env::var_os("POSTHOUSE_VECTORS")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors"), PathBuf::from);
    let path = folder.join("platforms").join(file);
    serde_json::from_slice(&std::fs::read(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"))).unwrap()
}

/// The payloads of a platform: those of the vectors, and those that this project recorded from its own stand-in.
pub fn payload_cases(platform: &str) -> Vec<Value> {
    let mut file = vectors(&format!("payloads_{platform}.json"));
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/platforms");
    let mut cases = file["cases"].as_array_mut().unwrap().split_off(0);
    if let Ok(recorded) = std::fs::read(own.join(format!("payloads_{platform}_stand_in.json"))) {
        let mut recorded: Value = serde_json::from_slice(&recorded).unwrap();
        cases.append(recorded["cases"].as_array_mut().unwrap());
    }
    cases
}

/// The time of the vectors.
pub fn now() -> Moment {
    Moment::from_seconds(1_765_000_000)
}

/// The settings of a case.
pub fn config(file: &Value, case: &Value) -> Value {
    let mut config = file["config"].clone();
    for (key, value) in case["config_override"].as_object().into_iter().flatten() {
        config[key] = value.clone();
    }
    config
}

/// Verifies the request of a case at this door, and reads it. Nothing is waited for.
pub fn judge(
    platform: &dyn Platform,
    bot: &OpenedBot,
    door: &str,
    request: &Value,
) -> Result<Reading, WebhookRefusal> {
    let mut headers = HeaderMap::new();
    for pair in request["headers"].as_array().unwrap() {
        let (name, value) = (pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
        headers.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    let body =
        base64::engine::general_purpose::STANDARD.decode(request["body_b64"].as_str().unwrap()).unwrap();
    let query = request["url"].as_str().unwrap().split_once('?').map_or("", |(_, query)| query);
    let raw = UnverifiedRequest {
        method: request["method"].as_str().unwrap().parse().unwrap(),
        door: door.to_owned(),
        query: query.to_owned(),
        headers,
        body: Bytes::from(body),
        received: now(),
        server_url: "https://edge.example.test".into(),
    };
    let verified = verify_request(platform, bot, raw).now_or_never().expect("nothing is waited for");
    verified.and_then(|verified| platform.normalize(bot, verified))
}

/// Compares a refusal, or the reading of a case. `before` reads an earlier case.
pub fn check_proof(
    case: &Value,
    judged: &Result<Reading, WebhookRefusal>,
    cases: &[Value],
    before: impl Fn(&Value) -> Reading,
) {
    let (name, expect) = (&case["name"], &case["expect"]);
    match judged {
        Ok(reading) => {
            assert!(expect["disposition"] != "reject", "{name}");
            assert_eq!(json!(reading.reply.status.as_u16()), expect["http_status"], "{name}");
            if let Some(body) = expect["reply_body"].as_str() {
                assert_eq!(reading.reply.body, body.as_bytes(), "{name}");
            }
            if let Some(kind) = expect["reply_content_type"].as_str() {
                assert_eq!(reading.reply.content_type, Some(kind), "{name}");
            }
            // The inbox detects a repeat by this key.
            let key = |reading: &Reading| reading.arrivals.first().map(|arrival| arrival.dedup.clone());
            for prior in case["prior"].as_array().into_iter().flatten() {
                let prior = cases.iter().find(|other| other["name"] == *prior).unwrap();
                let again = key(&before(&prior["request"])) == key(reading);
                assert_eq!(again, expect["disposition"] == "duplicate", "{name}");
            }
        }
        Err(refusal) => {
            assert_eq!(expect["disposition"], "reject", "{name}: {refusal:?}");
            assert_eq!(json!(refusal.status.as_u16()), expect["http_status"], "{name}");
            assert_eq!(json!(refusal.reason), expect["reason"], "{name}");
        }
    }
}

/// The arrival of a payload. If the payload must be ignored, compares the reason and returns `None`.
pub fn delivered<'r>(case: &Value, reading: &'r Reading) -> Option<&'r Arrival> {
    let (name, expect) = (&case["name"], &case["expect"]);
    if expect["disposition"] == "ignore" {
        assert!(reading.arrivals.is_empty(), "{name}");
        assert_eq!(json!(reading.ignored), json!([expect["edge"]["reason"]]), "{name}");
        return None;
    }
    assert_eq!((reading.arrivals.len(), reading.ignored.len()), (1, 0), "{name}");
    reading.arrivals.first()
}

/// Compares an arrival with the event of its case. `reference` is the reference that the platform makes of that of the
/// vector.
pub fn check_arrival(case: &Value, arrival: &Arrival, reference: impl Fn(&str) -> String) {
    let (name, expect) = (&case["name"], &case["expect"]);
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
    let attached = (arrival.event.media.len(), arrival.references.len());
    assert_eq!(attached, (wanted_media.len(), wanted_media.len()), "{name}");
    for (at, wanted) in wanted_media.iter().enumerate() {
        for field in ["kind", "mime", "filename", "size"] {
            assert_eq!(event["media"][at][field], wanted[field], "{name}: {field}");
        }
        assert_eq!(arrival.references[at], reference(wanted["ref"].as_str().unwrap()), "{name}");
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
    let forward = arrival.forward.as_ref().map_or_else(String::new, |forward| {
        let body = String::from_utf8(forward.body()).unwrap();
        format!("{} {body}", serde_json::to_string(forward).unwrap())
    });
    let kept = [event.to_string(), forward, arrival.references.concat(), arrival.dedup.to_string()];
    for forbidden in expect["forbidden_substrings"].as_array().into_iter().flatten() {
        assert!(!kept.iter().any(|text| text.contains(forbidden.as_str().unwrap())), "{name}");
    }
}

//! Fuzzing of Telegram: the secret of its webhook, and updates.

use edge::platform::{Platform, UnverifiedRequest, VerifiedRequest, verify_request};
use edge::telegram::Telegram;
use edge::{Credentials, OpenedBot};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Method};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::Secret;
use serde_json::{Value, json};

use super::Target;

const VECTORS: &[&str] = &["platforms/payloads_telegram.json", "platforms/verify_telegram.json"];
const SECRET: &str = "PH-edge_4188e7d569a7afdd467c6401";
/// The value of every secret field of an input.
const CANARY: &str = "canary-2e6b";
/// Fields that act for a person's account or hold what a person gave to one app only.
const SECRET_FIELDS: [&str; 3] = ["business_connection_id", "web_app_data", "passport_data"];

fn telegram() -> Telegram {
    Telegram::new("http://127.0.0.1:9", Timepiece::wall())
}

fn bot() -> OpenedBot {
    let settings = json!({ "username": "posty_bot", "bot_user_id": "666", "business": "on" });
    let mut credentials = Credentials::default();
    credentials.insert("webhook_secret", Secret::new(SECRET));
    OpenedBot {
        platform: "telegram".into(),
        id: "666".into(),
        shared: false,
        settings: settings.as_object().unwrap().clone(),
        credentials,
    }
}

/// Only the secret itself is accepted, whatever the body is.
pub fn secrets() -> Target {
    let (telegram, bot) = (telegram(), bot());
    let read = move |input: &[u8]| {
        let accepts = |secrets: &[&[u8]], body: &[u8]| {
            let mut headers = HeaderMap::new();
            for secret in secrets {
                let Ok(secret) = HeaderValue::from_bytes(secret) else { return false };
                headers.append("x-telegram-bot-api-secret-token", secret);
            }
            let raw = UnverifiedRequest {
                method: Method::POST,
                door: String::new(),
                query: String::new(),
                headers,
                body: body.to_vec().into(),
                received: Moment::from_seconds(1_765_000_000),
                server_url: "http://127.0.0.1:9".into(),
            };
            verify_request(&telegram, &bot, raw).now_or_never().expect("nothing is waited for").is_ok()
        };
        assert!(accepts(&[SECRET.as_bytes()], input), "the proof is in the head alone");
        assert!(!accepts(&[], input), "no secret");
        assert!(!accepts(&[SECRET.as_bytes(), input], b"{}"), "two secrets");
        let same = String::from_utf8_lossy(input).trim_matches([' ', '\t']) == SECRET;
        assert!(same || !accepts(&[input], b"{}"), "another secret");
        format!("{same} {}", input.len().min(256) / 16)
    };
    Target { corpus: "telegram", vectors: VECTORS, read: Box::new(read) }
}

/// Everything that is read as an event holds no business connection and no data of a person for one app.
pub fn updates() -> Target {
    let (telegram, bot) = (telegram(), bot());
    let read = move |input: &[u8]| {
        let parsed: Option<Value> = serde_json::from_slice(input).ok();
        // A case of the vectors holds the payload; anything else is tried as it is.
        let payload = parsed.as_ref().and_then(|case| case.get("raw")).cloned().or(parsed);
        let body = match payload {
            Some(mut payload) => {
                hide(&mut payload);
                payload.to_string().into_bytes()
            }
            None => input.to_vec(),
        };
        let verified = VerifiedRequest::fetched(body, Moment::from_seconds(1));
        let reading = match telegram.normalize(&bot, verified) {
            Ok(reading) => reading,
            Err(refusal) => return refusal.reason.to_owned(),
        };
        let mut results: Vec<String> = reading.ignored.iter().map(|reason| (*reason).to_owned()).collect();
        for arrival in reading.arrivals.iter().chain(&reading.from_bots) {
            let written = serde_json::to_string(&arrival.event).unwrap();
            let kept = [written, arrival.references.concat(), arrival.dedup.to_string()];
            assert!(!kept.iter().any(|text| text.contains(CANARY)), "{kept:?}");
            results.push(format!(
                "{:?} {} {}",
                arrival.event.message_type,
                arrival.event.source.chat_type,
                arrival.capabilities.len()
            ));
        }
        results.join(", ")
    };
    Target { corpus: "telegram", vectors: VECTORS, read: Box::new(read) }
}

/// Replaces the values of all fields that are secrets, at any depth, and adds a business connection to messages.
fn hide(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                match SECRET_FIELDS.contains(&name.as_str()) {
                    true => *value = json!(CANARY),
                    false => hide(value),
                }
            }
            if fields.contains_key("message_id") && fields.contains_key("chat") {
                fields.entry("business_connection_id").or_insert_with(|| json!(CANARY));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        _ => {}
    }
}

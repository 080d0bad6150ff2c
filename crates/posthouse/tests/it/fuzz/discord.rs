//! Fuzzing of Discord: requests at its door, and frames of its gateway.

use edge::discord::Discord;
use edge::platform::{Platform, UnverifiedRequest, VerifiedRequest, verify_request};
use edge::{Credentials, OpenedBot};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Method};
use posthouse_time::{Moment, Timepiece};
use serde_json::{Value, json};

use super::{Target, root};

const VECTORS: &[&str] = &["platforms/payloads_discord.json", "platforms/verify_discord.json"];
/// The value of every secret field of an input.
const CANARY: &str = "canary-7f3a";

fn vector(file: &str) -> Value {
    serde_json::from_slice(&std::fs::read(root().join("vectors/platforms").join(file)).unwrap()).unwrap()
}

fn bot(public_key: &Value) -> OpenedBot {
    let settings = json!({ "public_key": public_key, "bot_user_id": "1100000000000000001" });
    OpenedBot {
        platform: "discord".into(),
        id: "1100000000000000001".into(),
        shared: false,
        settings: settings.as_object().unwrap().clone(),
        credentials: Credentials::default(),
    }
}

/// Only the recorded bodies with their recorded signatures are accepted.
pub fn signatures() -> Target {
    let recorded = vector("verify_discord.json");
    let (discord, bot) =
        (Discord::new("http://127.0.0.1:9", Timepiece::wall()), bot(&recorded["config"]["public_key_hex"]));
    let case =
        recorded["cases"].as_array().unwrap().iter().find(|case| case["expect"]["accept"] == true).unwrap();
    let request = case["request"].clone();
    let body = request["body_text"].as_str().unwrap().to_owned();
    let header = move |name: &str| {
        let headers = request["headers"].as_array().unwrap();
        let found = headers.iter().find(|pair| pair[0] == name).unwrap();
        found[1].as_str().unwrap().to_owned()
    };
    let (signature, timestamp) = (header("X-Signature-Ed25519"), header("X-Signature-Timestamp"));
    let read = move |input: &[u8]| {
        let accepts = |signature: &[u8], timestamp: &[u8], body: &[u8]| {
            let mut headers = HeaderMap::new();
            let (Ok(signature), Ok(timestamp)) =
                (HeaderValue::from_bytes(signature), HeaderValue::from_bytes(timestamp))
            else {
                return false;
            };
            headers.insert("x-signature-ed25519", signature);
            headers.insert("x-signature-timestamp", timestamp);
            let raw = UnverifiedRequest {
                method: Method::POST,
                door: "/interactions".to_owned(),
                query: String::new(),
                headers,
                body: body.to_vec().into(),
                received: Moment::from_seconds(1_765_000_000),
                server_url: "http://127.0.0.1:9".into(),
            };
            verify_request(&discord, &bot, raw).now_or_never().expect("nothing is waited for").is_ok()
        };
        let (own_signature, own_time) = (signature.as_bytes(), timestamp.as_bytes());
        assert!(accepts(own_signature, own_time, body.as_bytes()));
        let same = input == body.as_bytes();
        assert_eq!(accepts(own_signature, own_time, input), same, "another body with the same signature");
        let lower = String::from_utf8_lossy(input).trim_matches([' ', '\t']).to_lowercase();
        assert_eq!(accepts(input, own_time, body.as_bytes()), lower == signature, "another signature");
        // The signature does not cover the border between time and body, so the time window must refuse a moved border.
        let at = input.len() % (body.len() + 1);
        if body.is_char_boundary(at) && at > 0 {
            let longer = format!("{timestamp}{}", &body[..at]);
            assert!(!accepts(own_signature, longer.as_bytes(), &body.as_bytes()[at..]), "a moved border");
        }
        format!("{same} {}", input.len().min(256) / 16)
    };
    Target { corpus: "discord", vectors: VECTORS, read: Box::new(read) }
}

/// Everything that is read as an event can be delivered, and holds no token.
pub fn payloads() -> Target {
    let discord = Discord::new("http://127.0.0.1:9", Timepiece::wall());
    let bot = bot(&json!(""));
    let read = move |input: &[u8]| {
        let mut results = Vec::new();
        // A case of the vectors holds the payload; anything else is tried as it is.
        let parsed: Option<Value> = serde_json::from_slice(input).ok();
        let raw = parsed.as_ref().and_then(|case| case.get("raw")).cloned().or(parsed);
        let bytes = match raw {
            Some(mut payload) => {
                hide(&mut payload);
                payload.to_string().into_bytes()
            }
            None => input.to_vec(),
        };
        for door in ["", "/interactions"] {
            let mut verified = VerifiedRequest::fetched(bytes.clone(), Moment::from_seconds(1));
            verified.door = door.to_owned();
            let reading = match discord.normalize(&bot, verified) {
                Ok(reading) => reading,
                Err(refusal) => {
                    results.push(refusal.reason.to_owned());
                    continue;
                }
            };
            for arrival in reading.arrivals.iter().chain(&reading.from_bots) {
                let written = serde_json::to_string(&arrival.event).unwrap();
                assert!(!written.contains(CANARY), "{written}");
                let forward = arrival.forward.as_ref().map(|forward| forward.body()).unwrap_or_default();
                assert!(!String::from_utf8_lossy(&forward).contains(CANARY));
                results.push(format!("{:?} {}", arrival.event.message_type, arrival.event.source.chat_type));
            }
            results.extend(reading.ignored.iter().map(|reason| (*reason).to_owned()));
        }
        results.join(", ")
    };
    Target { corpus: "discord", vectors: VECTORS, read: Box::new(read) }
}

/// Replaces the values of all fields that are secrets, at any depth.
fn hide(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                match name.as_str() {
                    "token" | "url" | "proxy_url" | "app_permissions" | "permissions" => {
                        *value = json!(CANARY)
                    }
                    _ => hide(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        _ => {}
    }
}

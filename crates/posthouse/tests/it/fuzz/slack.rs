//! Fuzzing of Slack: requests at its doors, and payloads of events, commands and interactions.

use edge::platform::{Platform, UnverifiedRequest, VerifiedRequest, verify_request};
use edge::slack::Slack;
use edge::{Credentials, OpenedBot};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Method};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::Secret;
use serde_json::{Value, json};

use super::{Target, root};

const VECTORS: &[&str] = &["platforms/payloads_slack.json", "platforms/verify_slack.json"];
/// The value of every secret field of an input.
const CANARY: &str = "canary-7f3a";
/// The fields of Slack's payloads whose values must not leave them.
const SECRET_FIELDS: [&str; 10] = [
    "token",
    "response_url",
    "response_urls",
    "trigger_id",
    "bot_access_token",
    "url_private",
    "url_private_download",
    "permalink",
    "permalink_public",
    "event_context",
];

fn bot(signing_secret: &str) -> OpenedBot {
    let settings = json!({ "bot_user_id": "UBOT", "bot_id": "BBOT" });
    let mut credentials = Credentials::default();
    credentials.insert("signing_secret", Secret::new(signing_secret));
    OpenedBot {
        platform: "slack".into(),
        id: "UBOT".into(),
        shared: false,
        settings: settings.as_object().unwrap().clone(),
        credentials,
    }
}

fn slack() -> Slack {
    Slack::new("http://127.0.0.1:9/api", Timepiece::wall())
}

/// Only the recorded body with its recorded signature and time is accepted.
pub fn signatures() -> Target {
    let file = std::fs::read(root().join("vectors/platforms/verify_slack.json")).unwrap();
    let recorded: Value = serde_json::from_slice(&file).unwrap();
    let (slack, bot) = (slack(), bot(recorded["config"]["signing_secret"].as_str().unwrap()));
    let mut cases = recorded["cases"].as_array().unwrap().iter();
    let case = cases.find(|case| case["name"] == "event callback").unwrap();
    let request = case["request"].clone();
    let body = request["body_text"].as_str().unwrap().to_owned();
    let header = move |name: &str| {
        let headers = request["headers"].as_array().unwrap();
        let found = headers.iter().find(|pair| pair[0] == name).unwrap();
        found[1].as_str().unwrap().to_owned()
    };
    let (signature, timestamp) = (header("X-Slack-Signature"), header("X-Slack-Request-Timestamp"));
    let read = move |input: &[u8]| {
        let accepts = |signature: &[u8], timestamp: &[u8], body: &[u8]| {
            let (Ok(signature), Ok(timestamp)) =
                (HeaderValue::from_bytes(signature), HeaderValue::from_bytes(timestamp))
            else {
                return false;
            };
            let mut headers = HeaderMap::new();
            headers.insert("x-slack-signature", signature);
            headers.insert("x-slack-request-timestamp", timestamp);
            let raw = UnverifiedRequest {
                method: Method::POST,
                door: "/events".to_owned(),
                query: String::new(),
                headers,
                body: body.to_vec().into(),
                received: Moment::from_seconds(1_765_000_000),
                server_url: "http://127.0.0.1:9".into(),
            };
            verify_request(&slack, &bot, raw).now_or_never().expect("nothing is waited for").is_ok()
        };
        let (own_signature, own_time) = (signature.as_bytes(), timestamp.as_bytes());
        assert!(accepts(own_signature, own_time, body.as_bytes()));
        let same = input == body.as_bytes();
        assert_eq!(accepts(own_signature, own_time, input), same, "another body with the same signature");
        let trimmed = String::from_utf8_lossy(input).trim_matches([' ', '\t']).to_owned();
        let is_signature = trimmed.starts_with("v0=") && trimmed.to_lowercase() == signature;
        assert_eq!(accepts(input, own_time, body.as_bytes()), is_signature, "another signature");
        let is_time = trimmed == timestamp;
        assert_eq!(accepts(own_signature, input, body.as_bytes()), is_time, "another time");
        format!("{same} {}", input.len().min(256) / 16)
    };
    Target { corpus: "slack", vectors: VECTORS, read: Box::new(read) }
}

/// Everything that is read as an event holds no credential.
pub fn payloads() -> Target {
    let (slack, bot) = (slack(), bot(""));
    let read = move |input: &[u8]| {
        let mut results = Vec::new();
        // A case of the vectors holds the payload; anything else is tried as it is.
        let parsed: Option<Value> = serde_json::from_slice(input).ok();
        let raw = parsed.as_ref().and_then(|case| case.get("raw")).cloned().or(parsed);
        let mut bodies = vec![input.to_vec()];
        if let Some(mut payload) = raw {
            hide(&mut payload);
            bodies =
                vec![payload.to_string().into_bytes(), format!("payload={}", encoded(&payload)).into_bytes()];
        }
        for (body, door) in
            bodies.iter().flat_map(|body| ["/events", "/interactions", "/commands"].map(|door| (body, door)))
        {
            let mut verified = VerifiedRequest::fetched(body.clone(), Moment::from_seconds(1));
            verified.door = door.to_owned();
            let reading = match slack.normalize(&bot, verified) {
                Ok(reading) => reading,
                Err(refusal) => {
                    results.push(refusal.reason.to_owned());
                    continue;
                }
            };
            for arrival in reading.arrivals.iter().chain(&reading.from_bots) {
                let written = serde_json::to_string(&arrival.event).unwrap();
                let kept = [written, arrival.references.concat(), arrival.dedup.to_string()];
                assert!(!kept.iter().any(|text| text.contains(CANARY)), "{kept:?}");
                results.push(format!("{:?} {}", arrival.event.message_type, arrival.event.source.chat_type));
            }
            results.extend(reading.ignored.iter().map(|reason| (*reason).to_owned()));
        }
        results.join(", ")
    };
    Target { corpus: "slack", vectors: VECTORS, read: Box::new(read) }
}

fn encoded(payload: &Value) -> String {
    payload.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Replaces the values of all fields that are secrets, at any depth.
fn hide(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                match SECRET_FIELDS.contains(&name.as_str()) {
                    true => *value = json!(CANARY),
                    false => hide(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        _ => {}
    }
}

//! Fuzzing of WhatsApp: signed notifications, the handshake of a webhook, and payloads.

use edge::platform::{Platform, UnverifiedRequest, VerifiedRequest, verify_request};
use edge::whatsapp::WhatsApp;
use edge::{Credentials, OpenedBot};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Method};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::Secret;
use serde_json::{Value, json};

use super::{Target, root};

const VECTORS: &[&str] = &[
    "platforms/payloads_whatsapp_cloud.json",
    "platforms/payloads_whatsapp_cloud_stand_in.json",
    "platforms/verify_whatsapp.json",
];
/// The value of every secret field of an input.
const CANARY: &str = "canary-5d1e";

fn whatsapp() -> WhatsApp {
    WhatsApp::new("http://127.0.0.1:9", WhatsApp::GRAPH_VERSION, Timepiece::wall())
}

fn bot(config: &Value) -> OpenedBot {
    let mut credentials = Credentials::default();
    for name in ["app_secret", "verify_token"] {
        credentials.insert(name, Secret::new(config[name].as_str().unwrap()));
    }
    OpenedBot {
        platform: "whatsapp_cloud".into(),
        id: "P1".into(),
        shared: false,
        settings: Default::default(),
        credentials,
    }
}

fn recorded() -> Value {
    let file = root().join("vectors/platforms/verify_whatsapp.json");
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

fn raw(method: Method, query: &str, headers: HeaderMap, body: &[u8]) -> UnverifiedRequest {
    UnverifiedRequest {
        method,
        door: String::new(),
        query: query.to_owned(),
        headers,
        body: body.to_vec().into(),
        received: Moment::from_seconds(1_765_000_000),
        server_url: "http://127.0.0.1:9".into(),
    }
}

/// Only the recorded body with its recorded signature is accepted, and only the handshake with the right token.
pub fn signatures() -> Target {
    let (recorded, whatsapp) = (recorded(), whatsapp());
    let bot = bot(&recorded["config"]);
    let cases = recorded["cases"].as_array().unwrap();
    let case = cases.iter().find(|case| case["name"] == "text message").unwrap();
    let body = case["request"]["body_text"].as_str().unwrap().to_owned();
    let signature = case["request"]["headers"][1][1].as_str().unwrap().to_owned();
    let token = recorded["config"]["verify_token"].as_str().unwrap().to_owned();
    let read = move |input: &[u8]| {
        let accepts =
            |raw: UnverifiedRequest| verify_request(&whatsapp, &bot, raw).now_or_never().unwrap().is_ok();
        let accepts_signed = |signature: &[u8], body: &[u8]| {
            let Ok(signature) = HeaderValue::from_bytes(signature) else { return false };
            let headers = HeaderMap::from_iter([("x-hub-signature-256".parse().unwrap(), signature)]);
            accepts(raw(Method::POST, "", headers, body))
        };
        assert!(accepts_signed(signature.as_bytes(), body.as_bytes()));
        let same = input == body.as_bytes();
        assert_eq!(accepts_signed(signature.as_bytes(), input), same, "another body");
        let text = String::from_utf8_lossy(input);
        let is_signature = text.trim_matches([' ', '\t']).strip_prefix("sha256=").map(str::to_lowercase)
            == signature.strip_prefix("sha256=").map(str::to_owned);
        assert_eq!(accepts_signed(input, body.as_bytes()), is_signature, "another signature");
        let named = |name: &str| {
            let fields = input.split(|byte| *byte == b'&');
            fields.filter(|field| field.starts_with(format!("{name}=").as_bytes())).count()
        };
        let accepted = accepts(raw(Method::GET, &text, HeaderMap::new(), b""));
        if accepted {
            assert!(text.contains(&token) || text.contains('%'), "a handshake without the token: {text}");
            assert!(named("hub.verify_token") <= 1, "a handshake with two tokens: {text}");
        }
        format!("{same} {is_signature} {accepted} {}", input.len().min(256) / 16)
    };
    Target { corpus: "whatsapp", vectors: VECTORS, read: Box::new(read) }
}

/// Everything that is read as an event can be delivered, and holds no download URL.
pub fn payloads() -> Target {
    let (recorded, whatsapp) = (recorded(), whatsapp());
    let bot = bot(&recorded["config"]);
    let read = move |input: &[u8]| {
        let parsed: Option<Value> = serde_json::from_slice(input).ok();
        // A case of the vectors holds the payload; anything else is tried as it is.
        let payload = parsed.as_ref().and_then(|case| case.get("raw")).cloned().or(parsed);
        let bytes = match payload {
            Some(mut payload) => {
                hide(&mut payload);
                payload.to_string().into_bytes()
            }
            None => input.to_vec(),
        };
        let verified = VerifiedRequest::fetched(bytes, Moment::from_seconds(1));
        let reading = match whatsapp.normalize(&bot, verified) {
            Ok(reading) => reading,
            Err(refusal) => return refusal.reason.to_owned(),
        };
        let mut results: Vec<String> = reading.ignored.iter().map(|reason| (*reason).to_owned()).collect();
        for arrival in &reading.arrivals {
            let written = serde_json::to_string(&arrival.event).unwrap();
            assert!(!written.contains(CANARY) && !arrival.references.concat().contains(CANARY), "{written}");
            assert_eq!(arrival.event.source.chat_id.is_some(), arrival.event.source.user_id.is_some());
            assert!(arrival.addressed && arrival.capabilities.is_empty());
            results.push(format!("{:?} {}", arrival.event.message_type, arrival.references.len()));
        }
        results.truncate(6);
        results.join(", ")
    };
    Target { corpus: "whatsapp", vectors: VECTORS, read: Box::new(read) }
}

/// Replaces the values of all fields that are secrets, at any depth.
fn hide(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                match name.as_str() {
                    "url" | "sha256" | "referral" => *value = json!(CANARY),
                    _ => hide(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        _ => {}
    }
}

//! Fuzzing of WeCom: sealed callbacks, their XML and JSON, and the decrypted payloads of both products.

use edge::platform::{Platform, UnverifiedRequest, VerifiedRequest, verify_request};
use edge::wecom::{WeCom, WeComProduct};
use edge::{Credentials, OpenedBot};
use futures_util::FutureExt;
use http::{HeaderMap, Method};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::Secret;
use serde_json::{Value, json};

use super::{Target, root};

const VECTORS: &[&str] = &[
    "platforms/payloads_wecom.json",
    "platforms/payloads_wecom_callback.json",
    "platforms/verify_wecom.json",
];
/// The value of every secret field of an input.
const CANARY: &str = "canary-5d1e";

fn wecom(product: WeComProduct) -> WeCom {
    WeCom::new(product, "http://127.0.0.1:9", "ws://127.0.0.1:9", Timepiece::wall())
}

fn recorded() -> Value {
    let file = root().join("vectors/platforms/verify_wecom.json");
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

fn bot(config: &Value, settings: Value) -> OpenedBot {
    let mut credentials = Credentials::default();
    for name in ["token", "encoding_aes_key"] {
        credentials.insert(name, Secret::new(config[name].as_str().unwrap()));
    }
    OpenedBot {
        platform: "wecom".into(),
        id: "B1".into(),
        shared: false,
        settings: settings.as_object().unwrap().clone(),
        credentials,
    }
}

fn raw(query: &str, body: &[u8]) -> UnverifiedRequest {
    UnverifiedRequest {
        method: Method::POST,
        door: String::new(),
        query: query.to_owned(),
        headers: HeaderMap::new(),
        body: body.to_vec().into(),
        received: Moment::from_seconds(1_765_000_000),
        server_url: "http://127.0.0.1:9".into(),
    }
}

/// A body is accepted only if it holds the recorded envelope, whatever is around it, and a query only with the recorded
/// signature.
pub fn signatures() -> Target {
    let recorded = recorded();
    let app = wecom(WeComProduct::App);
    let ai_bot = wecom(WeComProduct::AiBot);
    let config = recorded["config"].clone();
    let bot = bot(&config, json!({ "corp_id": config["receive_id"] }));
    let cases = recorded["cases"].as_array().unwrap();
    let case = cases.iter().find(|case| case["name"] == "text message").unwrap();
    let body = case["request"]["body_text"].as_str().unwrap().to_owned();
    let url = case["request"]["url"].as_str().unwrap();
    let query = url.split_once('?').unwrap().1.to_owned();
    let sealed = body.split_once("<Encrypt><![CDATA[").unwrap().1.split_once("]]>").unwrap().0.to_owned();
    let signed = query.split_once("msg_signature=").unwrap().1.split_once('&').unwrap().0.to_owned();
    let read = move |input: &[u8]| {
        let accepts = |platform: &WeCom, query: &str, body: &[u8]| {
            verify_request(platform, &bot, raw(query, body)).now_or_never().unwrap()
        };
        assert!(accepts(&app, &query, body.as_bytes()).is_ok());
        let judged = accepts(&app, &query, input);
        if judged.is_ok() {
            // References to characters can write the same text in another way.
            let text = String::from_utf8_lossy(input);
            assert!(without_tags(&text).contains(&sealed) || text.contains('&'), "another body: {text}");
        }
        let reason = judged.err().map_or("", |refusal| refusal.reason);
        let json_reason = accepts(&ai_bot, &query, input).err().map_or("", |refusal| refusal.reason);
        let text = String::from_utf8_lossy(input);
        if accepts(&app, &text, body.as_bytes()).is_ok() {
            let is_signed = text.to_lowercase().contains(&signed) || text.contains('%');
            assert!(is_signed, "another query: {text}");
        }
        format!("{reason} {json_reason}")
    };
    Target { corpus: "wecom", vectors: VECTORS, read: Box::new(read) }
}

/// The text of a document. Comments and elements may be between its parts.
fn without_tags(text: &str) -> String {
    let text = text.replace("<![CDATA[", "").replace("]]>", "");
    let parts = text.split('<').enumerate();
    let after_tag = |(at, part): (usize, &str)| match (at, part.split_once('>')) {
        (0, _) => part.to_owned(),
        (_, after) => after.map_or("", |(_, text)| text).to_owned(),
    };
    parts.map(after_tag).collect()
}

/// The payload of an input: that of a case of the vectors, or the input itself.
fn payload(input: &[u8]) -> Vec<u8> {
    let parsed: Option<Value> = serde_json::from_slice(input).ok();
    match parsed.as_ref().and_then(|case| case.get("raw")).cloned().or(parsed) {
        Some(Value::String(text)) => text.into_bytes(),
        Some(mut payload) => {
            hide(&mut payload);
            payload.to_string().into_bytes()
        }
        None => input.to_vec(),
    }
}

fn payloads(product: WeComProduct, settings: Value) -> Target {
    let (recorded, wecom) = (recorded(), wecom(product));
    let bot = bot(&recorded["config"], settings);
    let read = move |input: &[u8]| {
        let verified = VerifiedRequest::fetched(payload(input), Moment::from_seconds(1));
        let reading = match wecom.normalize(&bot, verified) {
            Ok(reading) => reading,
            Err(refusal) => return refusal.reason.to_owned(),
        };
        let mut results: Vec<String> = reading.ignored.iter().map(|reason| (*reason).to_owned()).collect();
        for arrival in &reading.arrivals {
            let written = serde_json::to_string(&arrival.event).unwrap();
            assert!(!written.contains(CANARY) && !arrival.references.concat().contains(CANARY), "{written}");
            assert!(arrival.event.source.chat_id.is_some() && arrival.event.source.user_id.is_some());
            assert!(arrival.addressed && arrival.capabilities.len() <= 1);
            assert_eq!(arrival.references.len(), arrival.event.media.len());
            results.push(format!("{:?} {}", arrival.event.message_type, arrival.references.len()));
        }
        results.join(", ")
    };
    Target { corpus: "wecom", vectors: VECTORS, read: Box::new(read) }
}

/// Everything that is read as an event can be delivered.
pub fn app_payloads() -> Target {
    payloads(WeComProduct::App, json!({ "agent_id": "1000002" }))
}

/// The same for AI bots, whose events also hold no URL and no key.
pub fn bot_payloads() -> Target {
    payloads(WeComProduct::AiBot, json!({ "bot_id": "AIB" }))
}

/// Replaces the values of all fields that are secrets, at any depth.
fn hide(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                match name.as_str() {
                    "url" | "aeskey" | "response_url" => *value = json!(CANARY),
                    _ => hide(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        _ => {}
    }
}

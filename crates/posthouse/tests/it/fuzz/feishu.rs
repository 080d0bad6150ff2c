//! Fuzzing of Feishu: requests at its door, payloads of events and card actions, and frames of the long connection.

use edge::feishu::Feishu;
use edge::feishu::frames::FeishuFrame;
use edge::platform::{Platform, Reading, UnverifiedRequest, VerifiedRequest, verify_request};
use edge::{Credentials, OpenedBot};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Method};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::Secret;
use serde_json::{Value, json};

use super::{Target, root};

const VECTORS: &[&str] = &["platforms/payloads_feishu.json", "platforms/verify_feishu.json"];
const FRAMES: &[&str] = &["platforms/frames_feishu.json"];
/// The value of every secret field of an input.
const CANARY: &str = "canary-7f3a";

fn bot(secrets: &Value) -> OpenedBot {
    let mut credentials = Credentials::default();
    for name in ["encrypt_key", "verification_token"] {
        credentials.insert(name, Secret::new(secrets[name].as_str().unwrap_or_default()));
    }
    OpenedBot {
        platform: "feishu".into(),
        id: "cli_1".into(),
        shared: false,
        settings: json!({ "bot_open_id": "ou_bot" }).as_object().unwrap().clone(),
        credentials,
    }
}

fn feishu() -> Feishu {
    Feishu::new("http://127.0.0.1:9", Timepiece::wall())
}

/// Only the recorded body with its recorded signature, time and nonce is accepted.
pub fn signatures() -> Target {
    let file = std::fs::read(root().join("vectors/platforms/verify_feishu.json")).unwrap();
    let recorded: Value = serde_json::from_slice(&file).unwrap();
    let (feishu, bot) = (feishu(), bot(&recorded["config"]));
    let mut cases = recorded["cases"].as_array().unwrap().iter();
    let case = cases.find(|case| case["name"] == "encrypted event").unwrap();
    let request = case["request"].clone();
    let body = request["body_text"].as_str().unwrap().to_owned();
    let header = move |name: &str| {
        let headers = request["headers"].as_array().unwrap();
        headers.iter().find(|pair| pair[0] == name).unwrap()[1].as_str().unwrap().to_owned()
    };
    let names = ["X-Lark-Signature", "X-Lark-Request-Timestamp", "X-Lark-Request-Nonce"];
    let own = names.map(|name| header(name).into_bytes());
    let read = move |input: &[u8]| {
        let accepts = |values: [&[u8]; 3], body: &[u8]| {
            let mut headers = HeaderMap::new();
            for (name, value) in
                ["x-lark-signature", "x-lark-request-timestamp", "x-lark-request-nonce"].iter().zip(values)
            {
                let Ok(value) = HeaderValue::from_bytes(value) else { return false };
                headers.insert(*name, value);
            }
            verified(&feishu, &bot, headers, body).is_some()
        };
        let [signature, time, nonce] = [&own[0][..], &own[1][..], &own[2][..]];
        assert!(accepts([signature, time, nonce], body.as_bytes()));
        let same = input == body.as_bytes();
        assert_eq!(accepts([signature, time, nonce], input), same, "another body with the same signature");
        let trimmed = String::from_utf8_lossy(input).trim_matches([' ', '\t']).to_owned();
        let is_signature = trimmed.to_lowercase().as_bytes() == signature;
        assert_eq!(accepts([input, time, nonce], body.as_bytes()), is_signature, "another signature");
        let is = |own: &[u8]| trimmed.as_bytes() == own;
        assert_eq!(accepts([signature, input, nonce], body.as_bytes()), is(time), "another time");
        assert_eq!(accepts([signature, time, input], body.as_bytes()), is(nonce), "another nonce");
        // Without a signature a handshake may be read, whose token is right, and nothing else. Parts of its text can be
        // changed without the key, so that more than the recorded bytes can be one.
        let unsigned = verified(&feishu, &bot, HeaderMap::new(), input);
        let unsigned = unsigned.map(|verified| feishu.normalize(&bot, verified));
        let is_event = |reading: &Reading| !reading.arrivals.is_empty() || !reading.from_bots.is_empty();
        assert!(
            !unsigned.as_ref().is_some_and(|read| read.as_ref().is_ok_and(is_event)),
            "an unsigned event"
        );
        let unsigned = unsigned.is_some();
        format!("{same} {unsigned} {}", input.len().min(256) / 16)
    };
    Target { corpus: "feishu", vectors: VECTORS, read: Box::new(read) }
}

fn verified(feishu: &Feishu, bot: &OpenedBot, headers: HeaderMap, body: &[u8]) -> Option<VerifiedRequest> {
    let raw = UnverifiedRequest {
        method: Method::POST,
        door: String::new(),
        query: String::new(),
        headers,
        body: body.to_vec().into(),
        received: Moment::from_seconds(1_765_000_000),
        server_url: "http://127.0.0.1:9".into(),
    };
    verify_request(feishu, bot, raw).now_or_never().expect("nothing is waited for").ok()
}

/// Everything that is read as an event holds no credential.
pub fn payloads() -> Target {
    let (feishu, bot) = (feishu(), bot(&Value::Null));
    let read = move |input: &[u8]| {
        // A case of the vectors holds the payload; anything else is tried as it is.
        let parsed: Option<Value> = serde_json::from_slice(input).ok();
        let raw = parsed.as_ref().and_then(|case| case.get("raw")).cloned().or(parsed);
        let body = match raw {
            Some(mut payload) => {
                hide(&mut payload);
                payload.to_string().into_bytes()
            }
            None => input.to_vec(),
        };
        let reading = match feishu.normalize(&bot, VerifiedRequest::fetched(body, Moment::from_seconds(1))) {
            Ok(reading) => reading,
            Err(refusal) => return refusal.reason.to_owned(),
        };
        let mut results: Vec<String> = reading.ignored.iter().map(|reason| (*reason).to_owned()).collect();
        for arrival in reading.arrivals.iter().chain(&reading.from_bots) {
            let written = serde_json::to_string(&arrival.event).unwrap();
            let kept = [written, arrival.references.concat(), arrival.dedup.to_string()];
            assert!(!kept.iter().any(|text| text.contains(CANARY)), "{kept:?}");
            results.push(format!("{:?} {}", arrival.event.message_type, arrival.event.source.chat_type));
        }
        results.join(", ")
    };
    Target { corpus: "feishu", vectors: VECTORS, read: Box::new(read) }
}

/// A frame that is read is the same after it was written.
pub fn frames() -> Target {
    let read = |input: &[u8]| {
        // A case of the vectors has its bytes as digits.
        let case: Option<Value> = serde_json::from_slice(input).ok();
        let digits = case.as_ref().and_then(|case| case["hex"].as_str()).unwrap_or_default();
        let bytes: Vec<u8> = (0..digits.len() / 2)
            .filter_map(|at| u8::from_str_radix(digits.get(at * 2..at * 2 + 2)?, 16).ok())
            .collect();
        let bytes = if bytes.is_empty() { input } else { &bytes[..] };
        let Some(frame) = FeishuFrame::read(bytes) else { return "refused".to_owned() };
        assert_eq!(FeishuFrame::read(&frame.write()).as_ref(), Some(&frame));
        format!("{} {} {}", frame.method, frame.headers.len(), frame.payload.is_some())
    };
    Target { corpus: "feishu", vectors: FRAMES, read: Box::new(read) }
}

/// Replaces the values of the fields that are secrets: the verification token and the token of a card.
fn hide(payload: &mut Value) {
    for place in ["", "/header", "/event"] {
        let fields = payload.pointer_mut(place).and_then(Value::as_object_mut);
        if let Some(token) = fields.and_then(|fields| fields.get_mut("token")) {
            *token = json!(CANARY);
        }
    }
}

//! Fuzzing of signed webhooks and of Twilio: signatures, forms and bodies.

use edge::platform::{Platform, UnverifiedRequest, VerifiedRequest, verify_request};
use edge::twilio::{Twilio, TwilioChannel, segments};
use edge::webhook::Webhook;
use edge::{Credentials, OpenedBot};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::Secret;
use serde_json::{Value, json};

use super::{Target, root};

const WEBHOOK_VECTORS: &[&str] = &["platforms/payloads_webhook.json", "platforms/verify_webhook.json"];
/// The value of every masked field.
const CANARY: &str = "canary-91c4";
const TWILIO_VECTORS: &[&str] =
    &["platforms/payloads_sms.json", "platforms/payloads_sms_stand_in.json", "platforms/verify_twilio.json"];

fn bot(platform: &str, settings: &Value, secrets: &[(&str, &str)]) -> OpenedBot {
    let mut credentials = Credentials::default();
    for (name, secret) in secrets {
        credentials.insert(name, Secret::new(*secret));
    }
    OpenedBot {
        platform: platform.into(),
        id: "build".into(),
        shared: false,
        settings: settings.as_object().unwrap().clone(),
        credentials,
    }
}

fn recorded(file: &str) -> Value {
    serde_json::from_slice(&std::fs::read(root().join("vectors/platforms").join(file)).unwrap()).unwrap()
}

/// The request of a case, with another body.
fn raw(case: &Value, body: &[u8]) -> UnverifiedRequest {
    let mut headers = HeaderMap::new();
    for pair in case["request"]["headers"].as_array().unwrap() {
        let name = HeaderName::try_from(pair[0].as_str().unwrap()).unwrap();
        headers.append(name, HeaderValue::from_str(pair[1].as_str().unwrap()).unwrap());
    }
    UnverifiedRequest {
        method: Method::POST,
        door: String::new(),
        query: String::new(),
        headers,
        body: body.to_vec().into(),
        received: Moment::from_seconds(1_765_000_000),
        server_url: "https://edge.example.test".into(),
    }
}

fn case<'v>(recorded: &'v Value, name: &str) -> &'v Value {
    recorded["cases"].as_array().unwrap().iter().find(|case| case["name"] == name).unwrap()
}

/// Only the recorded bodies are accepted, and no header but the recorded one.
pub fn webhook_signatures() -> Target {
    let recorded = recorded("verify_webhook.json");
    let config = recorded["config"].clone();
    let secret = move |name: &str| config[name].as_str().unwrap().to_owned();
    let secrets =
        [("standard_secret", secret("standard_secret")), ("github_secret", secret("github_secret"))];
    let secrets = secrets.each_ref().map(|(name, secret)| (*name, secret.as_str()));
    let bot = bot("webhook", &json!({ "schemes": "standard,github" }), &secrets);
    let cases = ["standard ok", "github ok"].map(|name| case(&recorded, name).clone());
    let read = move |input: &[u8]| {
        let mut results = Vec::new();
        for case in &cases {
            let accepts =
                |raw: UnverifiedRequest| verify_request(&Webhook, &bot, raw).now_or_never().unwrap().is_ok();
            let body = case["request"]["body_text"].as_str().unwrap();
            assert!(accepts(raw(case, body.as_bytes())));
            let same = input == body.as_bytes();
            assert_eq!(accepts(raw(case, input)), same, "another body");
            for header in ["webhook-signature", "x-hub-signature-256", "webhook-id", "webhook-timestamp"] {
                let mut changed = raw(case, body.as_bytes());
                let Some(before) = changed.headers.get(header).cloned() else { continue };
                let Ok(value) = HeaderValue::from_bytes(input) else { continue };
                changed.headers.insert(header, value);
                if accepts(changed) {
                    let (before, now) = (before.to_str().unwrap(), String::from_utf8_lossy(input));
                    // Further signatures beside a good one are allowed, and so is hex of either case.
                    let holds = now.trim().split(' ').any(|one| one.eq_ignore_ascii_case(before));
                    assert!(holds, "another {header}: {now}");
                }
            }
            results.push(same.to_string());
        }
        format!("{} {}", results.join(" "), input.len().min(256) / 16)
    };
    Target { corpus: "webhook", vectors: WEBHOOK_VECTORS, read: Box::new(read) }
}

/// A masked field is in no text, whatever the body, and every text is bounded.
pub fn webhook_bodies() -> Target {
    let settings = json!({ "schemes": "bearer", "mask": "token,nested.token,list.token" });
    let bots = ["", "{token}{nested}{list} {a.b.0}"].map(|template| {
        let mut settings = settings.clone();
        settings["template"] = json!(template);
        bot("webhook", &settings, &[])
    });
    let read = move |input: &[u8]| {
        let mut results = Vec::new();
        let mut bodies = vec![input.to_vec()];
        // The same with secrets in the masked fields.
        if let Ok(Value::Object(mut fields)) = serde_json::from_slice::<Value>(input) {
            fields.insert("token".to_owned(), json!(CANARY));
            fields.insert("nested".to_owned(), json!({ "token": { "deep": CANARY }, "rest": 1 }));
            fields.insert("list".to_owned(), json!([{ "token": CANARY }, [{ "token": CANARY }], 5]));
            bodies.push(Value::Object(fields).to_string().into_bytes());
        }
        for (bot, body) in bots.iter().flat_map(|bot| bodies.iter().map(move |body| (bot, body))) {
            let verified = VerifiedRequest::fetched(body.clone(), Moment::from_seconds(1));
            match Webhook.normalize(bot, verified) {
                Err(refusal) => results.push(refusal.reason.to_owned()),
                Ok(reading) => {
                    results.extend(reading.ignored.iter().map(|reason| (*reason).to_owned()));
                    for arrival in &reading.arrivals {
                        let text = &arrival.event.text;
                        assert!(!text.contains(CANARY), "{text}");
                        assert!(text.len() <= 32 * 1024);
                        results.push(format!("text {}", text.len().min(64) / 8));
                    }
                }
            }
        }
        results.join(", ")
    };
    Target { corpus: "webhook", vectors: WEBHOOK_VECTORS, read: Box::new(read) }
}

/// Forms that Twilio did not sign are refused; what is read of a form holds no URL of Twilio.
pub fn twilio_forms() -> Target {
    let recorded = recorded("verify_twilio.json");
    let sms = Twilio::new(TwilioChannel::Sms, "http://127.0.0.1:9", Timepiece::wall());
    let whatsapp = Twilio::new(TwilioChannel::WhatsApp, "http://127.0.0.1:9", Timepiece::wall());
    let token = recorded["config"]["auth_token"].as_str().unwrap().to_owned();
    let settings = json!({ "account_sid": "AC1", "number": "+15550001111",
        "webhook_url": "https://edge.example.test/twilio/ac-1" });
    let bot = bot("sms", &settings, &[("auth_token", token.as_str())]);
    let signed = case(&recorded, "sms form").clone();
    let read = move |input: &[u8]| {
        let accepts =
            |body: &[u8]| verify_request(&sms, &bot, raw(&signed, body)).now_or_never().unwrap().is_ok();
        let body = signed["request"]["body_text"].as_str().unwrap();
        assert!(accepts(body.as_bytes()));
        if accepts(input) {
            // The signature covers the decoded fields, so a form that is written differently means the same.
            assert_eq!(fields(input), fields(body.as_bytes()), "another form");
        }
        let mut results = vec![segments(&String::from_utf8_lossy(input)).min(4).to_string()];
        for twilio in [&sms, &whatsapp] {
            let verified = VerifiedRequest::fetched(input.to_vec(), Moment::from_seconds(1));
            match twilio.normalize(&bot, verified) {
                Err(refusal) => results.push(refusal.reason.to_owned()),
                Ok(reading) => {
                    results.extend(reading.ignored.iter().map(|reason| (*reason).to_owned()));
                    for arrival in &reading.arrivals {
                        assert!(arrival.references.len() <= 10);
                        assert!(arrival.event.media.iter().all(|media| media.url.is_none()));
                        results.push(format!("{:?}", arrival.event.message_type));
                    }
                }
            }
        }
        results.join(", ")
    };
    Target { corpus: "twilio", vectors: TWILIO_VECTORS, read: Box::new(read) }
}

/// The different fields of a form.
fn fields(body: &[u8]) -> std::collections::BTreeSet<(String, String)> {
    let mut url = reqwest::Url::parse("http://form/").unwrap();
    url.set_query(Some(&String::from_utf8_lossy(body)));
    url.query_pairs().into_owned().collect()
}

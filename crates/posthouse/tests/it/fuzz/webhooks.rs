//! Fuzzing of signed webhooks and of Twilio: signatures, forms and bodies.

use std::collections::BTreeSet;

use aws_lc_rs::hmac;
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

/// Only the shared tokens themselves are accepted, and only the signed body with its time and signature.
pub fn webhook_tokens() -> Target {
    const TOKEN: &str = "whk_7c1e90b5d2aa4f3f";
    const TIME: u64 = 1_765_000_000;
    let secrets = [("gitlab_token", TOKEN), ("bearer_token", TOKEN), ("stripe_secret", TOKEN)];
    let bots =
        ["gitlab", "bearer", "stripe"].map(|scheme| bot("webhook", &json!({ "schemes": scheme }), &secrets));
    let accepts = |bot: &OpenedBot, headers: &[(&str, &[u8])], body: &[u8]| {
        let mut raw = raw(&json!({ "request": { "headers": [] } }), body);
        for (name, value) in headers {
            let Ok(value) = HeaderValue::from_bytes(value) else { return false };
            raw.headers.append(HeaderName::try_from(*name).unwrap(), value);
        }
        verify_request(&Webhook, bot, raw).now_or_never().unwrap().is_ok()
    };
    let body = br#"{"id":"evt_1","type":"charge.succeeded"}"#;
    let key = hmac::Key::new(hmac::HMAC_SHA256, TOKEN.as_bytes());
    let signed = hmac::sign(&key, &[format!("{TIME}.").as_bytes(), body].concat());
    let digits: String = signed.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let signature = format!("t={TIME},v1={digits}");
    let read = move |input: &[u8]| {
        let [gitlab, bearer, stripe] = &bots;
        let text = String::from_utf8_lossy(input).trim_matches([' ', '\t']).to_owned();
        let same = text == TOKEN;
        assert!(same || !accepts(gitlab, &[("x-gitlab-token", input)], b"{}"), "another token: {text}");
        let bearing = [b"Bearer ", input].concat();
        assert!(same || !accepts(bearer, &[("authorization", &bearing)], b"{}"), "another token: {text}");
        assert!(accepts(gitlab, &[("x-gitlab-token", TOKEN.as_bytes())], input), "any body");
        let accepted = accepts(bearer, &[("authorization", input)], b"{}");
        assert!(
            !accepted || text.to_ascii_lowercase().starts_with("bearer ") && text.ends_with(TOKEN),
            "{text}"
        );
        let signed =
            |signature: &[u8], body: &[u8]| accepts(stripe, &[("stripe-signature", signature)], body);
        assert!(signed(signature.as_bytes(), body));
        assert_eq!(signed(signature.as_bytes(), input), input == body, "another body");
        let accepted = signed(input, body);
        // Further fields beside the good ones are allowed, and so is hex of either case.
        let fields: Vec<_> = text.split(',').map(|field| field.trim().to_lowercase()).collect();
        let has = |field: String| fields.contains(&field);
        assert!(!accepted || has(format!("t={TIME}")) && has(format!("v1={digits}")), "{text}");
        format!("{same} {accepted} {}", input.len().min(256) / 16)
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

/// With a shared key, only the signed form at its URL with its signature and algorithm is accepted.
pub fn twilio_shared_key() -> Target {
    let recorded = recorded("verify_twilio.json");
    let (key_id, key) = recorded["config"]["shared_keys"].as_object().unwrap().iter().next().unwrap();
    let settings = json!({ "account_sid": "AC1", "number": "+15550001111", "shared_key_id": key_id,
        "webhook_url": "https://edge.example.test/twilio/ac-1" });
    let secrets = [
        ("auth_token", recorded["config"]["auth_token"].as_str().unwrap()),
        ("shared_key", key["secret"].as_str().unwrap()),
    ];
    let bot = bot("sms", &settings, &secrets);
    let sms = Twilio::new(TwilioChannel::Sms, "http://127.0.0.1:9", Timepiece::wall());
    let signed = case(&recorded, "shared key with sha256 named in the settings header").clone();
    let own_body = signed["request"]["body_text"].as_str().unwrap().to_owned();
    let read = move |input: &[u8]| {
        let accepts =
            |raw: UnverifiedRequest| verify_request(&sms, &bot, raw).now_or_never().unwrap().is_ok();
        assert!(accepts(raw(&signed, own_body.as_bytes())));
        if accepts(raw(&signed, input)) {
            assert_eq!(fields(input), fields(own_body.as_bytes()), "another form");
        }
        let text = String::from_utf8_lossy(input);
        let mut elsewhere = raw(&signed, own_body.as_bytes());
        elsewhere.query = text.clone().into_owned();
        assert_eq!(accepts(elsewhere), text.is_empty(), "another URL");
        for header in ["x-twilio-signature", "x-twilio-webhooks-signature-settings"] {
            let Ok(value) = HeaderValue::from_bytes(input) else { continue };
            let mut changed = raw(&signed, own_body.as_bytes());
            let before = changed.headers.insert(header, value).expect("the recording has this header");
            if accepts(changed) {
                // The settings may name further things beside the key and its algorithm.
                let parts = |text: &str| -> BTreeSet<String> {
                    text.split(',').map(|part| part.trim().to_owned()).collect()
                };
                let kept = parts(before.to_str().unwrap()).is_subset(&parts(&text));
                assert!(kept, "another {header}: {text}");
            }
        }
        format!("{} {}", text.len().min(256) / 16, text.contains("algorithm"))
    };
    Target { corpus: "twilio", vectors: TWILIO_VECTORS, read: Box::new(read) }
}

/// The different fields of a form.
fn fields(body: &[u8]) -> BTreeSet<(String, String)> {
    let mut url = reqwest::Url::parse("http://form/").unwrap();
    url.set_query(Some(&String::from_utf8_lossy(body)));
    url.query_pairs().into_owned().collect()
}

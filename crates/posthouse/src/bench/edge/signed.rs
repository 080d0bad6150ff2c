//! Benchmark cases of platforms that sign their webhooks with a MAC: Slack, WhatsApp, Twilio and signed webhooks.

use aws_lc_rs::hmac;
use axum::body::Bytes;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use edge::OpenedBot;
use edge::platform::Platform;
use edge::slack::Slack;
use edge::twilio::{Twilio, TwilioChannel};
use edge::webhook::Webhook;
use edge::whatsapp::WhatsApp;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use posthouse_time::Timepiece;
use posthouse_wire::Secret;
use serde_json::{Map, Value, json};

use super::cases::{Delivered, EdgeCase, bot, webhook};

/// Nothing is called while a delivery is verified and normalized.
const NOWHERE: &str = "http://127.0.0.1:9";

pub fn cases() -> Vec<EdgeCase> {
    vec![slack(), whatsapp(), twilio(TwilioChannel::Sms), twilio(TwilioChannel::WhatsApp), signed_webhook()]
}

/// One recorded request with the configuration of its file.
struct Recording {
    config: Value,
    request: Value,
}

impl Recording {
    fn find(file: &str, name: &str) -> Self {
        let file: Value = serde_json::from_str(file).expect("the vectors are JSON");
        let cases = file["cases"].as_array().map(Vec::as_slice).unwrap_or_default();
        let case = cases.iter().find(|case| case["name"] == name).expect("the vectors hold this case");
        Self { config: file["config"].clone(), request: case["request"].clone() }
    }

    fn config(&self, name: &str) -> &str {
        self.config[name].as_str().unwrap_or_default()
    }

    fn body(&self) -> Bytes {
        Bytes::from(self.request["body_text"].as_str().unwrap_or_default().to_owned())
    }

    fn header(&self, name: &str) -> &str {
        let headers = self.request["headers"].as_array().map(Vec::as_slice).unwrap_or_default();
        let found =
            headers.iter().find(|pair| pair[0].as_str().is_some_and(|own| own.eq_ignore_ascii_case(name)));
        found.and_then(|pair| pair[1].as_str()).unwrap_or_default()
    }

    /// The request as it arrives at this door, with all its headers.
    fn delivered(&self, door: &str) -> Delivered {
        let mut delivered = webhook(door, &[], &self.body());
        delivered.headers = HeaderMap::new();
        for pair in self.request["headers"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let [name, value] = [&pair[0], &pair[1]].map(|text| text.as_str().unwrap_or_default());
            let name = HeaderName::try_from(name).expect("cases have plain headers");
            delivered.headers.append(name, HeaderValue::from_str(value).expect("cases have plain headers"));
        }
        let url: Uri = self.request["url"].as_str().and_then(|url| url.parse().ok()).unwrap_or_default();
        delivered.server_url = format!("https://{}", url.host().unwrap_or_default()).into();
        Delivered::Webhook(delivered)
    }
}

fn bot_with(platform: &str, settings: Value, secrets: &[(&'static str, &str)]) -> OpenedBot {
    let mut bot = bot(platform, "bench", settings);
    for (name, secret) in secrets {
        bot.credentials.insert(name, Secret::new(*secret));
    }
    bot
}

/// Computes a MAC over these bytes.
fn bare_mac(algorithm: hmac::Algorithm, key: &[u8], signed: Vec<u8>) -> Box<dyn Fn() -> bool> {
    let key = hmac::Key::new(algorithm, key);
    let tag = hmac::sign(&key, &signed);
    Box::new(move || hmac::verify(&key, std::hint::black_box(&signed), tag.as_ref()).is_ok())
}

fn slack() -> EdgeCase {
    let recording =
        Recording::find(include_str!("../../../../../vectors/platforms/verify_slack.json"), "event callback");
    let secret = recording.config("signing_secret");
    let body = recording.body();
    let signed = [b"v0:", recording.header("x-slack-request-timestamp").as_bytes(), b":", &body[..]].concat();
    EdgeCase {
        name: "event callback",
        platform: Box::new(Slack::new(NOWHERE, Timepiece::wall())),
        bot: bot_with(
            "slack",
            json!({ "bot_user_id": "UBOT", "bot_id": "BBOT" }),
            &[("signing_secret", secret)],
        ),
        delivered: recording.delivered("/events"),
        json: body,
        bare_proof: bare_mac(hmac::HMAC_SHA256, secret.as_bytes(), signed),
    }
}

fn whatsapp() -> EdgeCase {
    let recording = Recording::find(
        include_str!("../../../../../vectors/platforms/verify_whatsapp.json"),
        "text message",
    );
    let secret = recording.config("app_secret");
    let body = recording.body();
    let whatsapp = WhatsApp::new(NOWHERE, WhatsApp::GRAPH_VERSION, Timepiece::wall());
    let mut bot = bot_with("whatsapp_cloud", json!({}), &[("app_secret", secret)]);
    // Messages name the bot by the id of its number.
    bot.id = "P1".into();
    EdgeCase {
        name: "text message",
        platform: Box::new(whatsapp),
        bot,
        delivered: recording.delivered(""),
        bare_proof: bare_mac(hmac::HMAC_SHA256, secret.as_bytes(), body.to_vec()),
        json: body,
    }
}

fn form(fields: &[(&str, String)]) -> String {
    let mut url = reqwest::Url::parse("http://form").expect("the address of no server is a URL");
    url.query_pairs_mut().extend_pairs(fields);
    url.query().unwrap_or_default().to_owned()
}

/// A form, signed over the URL and its sorted fields.
fn twilio(channel: TwilioChannel) -> EdgeCase {
    const URL: &str = "https://posthouse.example/door/twilio";
    const TOKEN: &str = "bench_2092344c4a8945d91db67b73108a568d";
    let (name, prefix) = match channel {
        TwilioChannel::Sms => ("SMS", ""),
        TwilioChannel::WhatsApp => ("message of WhatsApp", "whatsapp:"),
    };
    // In the order of their names, as they are signed.
    let fields = [
        ("AccountSid", "AC00000000000000000000000000000001".to_owned()),
        ("ApiVersion", "2010-04-01".to_owned()),
        ("Body", "Hello, what is on the agenda for tomorrow, and who takes notes?".to_owned()),
        ("From", format!("{prefix}+15551230000")),
        ("MessageSid", "SM00000000000000000000000000000001".to_owned()),
        ("NumMedia", "0".to_owned()),
        ("NumSegments", "1".to_owned()),
        ("To", format!("{prefix}+15550001111")),
        ("ToCountry", "US".to_owned()),
    ];
    let body = Bytes::from(form(&fields));
    let signed = fields.iter().fold(URL.to_owned(), |text, (name, value)| text + name + value);
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, TOKEN.as_bytes());
    let signature = BASE64_STANDARD.encode(hmac::sign(&key, signed.as_bytes()));
    let headers =
        [("content-type", "application/x-www-form-urlencoded"), ("x-twilio-signature", signature.as_str())];
    let platform = Twilio::new(channel, NOWHERE, Timepiece::wall());
    let settings = json!({ "account_sid": fields[0].1, "number": "+15550001111", "webhook_url": URL });
    // The comparison is with JSON of the same fields.
    let json: Map<String, Value> =
        fields.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    EdgeCase {
        name,
        bot: bot_with(platform.name(), settings, &[("auth_token", TOKEN)]),
        platform: Box::new(platform),
        delivered: Delivered::Webhook(webhook("", &headers, &body)),
        json: Value::from(json).to_string().into(),
        bare_proof: bare_mac(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, TOKEN.as_bytes(), signed.into_bytes()),
    }
}

fn signed_webhook() -> EdgeCase {
    let recording =
        Recording::find(include_str!("../../../../../vectors/platforms/verify_webhook.json"), "github ok");
    let secret = recording.config("github_secret");
    let body = recording.body();
    EdgeCase {
        name: "webhook as GitHub signs it",
        platform: Box::new(Webhook),
        bot: bot_with("webhook", json!({ "schemes": "github" }), &[("github_secret", secret)]),
        delivered: recording.delivered(""),
        bare_proof: bare_mac(hmac::HMAC_SHA256, secret.as_bytes(), body.to_vec()),
        json: body,
    }
}

//! Vectors of Twilio: requests and payloads, read and compared with the recorded events.

use edge::OpenedBot;
use edge::platform::{Platform, VerifiedRequest};
use edge::twilio::TwilioChannel;
use posthouse_wire::Secret;
use serde_json::{Value, json};

use super::actors::{bot, twilio};
use crate::vector_checks::{
    check_arrival, check_proof, config, delivered, judge, now, payload_cases, vectors,
};

/// The bot of a request. Its webhook is registered under the URL that was called, without the query.
fn signed_bot(config: &Value, request: &Value) -> OpenedBot {
    let url = request["url"].as_str().unwrap().split('?').next().unwrap();
    let keys = config["shared_keys"].as_object().unwrap();
    let (id, key) = keys.iter().next().unwrap();
    let settings = json!({ "webhook_url": url, "shared_key_id": id, "number": "+15550001111",
        "account_sid": "AC00000000000000000000000000000001" });
    let mut bot = bot(TwilioChannel::Sms, settings);
    bot.credentials.insert("auth_token", Secret::new(config["auth_token"].as_str().unwrap()));
    bot.credentials.insert("shared_key", Secret::new(key["secret"].as_str().unwrap()));
    bot
}

#[test]
fn requests_are_proven_as_the_vectors_say() {
    let (file, sms) = (vectors("verify_twilio.json"), twilio(TwilioChannel::Sms, "http://127.0.0.1:9"));
    let cases = file["cases"].as_array().unwrap();
    for case in cases {
        let config = config(&file, case);
        let read = |request: &Value| judge(&sms, &signed_bot(&config, request), "", request);
        check_proof(case, &read(&case["request"]), cases, |prior| read(prior).unwrap());
    }
}

#[test]
fn payloads_are_read_as_the_vectors_say() {
    for case in &payload_cases("sms") {
        let raw = case["raw"].as_object().unwrap();
        let is_whatsapp = raw["From"].as_str().unwrap().starts_with("whatsapp:");
        let channel = if is_whatsapp { TwilioChannel::WhatsApp } else { TwilioChannel::Sms };
        let mut form = reqwest::Url::parse("http://form/").unwrap();
        form.query_pairs_mut().extend_pairs(raw.iter().map(|(name, value)| (name, value.as_str().unwrap())));
        let verified = VerifiedRequest::fetched(form.query().unwrap().to_owned(), now());
        let bot = bot(channel, json!({ "number": "+15550001111" }));
        let reading = twilio(channel, "http://127.0.0.1:9").normalize(&bot, verified).unwrap();
        assert_eq!(reading.reply.body, &b"<Response/>"[..], "{}", case["name"]);
        if let Some(arrival) = delivered(case, &reading) {
            check_arrival(case, arrival, str::to_owned);
        }
    }
}

#[test]
fn a_bot_without_secrets_opens_to_nobody() {
    let file = vectors("verify_twilio.json");
    for secret in [None, Some("")] {
        for case in file["cases"].as_array().unwrap() {
            let mut bot = signed_bot(&file["config"], &case["request"]);
            bot.credentials = Default::default();
            if let Some(secret) = secret {
                bot.credentials.insert("auth_token", Secret::new(secret));
                bot.credentials.insert("shared_key", Secret::new(secret));
            }
            let judged = judge(&twilio(TwilioChannel::Sms, "http://127.0.0.1:9"), &bot, "", &case["request"]);
            assert!(judged.is_err_and(|refusal| refusal.status.as_u16() == 403), "{}", case["name"]);
        }
    }
}

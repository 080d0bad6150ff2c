//! Comparison with the vectors.

use edge::platform::{Platform, Reading, VerifiedRequest, WebhookRefusal};
use edge::telegram::Telegram;
use ledger::Uses;
use posthouse_time::Timepiece;
use posthouse_wire::Secret;
use serde_json::{Value, json};

use super::actors::bot;
use crate::vector_checks::{check_arrival, check_proof, config, delivered, judge, now, vectors};

fn telegram() -> Telegram {
    Telegram::new(Telegram::API_BASE, Timepiece::wall())
}

#[test]
fn payloads_are_read_as_the_vectors_say() {
    let (file, telegram) = (vectors("payloads_telegram.json"), telegram());
    for case in file["cases"].as_array().unwrap() {
        let context = &case["context"];
        let mut bot = bot(json!({
            "username": context["bot_username"],
            "bot_user_id": context["bot_id"],
        }));
        bot.id = context["bot_id"].as_str().unwrap().into();
        let verified = VerifiedRequest::fetched(case["raw"].to_string(), now());
        let reading =
            telegram.normalize(&bot, verified).unwrap_or_else(|refusal| panic!("{case}: {refusal:?}"));
        check_payload(case, &reading);
    }
}

fn check_payload(case: &Value, reading: &Reading) {
    check_capabilities(case, reading);
    if let Some(arrival) = delivered(case, reading) {
        check_arrival(case, arrival, str::to_owned);
    }
}

/// The capabilities of the event together with those that the edge uses itself.
fn check_capabilities(case: &Value, reading: &Reading) {
    let (name, expect) = (&case["name"], &case["expect"]);
    let bound = reading.arrivals.iter().flat_map(|arrival| &arrival.capabilities);
    let captured = bound.chain(reading.interaction_acks.iter().map(|ack| &ack.0));
    let captured: Vec<Value> = captured
        .map(|captured| {
            let uses = match captured.uses {
                Uses::Left(uses) => json!(uses),
                Uses::Many => Value::Null,
            };
            json!({
                "kind": captured.kind,
                "value": captured.value.expose(),
                "ttl_s": captured.lifetime.map(|lifetime| lifetime.as_secs()),
                "max_uses": uses,
            })
        })
        .collect();
    assert_eq!(json!(captured), expect["capabilities"], "{name}");
    let owed = expect["edge"]["must_answer"] == "answerCallbackQuery";
    assert_eq!(reading.interaction_acks.len(), usize::from(owed), "{name}");
}

#[test]
fn requests_are_proven_as_the_vectors_say() {
    let (file, telegram) = (vectors("verify_telegram.json"), telegram());
    let cases = file["cases"].as_array().unwrap();
    for case in cases {
        let mut bot = bot(json!({}));
        let secret = Secret::new(config(&file, case)["secret_token"].as_str().unwrap());
        bot.credentials.insert("webhook_secret", secret);
        let judged = judge(&telegram, &bot, "", &case["request"]);
        check_proof(case, &judged, cases, |prior| judge(&telegram, &bot, "", prior).unwrap());
    }
}

#[test]
fn a_bot_without_a_secret_opens_to_nobody() {
    let telegram = telegram();
    for secret in [None, Some("")] {
        let mut bot = bot(json!({}));
        bot.credentials = Default::default();
        if let Some(secret) = secret {
            bot.credentials.insert("webhook_secret", Secret::new(secret));
        }
        let request = json!({"method": "POST", "url": "/", "body_b64": "",
            "headers": [["X-Telegram-Bot-Api-Secret-Token", ""]]});
        assert_eq!(judge(&telegram, &bot, "", &request).err(), Some(WebhookRefusal::unproven("no_secret")));
    }
}

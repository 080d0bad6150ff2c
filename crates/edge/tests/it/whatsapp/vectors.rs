//! Vectors of WhatsApp: requests and payloads, read and compared with the recorded events.

use edge::OpenedBot;
use edge::platform::{Platform, VerifiedRequest};
use posthouse_wire::Secret;
use serde_json::{Value, json};
use vault::Credentials;

use super::actors::whatsapp;
use crate::vector_checks::{
    check_arrival, check_proof, config, delivered, judge, now, payload_cases, vectors,
};

/// The bot of the vectors, with these secrets.
fn bot(config: &Value) -> OpenedBot {
    let mut credentials = Credentials::default();
    for name in ["app_secret", "verify_token"] {
        if let Some(secret) = config[name].as_str() {
            credentials.insert(name, Secret::new(secret));
        }
    }
    OpenedBot {
        platform: "whatsapp_cloud".into(),
        id: "P1".into(),
        shared: false,
        settings: Default::default(),
        credentials,
    }
}

#[test]
fn requests_are_proven_as_the_vectors_say() {
    let (file, whatsapp) = (vectors("verify_whatsapp.json"), whatsapp("http://127.0.0.1:9"));
    let cases = file["cases"].as_array().unwrap();
    for case in cases {
        let bot = bot(&config(&file, case));
        let judged = judge(&whatsapp, &bot, "", &case["request"]);
        check_proof(case, &judged, cases, |prior| judge(&whatsapp, &bot, "", prior).unwrap());
    }
}

#[test]
fn payloads_are_read_as_the_vectors_say() {
    let whatsapp = whatsapp("http://127.0.0.1:9");
    for case in &payload_cases("whatsapp_cloud") {
        let verified = VerifiedRequest::fetched(case["raw"].to_string(), now());
        let reading = whatsapp.normalize(&bot(&json!({})), verified).unwrap();
        if let Some(arrival) = delivered(case, &reading) {
            assert!(arrival.capabilities.is_empty(), "{}", case["name"]);
            check_arrival(case, arrival, str::to_owned);
        }
    }
}

#[test]
fn a_bot_without_secrets_opens_to_nobody() {
    let file = vectors("verify_whatsapp.json");
    for secrets in [json!({}), json!({"app_secret": "", "verify_token": ""})] {
        for case in file["cases"].as_array().unwrap() {
            let refusal = judge(&whatsapp("http://127.0.0.1:9"), &bot(&secrets), "", &case["request"]).err();
            assert!(refusal.is_some_and(|refusal| refusal.status.is_client_error()), "{}", case["name"]);
        }
    }
}

//! Vectors of WeCom: requests and payloads of both products, read and compared with the recorded events.

use std::time::Duration;

use edge::OpenedBot;
use edge::platform::{Platform, VerifiedRequest};
use edge::wecom::{WeCom, WeComProduct};
use posthouse_time::Timepiece;
use posthouse_wire::Secret;
use serde_json::{Value, json};
use vault::Credentials;

use crate::vector_checks::{check_arrival, check_proof, config, delivered, judge, now, vectors};

fn wecom(product: WeComProduct) -> WeCom {
    WeCom::new(product, "http://127.0.0.1:9", "ws://127.0.0.1:9", Timepiece::wall())
}

/// The bot of the vectors, with these secrets.
fn bot(config: &Value, settings: Value) -> OpenedBot {
    let mut credentials = Credentials::default();
    for name in ["token", "encoding_aes_key"] {
        if let Some(secret) = config[name].as_str() {
            credentials.insert(name, Secret::new(secret));
        }
    }
    OpenedBot {
        platform: "wecom".into(),
        id: "B1".into(),
        shared: false,
        settings: settings.as_object().unwrap().clone(),
        credentials,
    }
}

/// The product and the bot of a case: an empty recipient is that of AI bots.
fn judged_by(config: &Value) -> (WeCom, OpenedBot) {
    match config["receive_id"].as_str() {
        Some("") => (wecom(WeComProduct::AiBot), bot(config, json!({}))),
        receiver => (wecom(WeComProduct::App), bot(config, json!({ "corp_id": receiver }))),
    }
}

#[test]
fn requests_are_proven_as_the_vectors_say() {
    let file = vectors("verify_wecom.json");
    let cases = file["cases"].as_array().unwrap();
    for case in cases {
        let (wecom, bot) = judged_by(&config(&file, case));
        let judged = judge(&wecom, &bot, "", &case["request"]);
        check_proof(case, &judged, cases, |prior| judge(&wecom, &bot, "", prior).unwrap());
        if let Ok(reading) = judged {
            let is_turn = matches!(case["expect"]["disposition"].as_str(), Some("deliver" | "duplicate"));
            assert_eq!(reading.arrivals.len(), usize::from(is_turn), "{}", case["name"]);
        }
    }
}

#[test]
fn payloads_are_read_as_the_vectors_say() {
    for (file, product, settings) in [
        (
            "payloads_wecom_callback.json",
            WeComProduct::App,
            json!({ "corp_id": "wwcorp", "agent_id": "1000002" }),
        ),
        ("payloads_wecom.json", WeComProduct::AiBot, json!({ "bot_id": "AIB" })),
    ] {
        let file = vectors(file);
        for case in file["cases"].as_array().unwrap() {
            let raw = case["raw"].as_str().map_or_else(|| case["raw"].to_string(), str::to_owned);
            let verified = VerifiedRequest::fetched(raw, now());
            let bot = bot(&json!({}), settings.clone());
            let reading = wecom(product).normalize(&bot, verified).unwrap();
            let Some(arrival) = delivered(case, &reading) else { continue };
            check_arrival(case, arrival, str::to_owned);
            let wanted = case["expect"]["capabilities"].as_array().unwrap();
            assert_eq!(arrival.capabilities.len(), wanted.len(), "{}", case["name"]);
            for (captured, wanted) in arrival.capabilities.iter().zip(wanted) {
                assert_eq!(json!(captured.kind), wanted["kind"]);
                assert_eq!(json!(captured.value.expose()), wanted["value"]);
                let lifetime = wanted["ttl_s"].as_u64().map(Duration::from_secs);
                assert_eq!(captured.lifetime, lifetime);
                assert_eq!(captured.uses, ledger::Uses::Left(1));
            }
        }
    }
}

#[test]
fn a_bot_without_secrets_opens_to_nobody() {
    let file = vectors("verify_wecom.json");
    for secrets in [json!({}), json!({ "token": "", "encoding_aes_key": "" })] {
        for case in file["cases"].as_array().unwrap() {
            let mut config = secrets.clone();
            config["receive_id"] = self::config(&file, case)["receive_id"].clone();
            let (wecom, bot) = judged_by(&config);
            let refusal = judge(&wecom, &bot, "", &case["request"]).err();
            assert!(refusal.is_some_and(|refusal| refusal.status.is_client_error()), "{}", case["name"]);
        }
    }
}

#[test]
fn an_app_without_a_company_opens_to_nobody() {
    let file = vectors("verify_wecom.json");
    let bot = bot(&file["config"], json!({}));
    for case in file["cases"].as_array().unwrap() {
        assert!(judge(&wecom(WeComProduct::App), &bot, "", &case["request"]).is_err(), "{}", case["name"]);
    }
}

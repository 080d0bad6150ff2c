//! Upgrade tokens and delivery signatures, byte for byte.

use posthouse_wire::token::{self, TokenVerdict};
use posthouse_wire::{GatewayId, Secret};
use serde_json::Value;

use crate::vectors::{cases, text};

fn secrets(list: &Value) -> Vec<Secret> {
    list.as_array().unwrap().iter().map(|secret| Secret::new(secret.as_str().unwrap())).collect()
}

#[test]
fn minted_tokens_equal_the_vectors() {
    for case in cases("upgrade_tokens.json", "make") {
        let gateway = GatewayId::new(text(&case, "gateway_id"));
        let (ttl, now) = (case["ttl_seconds"].as_i64().unwrap(), case["now"].as_i64().unwrap());
        let token = token::mint(&gateway, &Secret::new(text(&case, "secret")), ttl, now);
        assert_eq!(token, text(&case, "token"), "{}", case["id"]);
        assert_eq!(token::claimed_gateway(&token), Some(gateway), "{}", case["id"]);
    }
}

#[test]
fn verdicts_equal_the_vectors() {
    for case in cases("upgrade_tokens.json", "verify") {
        let (secrets, now) = (secrets(&case["secrets"]), case["now"].as_i64().unwrap());
        let verdict = token::verify(text(&case, "token"), &secrets, now);
        match case["expect"]["payload"].as_str() {
            Some(gateway) => {
                assert_eq!(verdict, TokenVerdict::Good(GatewayId::new(gateway)), "{}", case["id"])
            }
            None => {
                assert!(!matches!(verdict, TokenVerdict::Good(_)), "{}", case["id"]);
                let only_late = ["one second past expiry", "negative expiry, validly signed"];
                let late = matches!(verdict, TokenVerdict::Expired { .. });
                assert_eq!(late, only_late.contains(&text(&case, "note")), "{}", case["id"]);
            }
        }
    }
}

#[test]
fn characters_outside_base64_are_refused_though_stock_verifiers_skip_them() {
    let (gateway, secret) = (GatewayId::new("gw-1"), Secret::new("s3cret"));
    let token = token::mint(&gateway, &secret, 300, 1_000);
    for foreign in ["!", " ", "\n", "é", "\0"] {
        let spoiled = format!("{}{foreign}{}", &token[..4], &token[4..]);
        assert_eq!(token::verify(&spoiled, [&secret], 1_000), TokenVerdict::Refused, "{foreign:?}");
        assert_eq!(token::claimed_gateway(&spoiled), None);
    }
}

#[test]
fn a_late_token_is_told_from_a_forged_one() {
    let (gateway, secret) = (GatewayId::new("gw-1"), Secret::new("s3cret"));
    let token = token::mint(&gateway, &secret, 300, 1_000);
    let late = token::verify(&token, [&secret], 1_360);
    assert_eq!(late, TokenVerdict::Expired { gateway, late_seconds: 60 });
    let other = Secret::new("other");
    assert_eq!(token::verify(&token, [&other], 1_360), TokenVerdict::Refused);
    assert_eq!(token::verify(&token, [], 1_360), TokenVerdict::Refused);
    assert_eq!(token::verify(&token, [&Secret::new("")], 1_000), TokenVerdict::Refused);
}

#[test]
fn a_token_of_the_empty_secret_opens_nothing() {
    let (gateway, empty) = (GatewayId::new("gw-1"), Secret::new(""));
    assert_eq!(token::verify(&token::mint(&gateway, &empty, 0, 0), [&empty], 0), TokenVerdict::Refused);
}

#[test]
fn delivery_signatures_equal_the_vectors() {
    for case in cases("delivery_signatures.json", "cases") {
        let (keys, now) = (secrets(&case["keys"]), case["now"].as_i64().unwrap());
        let (timestamp, signature) = (case["timestamp"].as_str(), case["signature"].as_str());
        let body = text(&case, "body").as_bytes();
        let skew = case["max_skew_seconds"].as_i64().unwrap();
        let good = token::verify_delivery(&keys, timestamp, signature, body, now, skew);
        assert_eq!(good, case["expect"].as_bool().unwrap(), "{}", case["id"]);
        if let (true, Some(at)) = (good, timestamp.and_then(|text| text.trim().parse().ok())) {
            assert!(keys.iter().any(|key| Some(token::sign_delivery(key, at, body).as_str()) == signature));
        }
    }
}

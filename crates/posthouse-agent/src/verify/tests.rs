use std::path::{Path, PathBuf};

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_2048_8192_SHA256,
    RsaPublicKeyComponents,
};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::HeaderValue;
use posthouse_time::Moment;
use posthouse_wire::Secret;
use posthouse_wire::cron::{CRON_KEY, TimedSignature, cron_key_message};
use proptest::prelude::*;
use serde_json::json;

use super::*;

pub(super) const NOW: Moment = Moment::from_seconds(1_790_000_000);
pub(super) const AUDIENCE: &str = "agent:inst_a";
const ISSUER: &str = "https://portal.example";

pub(super) fn expected() -> Expected {
    Expected { audience: AUDIENCE.to_owned(), issuer: Some(ISSUER.to_owned()) }
}

/// A portal's private key.
pub(super) struct Mint {
    kid: String,
    pair: EcdsaKeyPair,
}

impl Mint {
    pub(super) fn new(kid: &str) -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        Self { kid: kid.to_owned(), pair }
    }

    pub(super) fn jwk(&self) -> Value {
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        json!({ "kty": "EC", "crv": "P-256", "kid": self.kid,
                "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y) })
    }

    fn pem(&self) -> String {
        pem(self.pair.public_key().as_der().unwrap().as_ref())
    }

    pub(super) fn set(mints: &[&Mint]) -> String {
        json!({ "keys": mints.iter().map(|mint| mint.jwk()).collect::<Vec<_>>() }).to_string()
    }

    pub(super) fn signs(&self, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(header), part(claims));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// A valid token at `now`, changed by `other`.
    pub(super) fn token(&self, now: Moment, other: Value) -> String {
        let mut claims = json!({ "iss": ISSUER, "aud": AUDIENCE, "purpose": "cron_fire",
                                 "iat": now.seconds(), "exp": now.seconds() + 90 });
        for (name, value) in other.as_object().unwrap() {
            claims[name] = value.clone();
        }
        self.signs(&json!({ "alg": "ES256", "kid": self.kid }), &claims)
    }
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", lines.join("\n"))
}

pub(super) fn presenting(token: &str) -> HeaderMap {
    let value = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
    HeaderMap::from_iter([(header::AUTHORIZATION, value)])
}

pub(super) fn vectors() -> Value {
    let folder = std::env::var_os("POSTHOUSE_VECTORS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors"), PathBuf::from);
    let text = std::fs::read_to_string(folder.join("fire_tokens.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The public key of that name as PEM.
fn pem_of(vectors: &Value, kid: &str) -> String {
    let keys = vectors["jwks"]["keys"].as_array().unwrap();
    let jwk = keys.iter().find(|jwk| jwk["kid"] == kid).unwrap();
    let part = |name: &str| URL_SAFE_NO_PAD.decode(jwk[name].as_str().unwrap()).unwrap();
    let parts = RsaPublicKeyComponents { n: part("n"), e: part("e") };
    let key = parts.to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256).unwrap();
    pem(key.as_der().unwrap().as_ref())
}

#[test]
fn fire_tokens_are_judged_as_the_vectors_say() {
    let vectors = vectors();
    let now = Moment::from_seconds(vectors["now"].as_i64().unwrap());
    let published = KeySet::read(vectors["jwks"].to_string().as_bytes()).unwrap();
    let cases = vectors["cases"].as_array().unwrap();
    for case in cases {
        let keys = match case["key_source"].as_str() {
            None => published.clone(),
            Some("none") => KeySet::default(),
            Some(source) => {
                let kid = source.strip_prefix("pinned_pem:").unwrap();
                KeySet::pinned(&pem_of(&vectors, kid)).unwrap()
            }
        };
        let text = |name: &str| case[name].as_str();
        let audience = text("expected_audience").unwrap();
        let judged = check_claims(text("token").unwrap(), audience, &keys, text("expected_issuer"), now);
        let accept = case["accept"] == true;
        if case["ours_may_reject"] == true {
            assert!(accept || judged.is_none(), "{}", case["name"]);
        } else {
            assert_eq!(judged.is_some(), accept, "{}", case["name"]);
        }
    }
    assert!(!cases.is_empty());
}

#[test]
fn a_key_checks_the_algorithm_of_its_own_kind_alone() {
    let mint = Mint::new("a");
    let keys = KeySet::read(Mint::set(&[&mint]).as_bytes()).unwrap();
    let judged = |token: &str| check_claims(token, AUDIENCE, &keys, None, NOW).is_some();
    let claims = json!({ "aud": AUDIENCE, "purpose": "cron_fire", "exp": NOW.seconds() });
    assert!(judged(&mint.signs(&json!({ "alg": "ES256", "kid": "a" }), &claims)));
    for alg in ["ES384", "RS256", "HS256", "none", "es256", "PS256", "EdDSA", ""] {
        assert!(!judged(&mint.signs(&json!({ "alg": alg, "kid": "a" }), &claims)), "{alg}");
    }
    for header in [
        json!({ "alg": "ES256", "kid": 5 }),
        json!({ "alg": "ES256", "kid": "a", "crit": [] }),
        json!({ "alg": "ES256", "kid": "a", "crit": ["b64"], "b64": false }),
        json!({ "alg": ["ES256"], "kid": "a" }),
    ] {
        assert!(!judged(&mint.signs(&header, &claims)), "{header}");
    }
}

#[test]
fn a_key_that_is_not_for_our_signatures_is_invisible_or_of_no_use() {
    let mint = Mint::new("a");
    let token = mint.token(NOW, json!({}));
    for (field, value, seen) in [
        ("use", json!("sig"), true),
        ("use", json!(null), true),
        ("alg", json!("ES256"), true),
        ("use", json!("enc"), false),
        ("alg", json!("RS256"), false),
        ("kid", json!(""), false),
        ("crv", json!("P-384"), false),
        ("kty", json!("RSA"), false),
        ("x", json!("AAAA"), false),
        ("y", mint.jwk()["x"].clone(), false),
    ] {
        let mut jwk = mint.jwk();
        jwk[field] = value.clone();
        let keys = KeySet::read(json!({ "keys": [7, jwk] }).to_string().as_bytes()).unwrap();
        let judged = check_claims(&token, AUDIENCE, &keys, None, NOW);
        assert_eq!(judged.is_some(), seen, "{field}: {value}");
    }
    for text in ["", "[]", "{}", r#"{"keys":{}}"#, "<html>"] {
        assert!(KeySet::read(text.as_bytes()).is_none(), "{text}");
    }
}

#[test]
fn a_key_source_is_an_address_or_a_public_key() {
    let choose = |source: &str| verifier(source, expected(), Timepiece::wound(NOW)).err();
    assert_eq!(choose("https://portal.example/.well-known/jwks.json"), None);
    assert_eq!(choose(&Mint::new("a").pem()), None);
    assert_eq!(choose(" "), Some(BadKey::Missing));
    assert_eq!(choose("portal.example"), Some(BadKey::NotPem));
    assert_eq!(
        choose("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"),
        Some(BadKey::Unsuitable)
    );
}

#[tokio::test]
async fn a_token_is_good_for_the_fire_that_it_names_and_for_no_other() {
    let mint = Mint::new("a");
    let pinned = PinnedKey::new(&mint.pem(), expected(), Timepiece::wound(NOW)).unwrap();
    let time = "2026-09-21T14:13:20+00:00";
    let bound = mint.token(NOW, json!({ "job_id": "j", "fire_at": time, "jti": "1", "schedule_id": "s" }));
    let open = mint.token(NOW, json!({}));
    let odd = mint.token(NOW, json!({ "job_id": 7 }));
    let at = |job: &str, time: &str| json!({ "job_id": job, "fire_at": time }).to_string();
    for (token, body, good) in [
        (&bound, at("j", time), true),
        (&bound, at("k", time), false),
        (&bound, at("j", "2026-09-21T14:13:20Z"), false),
        (&bound, json!({ "job_id": "j" }).to_string(), false),
        (&bound, json!({ "job_id": "j", "fire_at": null }).to_string(), false),
        // These run nothing, and the caller answers them itself.
        (&bound, "no json".to_owned(), true),
        (&bound, "[]".to_owned(), true),
        (&bound, json!({ "fire_at": time }).to_string(), true),
        (&open, at("k", time), true),
        (&open, json!({ "job_id": "k" }).to_string(), true),
        (&odd, at("7", time), false),
    ] {
        assert_eq!(pinned.verify(&presenting(token), body.as_bytes()).await.is_some(), good, "{body}");
    }
    let verified = pinned.verify(&presenting(&bound), b"no json").await.unwrap();
    let fire_at = FireAt::parse(time).unwrap();
    assert!(verified.is_for(&"j".into(), Some(&fire_at)));
    assert!(!verified.is_for(&"j".into(), None) && !verified.is_for(&"k".into(), Some(&fire_at)));
    assert_eq!((verified.attempt.as_deref(), verified.schedule), (Some("1"), Some("s".into())));
    assert_eq!(pinned.verify(&HeaderMap::new(), b"").await, None);
    let lower = HeaderValue::from_str(&format!("bearer {open}")).unwrap();
    assert_eq!(pinned.verify(&HeaderMap::from_iter([(header::AUTHORIZATION, lower)]), b"").await, None);
}

#[tokio::test]
async fn a_per_job_key_vouches_for_its_job_and_time_while_its_stamp_is_fresh() {
    let clock = Timepiece::wound(NOW);
    let keys = |job: &JobId| match job.as_str() {
        "j" => Some(Secret::new("key of j")),
        "empty" => Some(Secret::new("")),
        _ => None,
    };
    let verifier = PerJobKey::new(keys, clock.clone());
    let fire_at = FireAt::parse("2026-09-21T14:13:20.5+00:00").unwrap();
    let stamped = |secret: &str, job: &str| {
        let message = cron_key_message(&job.into(), &fire_at);
        let stamp = TimedSignature::make(&Secret::new(secret), NOW.seconds(), &message).header();
        HeaderMap::from_iter([(CRON_KEY.parse().unwrap(), HeaderValue::from_str(&stamp).unwrap())])
    };
    let body = |job: &str| json!({ "job_id": job, "fire_at": fire_at.text() }).to_string();
    let good = stamped("key of j", "j");
    let verified = verifier.verify(&good, body("j").as_bytes()).await.unwrap();
    assert_eq!(verified.proof, FireProof::PerJobKey);
    assert!(verified.is_for(&"j".into(), Some(&fire_at)));
    for (headers, body) in [
        (&good, body("k")),
        (&good, json!({ "job_id": "j" }).to_string()),
        (&good, json!({ "job_id": "j", "fire_at": "2026-09-21T14:13:21+00:00" }).to_string()),
        (&good, "no json".to_owned()),
        (&stamped("other", "j"), body("j")),
        (&stamped("none", "k"), body("k")),
        (&stamped("", "empty"), body("empty")),
        (&HeaderMap::new(), body("j")),
    ] {
        assert_eq!(verifier.verify(headers, body.as_bytes()).await, None, "{body}");
    }
    clock.wind(std::time::Duration::from_secs(300));
    assert!(verifier.verify(&good, body("j").as_bytes()).await.is_some());
    clock.wind(std::time::Duration::from_secs(1));
    assert_eq!(verifier.verify(&good, body("j").as_bytes()).await, None, "stale");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ -~]{0,12}".prop_map(Value::from),
        Just(AUDIENCE.into()),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| prop::collection::vec(inner, 0..3).prop_map(Value::from))
}

proptest! {
    #[test]
    fn junk_is_refused_and_never_panics(text in ".{0,120}", dotted in "[A-Za-z0-9_=-]{0,40}(\\.[A-Za-z0-9_=-]{0,40}){0,3}") {
        let keys = KeySet::read(Mint::set(&[&Mint::new("a")]).as_bytes()).unwrap();
        for junk in [&text, &dotted] {
            prop_assert!(check_claims(junk, AUDIENCE, &keys, None, NOW).is_none());
            prop_assert!(KeySet::pinned(junk).is_err());
            let _ = KeySet::read(junk.as_bytes());
        }
    }

    #[test]
    fn odd_claims_and_headers_under_a_good_signature_never_panic(
        name in prop::sample::select(vec!["aud", "exp", "nbf", "iat", "iss", "sub", "jti", "purpose"]),
        value in any_json(),
        at in prop::sample::select(vec!["alg", "kid", "crit", "b64", "typ"]),
        body in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let mint = Mint::new("a");
        let keys = KeySet::read(Mint::set(&[&mint]).as_bytes()).unwrap();
        let token = mint.token(NOW, json!({ name: value.clone() }));
        if let Some(claims) = check_claims(&token, AUDIENCE, &keys, Some(ISSUER), NOW) {
            let _ = VerifiedFire::by_token(claims).bound_to(&body);
        }
        let mut header = json!({ "alg": "ES256", "kid": "a" });
        header[at] = value;
        let _ = check_claims(&mint.signs(&header, &json!({ "aud": AUDIENCE })), AUDIENCE, &keys, None, NOW);
    }

    #[test]
    fn a_token_with_one_byte_changed_is_refused(at in 0_usize..400, to in "[A-Za-z0-9_-]") {
        let mint = Mint::new("a");
        let keys = KeySet::read(Mint::set(&[&mint]).as_bytes()).unwrap();
        let token = mint.token(NOW, json!({}));
        // The last character of a part has bits without meaning.
        let at = at % (token.len() - 1);
        let mut changed = token.clone();
        changed.replace_range(at..=at, &to);
        prop_assume!(changed != token);
        prop_assert!(check_claims(&changed, AUDIENCE, &keys, None, NOW).is_none());
    }

    #[test]
    fn odd_keys_never_panic(field in prop::sample::select(vec!["kty", "crv", "x", "y", "n", "e", "alg", "use"]), value in any_json()) {
        let mint = Mint::new("a");
        for mut jwk in [mint.jwk(), json!({ "kty": "RSA", "kid": "a", "n": "wLUtnL", "e": "AQAB" })] {
            jwk[field] = value.clone();
            let keys = KeySet::read(json!({ "keys": [jwk] }).to_string().as_bytes()).unwrap();
            for alg in ["RS256", "RS384", "ES256", "ES384"] {
                let token = mint.signs(&json!({ "alg": alg, "kid": "a" }), &json!({}));
                prop_assert!(check_claims(&token, AUDIENCE, &keys, None, NOW).is_none());
            }
        }
    }
}

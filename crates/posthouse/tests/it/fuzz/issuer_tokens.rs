//! Tokens of foreign issuers: what is accepted was signed by the issuer, and its claims are valid.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use errand::Errand;
use futures_util::FutureExt;
use identity::{IssuedClaims, IssuerSettings, TokenPurpose, TrustedIssuers};
use posthouse_time::{Moment, Timepiece};
use serde_json::{Value, json};

use super::Target;

const ISSUER: &str = "https://login.example";
const AUDIENCE: &str = "posthouse";
const NOW: i64 = 1_800_000_000;
/// Allowed difference between the issuer's clock and the server's, in seconds.
const LEEWAY: f64 = 60.0;

/// An issuer with a key of its own, and a server that trusts it.
struct Issuer {
    key: EcdsaKeyPair,
    trusted: TrustedIssuers,
    clock: Timepiece,
}

impl Issuer {
    fn new() -> Self {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let point = key.public_key().as_ref();
        let coordinate = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let jwk = json!({ "kty": "EC", "crv": "P-256", "kid": "k1",
            "x": coordinate(&point[1..33]), "y": coordinate(&point[33..]) });
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys.json");
        std::fs::write(&file, json!({ "keys": [jwk] }).to_string()).unwrap();
        let settings = IssuerSettings {
            issuer: ISSUER.to_owned(),
            audience: AUDIENCE.to_owned(),
            jwks_url: None,
            keys_file: Some(file),
            tenant_claim: "tid".to_owned(),
            tenants: Default::default(),
        };
        let config = identity::Config { issuers: vec![settings], ..Default::default() };
        let clock = Timepiece::wound(Moment::from_seconds(NOW));
        let errand = Errand::new(errand::Config::default());
        let trusted = TrustedIssuers::new(&config, "https://house.example", &errand, &clock).unwrap();
        Self { key, trusted, clock }
    }

    fn sign(&self, header: &[u8], claims: &[u8]) -> String {
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// The keys are in a file, so nothing is waited for.
    fn verify(&self, token: &str, purpose: TokenPurpose) -> Option<IssuedClaims> {
        self.trusted.verify(token, purpose, &self.clock).now_or_never().expect("nothing is fetched")
    }
}

/// Whether accepted claims are what the token says, by the rules of the guide and without the code of the server.
fn check(claimed: &IssuedClaims, purpose: TokenPurpose, header: &[u8], claims: &[u8]) {
    let (header, claims): (Value, Value) =
        (serde_json::from_slice(header).unwrap(), serde_json::from_slice(claims).unwrap());
    assert_eq!((&header["alg"], header.get("crit")), (&json!("ES256"), None), "{header}");
    assert_eq!(header["kid"], "k1", "{header}");
    assert_eq!((claimed.issuer.as_str(), &claims["iss"]), (ISSUER, &json!(ISSUER)));
    assert_eq!(claims["tid"], claimed.tenant.as_str());
    let now = NOW as f64;
    assert!(claims["exp"].as_f64().unwrap() > now - LEEWAY, "{claims}");
    for begin in ["nbf", "iat"] {
        assert!(claims.get(begin).is_none_or(|at| at.as_f64().unwrap() <= now + LEEWAY), "{claims}");
    }
    let is_for = |audience: &str| match &claims["aud"] {
        Value::Array(several) => several.iter().any(|one| one == audience),
        one => one == audience,
    };
    match (purpose, &claimed.agent) {
        (TokenPurpose::Join, None) => assert!(is_for(AUDIENCE), "{claims}"),
        (TokenPurpose::ManageAgent, Some(agent)) => assert!(is_for(&format!("agent:{agent}")), "{claims}"),
        (purpose, agent) => panic!("{purpose:?} with {agent:?}"),
    }
}

pub fn issuer_tokens() -> Target {
    let issuer = Issuer::new();
    let (header, claims) = (
        json!({ "alg": "ES256", "kid": "k1" }).to_string(),
        json!({ "iss": ISSUER, "aud": AUDIENCE, "exp": NOW + 300, "tid": "acme" }).to_string(),
    );
    let good = issuer.sign(header.as_bytes(), claims.as_bytes());
    assert!(issuer.verify(&good, TokenPurpose::Join).is_some());
    let (good_part, _) = good.rsplit_once('.').map(|(part, signature)| (part.to_owned(), signature)).unwrap();
    let read = move |input: &[u8]| {
        let text = String::from_utf8_lossy(input);
        let purposes = [TokenPurpose::Join, TokenPurpose::ManageAgent];
        for purpose in purposes {
            assert_eq!(issuer.verify(&text, purpose), None, "a token that nobody signed");
        }
        // A good token with something else inside may be written in other ways, but says nothing else.
        let at = input.len() % good.len();
        let changed = format!("{}{text}{}", &good[..at], &good[at..]);
        if issuer.verify(&changed, TokenPurpose::Join).is_some() {
            assert_eq!(changed.rsplit_once('.').map(|(part, _)| part), Some(good_part.as_str()));
        }
        // The first line as the header and the rest as the claims, signed by the issuer itself.
        let line = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
        let (header, claims) = (&input[..line], input.get(line + 1..).unwrap_or_default());
        let signed = issuer.sign(header, claims);
        let mut results = Vec::new();
        for purpose in purposes {
            let verified = issuer.verify(&signed, purpose);
            if let Some(claimed) = &verified {
                check(claimed, purpose, header, claims);
            }
            results.push(verified.is_some());
        }
        let kinds = serde_json::from_slice::<Value>(claims).ok().map(|claims| {
            let kind = |name: &str| match &claims[name] {
                Value::Null => 0,
                Value::String(_) => 1,
                Value::Number(_) => 2,
                Value::Array(_) => 3,
                _ => 4,
            };
            ["iss", "aud", "exp", "nbf", "iat", "tid"].map(kind)
        });
        format!("{results:?}, dots {}, claims {kinds:?}", text.matches('.').count().min(4))
    };
    Target { corpus: "issuer-tokens", vectors: &["fire_tokens.json"], read: Box::new(read) }
}

//! An issuer of identity tokens, played on loopback.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RsaKeyPair,
};
use axum::Router;
use axum::routing::get;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use errand::{Lookup, LookupResult};
use http::StatusCode;
use identity::IssuerSettings;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// The issuer of every test.
pub const ISSUER: &str = "https://login.example";
pub const NOW: i64 = 1_800_000_000;

/// A key of an issuer.
pub enum SigningKey {
    P256(EcdsaKeyPair),
    Rsa(Box<RsaKeyPair>),
}

impl SigningKey {
    pub fn p256() -> Self {
        Self::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
    }

    pub fn rsa() -> Self {
        Self::Rsa(Box::new(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()))
    }

    pub fn jwk(&self, kid: &str) -> Value {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self {
            Self::P256(key) => {
                let point = key.public_key().as_ref();
                json!({ "kty": "EC", "crv": "P-256", "kid": kid, "x": encode(&point[1..33]), "y": encode(&point[33..]) })
            }
            Self::Rsa(key) => {
                // DER of a 2048-bit key: nine bytes before the modulus, and the exponent 65537 after it.
                let modulus = &key.public_key().as_ref()[9..265];
                json!({ "kty": "RSA", "kid": kid, "use": "sig", "n": encode(modulus), "e": "AQAB" })
            }
        }
    }

    pub fn sign(&self, algorithm: &str, text: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::P256(key) => key.sign(&random, text).unwrap().as_ref().to_vec(),
            Self::Rsa(key) => {
                let padding = if algorithm == "RS512" { &RSA_PKCS1_SHA512 } else { &RSA_PKCS1_SHA256 };
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(padding, &random, text, &mut signature).unwrap();
                signature
            }
        }
    }

    pub fn token(&self, header: &Value, claims: &Value) -> String {
        let encode = |json: &Value| URL_SAFE_NO_PAD.encode(json.to_string());
        let signed = format!("{}.{}", encode(header), encode(claims));
        let signature = self.sign(header["alg"].as_str().unwrap_or_default(), signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// Claims that are valid for the tenant acme.
pub fn claims() -> Value {
    json!({ "iss": ISSUER, "aud": "posthouse", "exp": NOW + 300, "iat": NOW, "tid": "acme" })
}

pub fn with(mut claims: Value, name: &str, value: Value) -> Value {
    claims[name] = value;
    claims
}

/// An issuer that publishes its keys on loopback and counts the requests for them.
pub struct Publisher {
    pub url: String,
    pub answer: Arc<Mutex<(StatusCode, String)>>,
    requests: Arc<AtomicUsize>,
}

impl Publisher {
    pub async fn open(keys: &[Value]) -> Self {
        let answer = Arc::new(Mutex::new((StatusCode::OK, json!({ "keys": keys }).to_string())));
        let requests = Arc::new(AtomicUsize::new(0));
        let (published, counted) = (Arc::clone(&answer), Arc::clone(&requests));
        let handler = move || {
            counted.fetch_add(1, Ordering::SeqCst);
            let answer = published.lock().clone();
            async move { answer }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let router = Router::new().route("/keys", get(handler));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, answer, requests }
    }

    pub fn publishes(&self, keys: &[Value]) {
        *self.answer.lock() = (StatusCode::OK, json!({ "keys": keys }).to_string());
    }

    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    pub fn trusted(&self) -> IssuerSettings {
        IssuerSettings { jwks_url: Some(self.url.clone()), ..settings() }
    }
}

pub fn settings() -> IssuerSettings {
    IssuerSettings {
        issuer: ISSUER.to_owned(),
        audience: "posthouse".to_owned(),
        tenant_claim: "tid".to_owned(),
        ..IssuerSettings::default()
    }
}

/// A resolver whose answers change: a public address together with a private one, and then the private one alone.
#[derive(Default)]
pub struct Rebinding(pub AtomicUsize);

impl Lookup for Rebinding {
    fn lookup(&self, _host: &str) -> LookupResult {
        let first = self.0.fetch_add(1, Ordering::SeqCst) == 0;
        let addresses = [[8, 8, 8, 8], [127, 0, 0, 1]].map(IpAddr::from);
        Box::pin(async move { Ok(addresses[usize::from(!first)..].to_vec()) })
    }
}

//! Public keys for token signatures. A key has a fixed set of algorithms of its own kind, so the algorithm
//! that a token names can never make a key do something that it was not made for.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    VerificationAlgorithm,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use super::{CompactToken, decode};

/// The algorithms of the contract. There is no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenAlgorithm {
    Rs256,
    Rs384,
    Rs512,
    Es256,
    Es384,
}

impl TokenAlgorithm {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rs256,
            "RS384" => Self::Rs384,
            "RS512" => Self::Rs512,
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            _ => return None,
        })
    }
}

const RSA: [(TokenAlgorithm, &RsaParameters); 3] = [
    (TokenAlgorithm::Rs256, &RSA_PKCS1_2048_8192_SHA256),
    (TokenAlgorithm::Rs384, &RSA_PKCS1_2048_8192_SHA384),
    (TokenAlgorithm::Rs512, &RSA_PKCS1_2048_8192_SHA512),
];
const P256: (TokenAlgorithm, &dyn VerificationAlgorithm) = (TokenAlgorithm::Es256, &ECDSA_P256_SHA256_FIXED);
const P384: (TokenAlgorithm, &dyn VerificationAlgorithm) = (TokenAlgorithm::Es384, &ECDSA_P384_SHA384_FIXED);

/// Most keys of one set. Further ones are ignored.
const MOST_KEYS: usize = 100;

/// Reason why a configured key cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    #[error("no key source is configured")]
    Missing,
    #[error("the key source is neither an http URL nor a public key in PEM")]
    NotPem,
    #[error("the public key is neither RSA nor EC on P-256 or P-384")]
    Unsuitable,
}

/// The trusted keys. An empty set trusts nothing.
#[derive(Clone, Default)]
pub struct KeySet(PublicKeys);

#[derive(Clone)]
enum PublicKeys {
    Named(Vec<(String, PublicKey)>),
    /// One key, whatever key id a token names.
    Pinned(PublicKey),
}

impl Default for PublicKeys {
    fn default() -> Self {
        Self::Named(Vec::new())
    }
}

/// One public key, parsed once for each algorithm that it can check.
#[derive(Clone, Default)]
struct PublicKey(Vec<(TokenAlgorithm, ParsedPublicKey)>);

/// The relevant fields of a JWK. Other fields are ignored. A wrong type invalidates the key, not the set.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// Parses a key set as a portal publishes it. Keys without an id, and keys that are not for signatures,
    /// are ignored. `None` if the JSON is not a key set.
    pub fn read(json: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        let set: Set = serde_json::from_slice(json).ok()?;
        let mut named = Vec::new();
        let keys = set.keys.into_iter().take(MOST_KEYS);
        for jwk in keys.filter_map(|jwk| serde_json::from_value::<Jwk>(jwk).ok()) {
            if jwk.usage.as_deref().is_some_and(|usage| usage != "sig") {
                continue;
            }
            if let Some(kid) = jwk.kid.clone().filter(|kid| !kid.is_empty()) {
                // The first of two keys with the same id counts, even if its kind cannot check anything.
                named.push((kid, PublicKey::of(&jwk).unwrap_or_default()));
            }
        }
        Some(Self(PublicKeys::Named(named)))
    }

    /// One public key in PEM.
    pub fn pinned(pem: &str) -> Result<Self, BadKey> {
        if pem.trim().is_empty() {
            return Err(BadKey::Missing);
        }
        let key = PublicKey::of_der(&der(pem).ok_or(BadKey::NotPem)?);
        key.map(|key| Self(PublicKeys::Pinned(key))).ok_or(BadKey::Unsuitable)
    }

    /// Whether a token that names this key could be checked.
    pub fn knows(&self, kid: Option<&str>) -> bool {
        self.find(kid).is_some()
    }

    /// Whether any token at all could be checked.
    pub fn has_usable_key(&self) -> bool {
        match &self.0 {
            PublicKeys::Named(keys) => keys.iter().any(|(_, key)| !key.0.is_empty()),
            PublicKeys::Pinned(_) => true,
        }
    }

    /// Whether one of the keys signed the token.
    pub fn signed(&self, token: &CompactToken<'_>) -> bool {
        let key = self.find(token.kid.as_deref());
        key.is_some_and(|key| key.signed(token.algorithm, token.signed, &token.signature))
    }

    fn find(&self, kid: Option<&str>) -> Option<&PublicKey> {
        match &self.0 {
            PublicKeys::Named(keys) => {
                keys.iter().find(|(name, _)| Some(name.as_str()) == kid).map(|(_, key)| key)
            }
            PublicKeys::Pinned(key) => Some(key),
        }
    }
}

impl PublicKey {
    fn of(jwk: &Jwk) -> Option<Self> {
        // A key that names another family of algorithms cannot be used for this one. Stock verifiers do not look
        // at the size of the hash: a key named `RS256` checks `RS384` too.
        let family = |families: &[&str]| match jwk.alg.as_deref() {
            None | Some("") => true,
            Some(name) => families.iter().any(|family| name.starts_with(family)),
        };
        match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) if family(&["RS", "PS"]) => {
                let number = |text: &Option<String>| {
                    let bytes = decode(text.as_deref()?)?;
                    let start = bytes.iter().position(|byte| *byte != 0)?;
                    Some(bytes[start..].to_vec())
                };
                let parts = RsaPublicKeyComponents { n: number(&jwk.n)?, e: number(&jwk.e)? };
                let forms = RSA.map(|(name, params)| Some((name, parts.to_parsed_public_key(params).ok()?)));
                forms.into_iter().collect::<Option<_>>().map(Self)
            }
            ("EC", Some("P-256")) if family(&["ES"]) => Self::of_point(jwk, P256, 32),
            ("EC", Some("P-384")) if family(&["ES"]) => Self::of_point(jwk, P384, 48),
            _ => None,
        }
    }

    fn of_point(
        jwk: &Jwk,
        (name, algorithm): (TokenAlgorithm, &'static dyn VerificationAlgorithm),
        length: usize,
    ) -> Option<Self> {
        let coordinate = |text: &Option<String>| decode(text.as_deref()?).filter(|c| c.len() == length);
        let point = [vec![4], coordinate(&jwk.x)?, coordinate(&jwk.y)?].concat();
        Some(Self(vec![(name, ParsedPublicKey::new(algorithm, point).ok()?)]))
    }

    /// Parses the key by trying each kind.
    fn of_der(der: &[u8]) -> Option<Self> {
        let rsa = RSA.map(|(name, params)| (name, params as &dyn VerificationAlgorithm));
        let kinds = rsa.into_iter().chain([P256, P384]);
        let forms: Vec<_> = kinds
            .filter_map(|(name, algorithm)| Some((name, ParsedPublicKey::new(algorithm, der).ok()?)))
            .collect();
        (!forms.is_empty()).then_some(Self(forms))
    }

    fn signed(&self, algorithm: TokenAlgorithm, message: &[u8], signature: &[u8]) -> bool {
        let form = self.0.iter().find(|(own, _)| *own == algorithm);
        form.is_some_and(|(_, key)| key.verify_sig(message, signature).is_ok())
    }
}

/// The DER content of a PEM.
fn der(pem: &str) -> Option<Vec<u8>> {
    let kinds = ["PUBLIC KEY", "RSA PUBLIC KEY"];
    let body = kinds.iter().find_map(|kind| {
        let (_, rest) = pem.split_once(&format!("-----BEGIN {kind}-----"))?;
        rest.split_once(&format!("-----END {kind}-----")).map(|(body, _)| body)
    })?;
    let text: String = body.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    STANDARD.decode(text).ok()
}

//! Public keys of an issuer. A key checks only the algorithms of its own kind, so the algorithm that a token names can
//! never make a key do something that it was not made for.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    VerificationAlgorithm,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use super::jwt::{JwtAlgorithm, UncheckedJwt, decode};

const RSA: [(JwtAlgorithm, &RsaParameters); 3] = [
    (JwtAlgorithm::Rs256, &RSA_PKCS1_2048_8192_SHA256),
    (JwtAlgorithm::Rs384, &RSA_PKCS1_2048_8192_SHA384),
    (JwtAlgorithm::Rs512, &RSA_PKCS1_2048_8192_SHA512),
];
const P256: (JwtAlgorithm, &dyn VerificationAlgorithm) = (JwtAlgorithm::Es256, &ECDSA_P256_SHA256_FIXED);
const P384: (JwtAlgorithm, &dyn VerificationAlgorithm) = (JwtAlgorithm::Es384, &ECDSA_P384_SHA384_FIXED);

/// Most keys of one issuer. Further ones are ignored.
const MOST_KEYS: usize = 100;

/// The keys of one issuer. An empty set trusts nothing.
#[derive(Clone, Default)]
pub(super) struct IssuerKeys {
    named: Vec<(String, IssuerKey)>,
    /// One key from a file, whatever key id a token names.
    pinned: Option<IssuerKey>,
}

/// One public key, parsed once for each algorithm that it can check.
#[derive(Clone, Default)]
struct IssuerKey(Vec<(JwtAlgorithm, ParsedPublicKey)>);

/// The relevant fields of a JWK. Others are ignored. A wrong type invalidates the key, not the set.
#[derive(Deserialize)]
struct JwkFields {
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

impl IssuerKeys {
    /// Parses a published key set. Keys without an id, and keys that are not for signatures, are ignored. `None` if
    /// the JSON is not a key set.
    pub fn read(json: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        let set: Set = serde_json::from_slice(json).ok()?;
        let keys = set.keys.into_iter().take(MOST_KEYS);
        let mut named: Vec<(String, IssuerKey)> = Vec::new();
        for jwk in keys.filter_map(|jwk| serde_json::from_value::<JwkFields>(jwk).ok()) {
            let signs = jwk.usage.as_deref().is_none_or(|usage| usage == "sig");
            if let Some(kid) = jwk.kid.clone().filter(|kid| signs && !kid.is_empty()) {
                // The first of two keys with the same id counts, even if it cannot check anything.
                named.push((kid, IssuerKey::of(&jwk).unwrap_or_default()));
            }
        }
        Some(Self { named, pinned: None })
    }

    /// Parses the content of a file: a key set, or one public key in PEM. `None` unless it has a usable key.
    pub fn of_file(text: &str) -> Option<Self> {
        if let Some(der) = der(text) {
            return IssuerKey::of_der(&der).map(|key| Self { named: Vec::new(), pinned: Some(key) });
        }
        Self::read(text.as_bytes()).filter(|keys| keys.named.iter().any(|(_, key)| !key.0.is_empty()))
    }

    /// Whether a token that names this key could be checked.
    pub fn knows(&self, kid: Option<&str>) -> bool {
        self.find(kid).is_some()
    }

    /// Whether one of the keys signed the token.
    pub fn signed(&self, token: &UncheckedJwt<'_>) -> bool {
        let key = self.find(token.kid.as_deref());
        let form = key.and_then(|key| key.0.iter().find(|(own, _)| *own == token.algorithm));
        form.is_some_and(|(_, key)| key.verify_sig(token.signed, &token.signature).is_ok())
    }

    fn find(&self, kid: Option<&str>) -> Option<&IssuerKey> {
        let named = self.named.iter().find(|(name, _)| Some(name.as_str()) == kid).map(|(_, key)| key);
        named.or(self.pinned.as_ref())
    }
}

impl IssuerKey {
    fn of(jwk: &JwkFields) -> Option<Self> {
        let forms = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => Self::of_rsa(jwk)?,
            ("EC", Some("P-256")) => Self::of_point(jwk, P256, 32)?,
            ("EC", Some("P-384")) => Self::of_point(jwk, P384, 48)?,
            _ => return None,
        };
        // A key that names its algorithm is for no other.
        let Some(alg) = jwk.alg.as_deref() else { return Some(forms) };
        let only = JwtAlgorithm::named(alg)?;
        Some(Self(forms.0.into_iter().filter(|(own, _)| *own == only).collect()))
    }

    fn of_rsa(jwk: &JwkFields) -> Option<Self> {
        let number = |text: &Option<String>| {
            let bytes = decode(text.as_deref()?)?;
            let start = bytes.iter().position(|byte| *byte != 0)?;
            Some(bytes[start..].to_vec())
        };
        let parts = RsaPublicKeyComponents { n: number(&jwk.n)?, e: number(&jwk.e)? };
        let forms = RSA.map(|(name, params)| Some((name, parts.to_parsed_public_key(params).ok()?)));
        forms.into_iter().collect::<Option<_>>().map(Self)
    }

    fn of_point(
        jwk: &JwkFields,
        (name, algorithm): (JwtAlgorithm, &'static dyn VerificationAlgorithm),
        length: usize,
    ) -> Option<Self> {
        let coordinate = |text: &Option<String>| decode(text.as_deref()?).filter(|c| c.len() == length);
        let point = [vec![4], coordinate(&jwk.x)?, coordinate(&jwk.y)?].concat();
        Some(Self(vec![(name, ParsedPublicKey::new(algorithm, point).ok()?)]))
    }

    /// Parses the key by trying each kind.
    fn of_der(der: &[u8]) -> Option<Self> {
        let rsa = RSA.map(|(name, params)| (name, params as &dyn VerificationAlgorithm));
        let forms: Vec<_> = rsa
            .into_iter()
            .chain([P256, P384])
            .filter_map(|(name, algorithm)| Some((name, ParsedPublicKey::new(algorithm, der).ok()?)))
            .collect();
        (!forms.is_empty()).then_some(Self(forms))
    }
}

/// The DER content of a public key in PEM.
fn der(pem: &str) -> Option<Vec<u8>> {
    let (_, rest) = pem.split_once("-----BEGIN PUBLIC KEY-----")?;
    let (body, _) = rest.split_once("-----END PUBLIC KEY-----")?;
    let text: String = body.chars().filter(|letter| !letter.is_ascii_whitespace()).collect();
    STANDARD.decode(text).ok()
}

//! One private key in memory: it signs compact tokens, and it writes the public half that checks them.
//!
//! Written over aws-lc-rs itself. A general JWT library reads the private key anew for every token,
//! which costs more than the signature, and finds its provider in a process-wide slot; what is needed of
//! it here is one header, two dots and a signature.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use posthouse_wire::Secret;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::Fault;

/// How the house signs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Algorithm {
    /// P-256: small tokens, and by far the faster to sign.
    #[default]
    Es256,
    /// RSA with 2048 bits, for agents that know nothing else.
    Rs256,
}

impl Algorithm {
    pub fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Rs256 => "RS256",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = String;

    /// In any case, as people write it in a configuration.
    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Es256, Self::Rs256]
            .into_iter()
            .find(|algorithm| algorithm.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| format!("`{text}` is neither ES256 nor RS256"))
    }
}

/// A private key, read once.
pub(super) struct Pair {
    key: Key,
    /// The first part of every token it signs.
    header: String,
    /// The public half as a JWK.
    pub(super) jwk: Value,
}

enum Key {
    Es256(EcdsaKeyPair),
    Rs256(RsaKeyPair),
}

/// A fresh private key as PKCS #8. An RSA key takes long enough to be made that it is made beside the
/// threads which everybody waits on.
pub(super) async fn fresh(algorithm: Algorithm) -> Result<Zeroizing<Vec<u8>>, Fault> {
    match algorithm {
        Algorithm::Es256 => {
            let pair =
                EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map_err(|_| Fault::NoRandom)?;
            let der = pair.to_pkcs8v1().map_err(|_| Fault::NoRandom)?;
            Ok(Zeroizing::new(der.as_ref().to_vec()))
        }
        Algorithm::Rs256 => {
            let made = tokio::task::spawn_blocking(|| {
                let pair = RsaKeyPair::generate(KeySize::Rsa2048).map_err(|_| Fault::NoRandom)?;
                let der = pair.as_der().map_err(|_| Fault::NoRandom)?;
                Ok(Zeroizing::new(der.as_ref().to_vec()))
            });
            made.await.map_err(|_| Fault::NoRandom)?
        }
    }
}

impl Pair {
    pub(super) fn read(algorithm: Algorithm, kid: &str, pkcs8: &[u8]) -> Result<Self, Fault> {
        let (key, mut jwk) = match algorithm {
            Algorithm::Es256 => {
                let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8)
                    .map_err(|_| Fault::Broken)?;
                let jwk = ec_jwk(pair.public_key().as_ref()).ok_or(Fault::Broken)?;
                (Key::Es256(pair), jwk)
            }
            Algorithm::Rs256 => {
                let pair = RsaKeyPair::from_pkcs8(pkcs8).map_err(|_| Fault::Broken)?;
                let jwk = rsa_jwk(pair.public_key().as_ref()).ok_or(Fault::Broken)?;
                (Key::Rs256(pair), jwk)
            }
        };
        jwk["kid"] = kid.into();
        jwk["use"] = "sig".into();
        jwk["alg"] = algorithm.name().into();
        let header = json!({ "alg": algorithm.name(), "typ": "JWT", "kid": kid }).to_string();
        Ok(Self { key, header: encode(header.as_bytes()), jwk })
    }

    /// `claims`, a JSON object, as a compact token.
    pub(super) fn sign(&self, claims: &[u8]) -> Result<Secret, Fault> {
        let mut token = format!("{}.{}", self.header, encode(claims));
        let refused = |_| Fault::Unsigned("the key refused");
        let signature = match &self.key {
            Key::Es256(pair) => {
                let signature = pair.sign(&SystemRandom::new(), token.as_bytes()).map_err(refused)?;
                encode(signature.as_ref())
            }
            Key::Rs256(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), token.as_bytes(), &mut signature)
                    .map_err(refused)?;
                encode(&signature)
            }
        };
        token.push('.');
        token.push_str(&signature);
        Ok(Secret::new(token))
    }
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// From an uncompressed point: a 4, then both coordinates.
fn ec_jwk(point: &[u8]) -> Option<Value> {
    let coordinates = point.strip_prefix(&[4]).filter(|coordinates| coordinates.len() == 64)?;
    let (x, y) = coordinates.split_at(32);
    Some(json!({ "kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y) }))
}

/// From DER: a sequence of two integers, the modulus and the exponent.
fn rsa_jwk(der: &[u8]) -> Option<Value> {
    let (sequence, _) = der_value(der, 0x30)?;
    let (modulus, rest) = der_value(sequence, 0x02)?;
    let (exponent, _) = der_value(rest, 0x02)?;
    // DER keeps a zero in front where the number would else read as negative; a JWK does not.
    let bare = |integer: &[u8]| encode(integer.strip_prefix(&[0]).unwrap_or(integer));
    Some(json!({ "kty": "RSA", "n": bare(modulus), "e": bare(exponent) }))
}

/// The contents of the first value, which must have this tag, and what follows it.
fn der_value(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = bytes.strip_prefix(&[tag])?.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        0x81..=0x82 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length - 0x80))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

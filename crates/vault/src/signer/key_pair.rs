//! One signing key pair: signs compact JWTs and gives its public key as a JWK.
//!
//! This uses aws-lc-rs directly. A general JWT library parses the private key for every token, which costs more than
//! the signature, and takes its crypto provider from a process-wide slot. Only a header, two dots and a signature are
//! needed here.

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

/// Signature algorithm of the server's tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Algorithm {
    /// ECDSA with P-256: small tokens, and by far the faster to sign.
    #[default]
    Es256,
    /// RSA with 2048 bits, for agents that support nothing else.
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

    /// Ignores case, because people write either in a configuration.
    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Es256, Self::Rs256]
            .into_iter()
            .find(|algorithm| algorithm.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| format!("`{text}` is neither ES256 nor RS256"))
    }
}

/// A private key, parsed once.
pub(super) struct SigningKeyPair {
    key: PrivateKey,
    /// The encoded header, the first part of every token that it signs.
    header: String,
    /// The public half as a JWK.
    pub(super) jwk: Value,
}

enum PrivateKey {
    Es256(EcdsaKeyPair),
    Rs256(RsaKeyPair),
}

/// Generates a private key as PKCS #8. An RSA key takes so long to generate that it is made on a blocking thread.
pub(super) async fn generate(algorithm: Algorithm) -> Result<Zeroizing<Vec<u8>>, Fault> {
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

impl SigningKeyPair {
    pub(super) fn read(algorithm: Algorithm, kid: &str, pkcs8: &[u8]) -> Result<Self, Fault> {
        let (key, mut jwk) = match algorithm {
            Algorithm::Es256 => {
                let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8)
                    .map_err(|_| Fault::Broken)?;
                let jwk = ec_jwk(pair.public_key().as_ref()).ok_or(Fault::Broken)?;
                (PrivateKey::Es256(pair), jwk)
            }
            Algorithm::Rs256 => {
                let pair = RsaKeyPair::from_pkcs8(pkcs8).map_err(|_| Fault::Broken)?;
                let jwk = rsa_jwk(pair.public_key().as_ref()).ok_or(Fault::Broken)?;
                (PrivateKey::Rs256(pair), jwk)
            }
        };
        jwk["kid"] = kid.into();
        jwk["use"] = "sig".into();
        jwk["alg"] = algorithm.name().into();
        let header = json!({ "alg": algorithm.name(), "typ": "JWT", "kid": kid }).to_string();
        Ok(Self { key, header: encode(header.as_bytes()), jwk })
    }

    /// Signs `claims`, a JSON object, as a compact JWT.
    pub(super) fn sign(&self, claims: &[u8]) -> Result<Secret, Fault> {
        let mut token = format!("{}.{}", self.header, encode(claims));
        let refused = |_| Fault::Unsigned("the signature failed");
        let signature = match &self.key {
            PrivateKey::Es256(pair) => {
                let signature = pair.sign(&SystemRandom::new(), token.as_bytes()).map_err(refused)?;
                encode(signature.as_ref())
            }
            PrivateKey::Rs256(pair) => {
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

/// JWK from an uncompressed point: the byte 4, then both coordinates.
fn ec_jwk(point: &[u8]) -> Option<Value> {
    let coordinates = point.strip_prefix(&[4]).filter(|coordinates| coordinates.len() == 64)?;
    let (x, y) = coordinates.split_at(32);
    Some(json!({ "kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y) }))
}

/// JWK from DER: a sequence of two integers, modulus and exponent.
fn rsa_jwk(der: &[u8]) -> Option<Value> {
    let (sequence, _) = der_value(der, 0x30)?;
    let (modulus, rest) = der_value(sequence, 0x02)?;
    let (exponent, _) = der_value(rest, 0x02)?;
    // DER has a leading zero where the number would otherwise be negative; a JWK does not.
    let bare = |integer: &[u8]| encode(integer.strip_prefix(&[0]).unwrap_or(integer));
    Some(json!({ "kty": "RSA", "n": bare(modulus), "e": bare(exponent) }))
}

/// Splits off the first DER value, which must have this tag. Returns its contents and the rest.
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

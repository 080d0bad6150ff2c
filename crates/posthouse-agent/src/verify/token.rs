//! A compact token taken apart. Nothing in it is believed yet.

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value};

use super::keys::Algorithm;

/// Longer than any token of ours by far, and than what most servers take as a header.
const LONGEST: usize = 16 << 10;

/// As tolerant of padding and left-over bits as the stock reader. The signature covers the text as it
/// stands, so this lets nobody change a token.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

pub(super) struct Token<'a> {
    pub(super) algorithm: Algorithm,
    /// Which key it says signed it.
    pub(super) kid: Option<String>,
    pub(super) claims: Map<String, Value>,
    /// What the signature is over.
    pub(super) signed: &'a [u8],
    pub(super) signature: Vec<u8>,
}

impl<'a> Token<'a> {
    /// Nothing for what is no token, or one that no key could make good.
    pub(super) fn read(text: &'a str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let header = object(header)?;
        let kid = match header.get("kid") {
            None => None,
            Some(Value::String(kid)) => Some(kid.clone()),
            Some(_) => return None,
        };
        if !understood(&header) {
            return None;
        }
        Some(Self {
            algorithm: Algorithm::named(header.get("alg")?.as_str()?)?,
            kid,
            claims: object(claims)?,
            signed: signed.as_bytes(),
            signature: decode(signature)?,
        })
    }
}

/// Whether every extension that the token calls critical is known. The one that is, a payload beside the
/// token, is never in use here.
fn understood(header: &Map<String, Value>) -> bool {
    let known = match header.get("crit") {
        None => true,
        Some(Value::Array(names)) if !names.is_empty() => {
            names.iter().all(|name| name == "b64") && header.contains_key("b64")
        }
        Some(_) => false,
    };
    known && header.get("b64") != Some(&Value::Bool(false))
}

fn object(part: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&decode(part)?).ok()
}

pub(super) fn decode(part: &str) -> Option<Vec<u8>> {
    BASE64.decode(part).ok()
}

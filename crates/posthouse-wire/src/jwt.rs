//! Signed tokens (JWT) and the public keys that check them. A parsed token is not trusted until a key has signed it.

mod keys;

pub use keys::{BadKey, KeySet, TokenAlgorithm};

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value};

/// Much longer than any token of ours, and than most servers accept as a header.
const LONGEST: usize = 16 << 10;

/// Tolerates padding and trailing bits as the stock reader does. The signature covers the text itself, so
/// this does not make a token changeable.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// A parsed token whose signature has not been checked.
pub struct CompactToken<'a> {
    pub algorithm: TokenAlgorithm,
    /// The id of the key that signed it, as the token states it.
    pub kid: Option<String>,
    pub claims: Map<String, Value>,
    /// The bytes that the signature covers.
    pub signed: &'a [u8],
    pub signature: Vec<u8>,
}

impl<'a> CompactToken<'a> {
    /// `None` for a text that is not a token, or one that no key could make valid.
    pub fn read(text: &'a str) -> Option<Self> {
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
            algorithm: TokenAlgorithm::named(header.get("alg")?.as_str()?)?,
            kid,
            claims: object(claims)?,
            signed: signed.as_bytes(),
            signature: decode(signature)?,
        })
    }
}

/// Whether every extension that the token calls critical is known. The only known one, a detached payload,
/// is never used here.
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

fn decode(part: &str) -> Option<Vec<u8>> {
    BASE64.decode(part).ok()
}

//! Verified webhook requests that are forwarded whole to the agent (relay contract section 15).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize};

use crate::id::{BotId, Platform};
use crate::lenient::{each, or_default, words};

/// A forwarded request, already verified and sanitized. Its sender does not wait for an answer of the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forward {
    #[serde(default, deserialize_with = "or_default")]
    pub platform: Platform,
    #[serde(rename = "botId", default = "nameless", deserialize_with = "bot")]
    pub bot_id: BotId,
    #[serde(default, deserialize_with = "or_default")]
    pub method: String,
    #[serde(default, deserialize_with = "or_default")]
    pub path: String,
    #[serde(default, deserialize_with = "headers")]
    pub headers: Vec<(String, String)>,
    /// Base64 of the sanitized bytes.
    #[serde(rename = "bodyB64", default, deserialize_with = "or_default")]
    pub body_b64: String,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

impl Forward {
    /// The sanitized bytes; empty if they are not valid base64.
    pub fn body(&self) -> Vec<u8> {
        STANDARD.decode(&self.body_b64).unwrap_or_default()
    }

    /// Encodes bytes for [`Forward::body_b64`].
    pub fn encoded(body: &[u8]) -> String {
        STANDARD.encode(body)
    }
}

fn nameless() -> BotId {
    BotId::new("")
}

fn bot<'de, D: Deserializer<'de>>(from: D) -> Result<BotId, D::Error> {
    words(from).map(BotId::from)
}

/// Reads headers: only pairs count, and a value may be a number.
fn headers<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, String)>, D::Error> {
    #[derive(Deserialize)]
    struct Header(#[serde(deserialize_with = "words")] String, #[serde(deserialize_with = "words")] String);
    let pairs: Vec<Header> = each(from)?;
    Ok(pairs.into_iter().map(|Header(name, value)| (name, value)).collect())
}

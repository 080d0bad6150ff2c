//! Prompts: the payload of a button, and the answer that a press becomes (relay contract sections 9.1 and 11.2).

use serde::{Deserialize, Serialize};

use crate::id::{MessageId, PromptId, PromptOptionId};
use crate::lenient::or_default;

/// The payload of one button of a prompt: `hp1:<prompt_id>:<option_id>`.
///
/// It proves nothing. Whoever can show buttons can write one, so that a press counts only for a prompt that the server
/// itself has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptToken {
    pub prompt: PromptId,
    pub option: PromptOptionId,
}

/// The longest id of a prompt or an option, in bytes.
const LONGEST_ID: usize = 32;

impl PromptToken {
    /// The longest payload that every platform accepts, in bytes.
    pub const LONGEST: usize = 64;

    /// Reads a payload, also one that is longer than what is written, as stock gateways do. `None` for every other.
    pub fn decode(payload: &str) -> Option<Self> {
        let (prompt, option) = payload.strip_prefix("hp1:")?.split_once(':')?;
        (is_id(prompt) && is_id(option)).then(|| Self { prompt: prompt.into(), option: option.into() })
    }

    /// Writes the payload. `None` if an id has characters that a payload cannot carry, or if it is too long.
    pub fn encode(&self) -> Option<String> {
        let written = format!("hp1:{}:{}", self.prompt, self.option);
        let fits = is_id(self.prompt.as_str()) && is_id(self.option.as_str());
        (fits && written.len() <= Self::LONGEST).then_some(written)
    }
}

fn is_id(text: &str) -> bool {
    (1..=LONGEST_ID).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

/// A pressed button of a prompt. A stock gateway swallows every event that has one, also for a prompt that it never
/// asked, so it must only reach the agent that asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct PromptResponse {
    #[serde(deserialize_with = "or_default")]
    pub prompt_id: String,
    #[serde(deserialize_with = "or_default")]
    pub option_id: String,
    /// The text on the button.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub prompt_message_id: Option<MessageId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_written_as_it_is_read_and_never_longer_than_a_platform_accepts() {
        let token = PromptToken { prompt: "a1b2c3.0011aabb".into(), option: "once".into() };
        assert_eq!(token.encode().as_deref(), Some("hp1:a1b2c3.0011aabb:once"));
        assert_eq!(PromptToken::decode("hp1:a1b2c3.0011aabb:once"), Some(token));
        let long = "x".repeat(30);
        let token = PromptToken { prompt: long.as_str().into(), option: long.as_str().into() };
        assert_eq!(token.encode(), None, "65 bytes");
        let read = PromptToken::decode(&format!("hp1:{long}:{long}"));
        assert_eq!(read, Some(token), "stock gateways read longer ones too");
        for bad in ["", "a b", "ä", "a:b", "a\n"] {
            assert_eq!(PromptToken { prompt: bad.into(), option: "b".into() }.encode(), None, "{bad:?}");
        }
    }
}

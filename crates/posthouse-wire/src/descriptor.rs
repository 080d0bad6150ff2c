//! Capability descriptor of a platform, sent once at the handshake.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::Platform;

/// Version of the contract that this server implements.
pub const CONTRACT_VERSION: u32 = 1;

/// The capability descriptor (relay contract section 8). All nine required fields are always written, because a
/// missing one crashes a stock reader.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Descriptor {
    pub contract_version: u32,
    pub platform: Platform,
    pub label: String,
    pub max_message_length: u32,
    pub supports_draft_streaming: bool,
    pub supports_edit: bool,
    pub supports_threads: bool,
    pub markdown_dialect: String,
    pub len_unit: LenUnit,
    pub emoji: String,
    pub platform_hint: String,
    pub pii_safe: bool,
    pub supports_context: bool,
    /// Scheduled posts can be continued in the channel itself, without a thread. Stock agents read it since 0.20.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub supports_inchannel_continuable: bool,
    /// The agent may send layout hints in `metadata.format_hints`. Stock agents read it since 0.20.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub supports_block_formatting: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub supported_ops: Vec<String>,
}

/// Unit in which a platform counts the length of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LenUnit {
    /// Unicode scalar values.
    Chars,
    /// UTF-16 code units.
    Utf16,
}

impl LenUnit {
    pub fn measure(self, text: &str) -> usize {
        match self {
            LenUnit::Chars => text.chars().count(),
            LenUnit::Utf16 => text.encode_utf16().count(),
        }
    }
}

/// A descriptor that cannot be used: a required field is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("descriptor has no {0}")]
pub struct Incomplete(pub &'static str);

impl Descriptor {
    /// Length limit that a peer assumes when the given one is not a positive number.
    pub const DEFAULT_LENGTH: u32 = 4096;

    /// A descriptor with the contract's defaults for all optional fields.
    pub fn new(platform: impl Into<Platform>, label: &str) -> Self {
        Self {
            contract_version: CONTRACT_VERSION,
            platform: platform.into(),
            label: label.to_owned(),
            max_message_length: Self::DEFAULT_LENGTH,
            supports_draft_streaming: false,
            supports_edit: false,
            supports_threads: false,
            markdown_dialect: "plain".to_owned(),
            len_unit: LenUnit::Chars,
            emoji: "🔌".to_owned(),
            platform_hint: String::new(),
            pii_safe: false,
            supports_context: false,
            supports_inchannel_continuable: false,
            supports_block_formatting: false,
            supported_ops: Vec::new(),
        }
    }

    /// Reads a descriptor object as the contract's own client does. Required fields must be present. Missing optional
    /// fields and invalid values get their defaults. Unknown fields are ignored.
    pub fn read(value: &Value) -> Result<Self, Incomplete> {
        let required = |name: &'static str| value.get(name).ok_or(Incomplete(name));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let flag = |value: &Value| value.as_bool().unwrap_or(false);
        let optional_flag = |name: &str| value.get(name).and_then(Value::as_bool).unwrap_or(false);
        let optional_text = |name: &str| value.get(name).and_then(Value::as_str);
        let version = required("contract_version")?;
        Ok(Self {
            contract_version: version
                .as_u64()
                .and_then(|v| u32::try_from(v).ok())
                .unwrap_or(CONTRACT_VERSION),
            platform: Platform::from(text(required("platform")?)),
            label: text(required("label")?),
            max_message_length: length(required("max_message_length")?),
            supports_draft_streaming: flag(required("supports_draft_streaming")?),
            supports_edit: flag(required("supports_edit")?),
            supports_threads: flag(required("supports_threads")?),
            markdown_dialect: text(required("markdown_dialect")?),
            len_unit: match required("len_unit")?.as_str() {
                Some("utf16") => LenUnit::Utf16,
                _ => LenUnit::Chars,
            },
            emoji: optional_text("emoji").unwrap_or("🔌").to_owned(),
            platform_hint: optional_text("platform_hint").unwrap_or_default().to_owned(),
            pii_safe: optional_flag("pii_safe"),
            supports_context: optional_flag("supports_context"),
            supports_inchannel_continuable: optional_flag("supports_inchannel_continuable"),
            supports_block_formatting: optional_flag("supports_block_formatting"),
            supported_ops: value
                .get("supported_ops")
                .and_then(Value::as_array)
                .map(|ops| ops.iter().filter_map(Value::as_str).map(str::to_owned).collect())
                .unwrap_or_default(),
        })
    }

    /// Whether an agent may use this op. An empty list means the first four ops of the contract.
    pub fn supports_op(&self, op: &str) -> bool {
        if self.supported_ops.is_empty() {
            return ["send", "edit", "typing", "follow_up"].contains(&op);
        }
        self.supported_ops.iter().any(|supported| supported == op)
    }

    pub fn supports_code_blocks(&self) -> bool {
        !matches!(self.markdown_dialect.as_str(), "" | "plain")
    }
}

/// Reads a length. Zero, negative and invalid values mean the default.
fn length(value: &Value) -> u32 {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Bool(true) => Some(1.0),
        _ => None,
    };
    match number {
        // Truncated as the peer does; a value out of range saturates.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked to be at least one"
        )]
        Some(number) if number >= 1.0 => number as u32,
        _ => Descriptor::DEFAULT_LENGTH,
    }
}

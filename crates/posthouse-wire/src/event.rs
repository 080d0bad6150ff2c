//! Normalized inbound events: message, source, attachments, nearby messages and quotes.

mod deliverable;
mod json;
mod source;

pub use deliverable::{DeliverableEvent, Undeliverable};
pub use source::Source;

use serde::{Deserialize, Serialize};

use crate::delivery::Posted;
use crate::id::{BotId, MessageId, UserId};
use crate::lenient::{each, each_object, object_or_default, or_default, words};
use crate::prompt::PromptResponse;

/// One inbound event, as in an `inbound` frame (relay contract section 9.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
pub struct Event {
    #[serde(default, deserialize_with = "or_default")]
    pub text: String,
    #[serde(default, deserialize_with = "or_default")]
    pub message_type: MessageType,
    #[serde(default = "source::unsaid", deserialize_with = "source::or_unsaid")]
    pub source: Source,
    #[serde(default, deserialize_with = "or_default")]
    pub message_id: Option<MessageId>,
    #[serde(default, deserialize_with = "or_default")]
    pub reply_to_message_id: Option<MessageId>,
    /// URLs that the agent can open; never the platform's own.
    #[serde(default, deserialize_with = "each")]
    pub media_urls: Vec<String>,
    #[serde(default, deserialize_with = "each_object", skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<Media>,
    /// Nearby messages for context, oldest first. They trigger nothing.
    #[serde(default, deserialize_with = "each_object", skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<ContextLine>,
    #[serde(default, deserialize_with = "object_or_default", skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<Quoted>,
    /// The button that was pressed. Only for the agent that asked.
    #[serde(default, deserialize_with = "object_or_default", skip_serializing_if = "Option::is_none")]
    pub prompt_response: Option<Box<PromptResponse>>,
    /// The bot that received it. A separate field, because one tenant can have several bots.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub bot_id: Option<BotId>,
    /// Time when the server accepted it, in RFC 3339.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub received_at: Option<String>,
    /// Present if the event came from a program.
    #[serde(default, deserialize_with = "object_or_default", skip_serializing_if = "Option::is_none")]
    pub post: Option<Box<Posted>>,
}

impl Event {
    /// The command at the start of the text, read as gateways do: `/Stop@MyBot now` is `stop`. `None` for other
    /// texts, and for a text that looks like a path.
    pub fn command(&self) -> Option<String> {
        let word = self.text.strip_prefix('/')?.split_whitespace().next().unwrap_or_default();
        let name = word.split('@').next().unwrap_or_default();
        (!name.contains('/')).then(|| name.to_lowercase())
    }
}

/// Type of a message. Any other word reads as `text`, as it does for peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum MessageType {
    Photo,
    Video,
    Audio,
    Voice,
    Document,
    Sticker,
    Command,
    Location,
    #[default]
    #[serde(other)]
    Text,
}

/// Description of an attachment. `url` equals one of the event's `media_urls`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Media {
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    #[serde(deserialize_with = "or_default")]
    pub mime: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub size: Option<u64>,
    #[serde(deserialize_with = "or_default")]
    pub filename: Option<String>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub caption: Option<String>,
}

/// One nearby message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct ContextLine {
    #[serde(deserialize_with = "words")]
    pub text: String,
    #[serde(deserialize_with = "object_or_default")]
    pub source: Speaker,
}

/// Author of a nearby message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Speaker {
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
}

/// The quoted message, as far as the platform's event contains it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Quoted {
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub is_own: Option<bool>,
}

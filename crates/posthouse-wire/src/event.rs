//! What an agent is told: a normalized event and where it came from.

mod deliverable;
mod source;

pub use deliverable::Undeliverable;
pub use source::Source;

use serde::{Deserialize, Serialize};

use crate::delivery::Posted;
use crate::id::{BotId, MessageId, UserId};
use crate::lenient::{each, each_object, object_or_default, or_default, words};

/// One inbound event, as it stands in an `inbound` frame (relay contract section 9.1).
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
    /// Handles that the agent can open; never a platform's own address.
    #[serde(default, deserialize_with = "each")]
    pub media_urls: Vec<String>,
    #[serde(default, deserialize_with = "each_object", skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<Media>,
    /// Read-only lines said nearby, oldest first. They trigger nothing.
    #[serde(default, deserialize_with = "each_object", skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<ContextLine>,
    #[serde(default, deserialize_with = "object_or_default", skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<Quoted>,
    /// Which bot identity brought it: a field of its own, since a tenant is not a bot.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub bot_id: Option<BotId>,
    /// When the house took it, RFC 3339.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub received_at: Option<String>,
    /// There when a program brought it.
    #[serde(default, deserialize_with = "object_or_default", skip_serializing_if = "Option::is_none")]
    pub post: Option<Box<Posted>>,
}

impl Event {
    /// The command that the text begins with, as gateways read it: `/Stop@MyBot now` is `stop`. Nothing for
    /// other texts and for what looks like a path.
    pub fn command(&self) -> Option<String> {
        let word = self.text.strip_prefix('/')?.split_whitespace().next().unwrap_or_default();
        let name = word.split('@').next().unwrap_or_default();
        (!name.contains('/')).then(|| name.to_lowercase())
    }
}

/// What kind of message it is. Peers read any other word as `text`, and so do we.
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

/// An attachment, described. `url` equals one of the event's `media_urls`.
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

/// Who said a nearby message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Speaker {
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
}

/// What was quoted, as far as the platform's own delivery told.
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

//! Source of an event: platform, chat, person and thread.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::id::{ChatId, MessageId, Platform, ScopeId, ThreadId, UserId};
use crate::lenient::{nonzero, object, or_default};

/// Source of an event (section 9.2). The first eight keys are always written, even if null. The scope is written
/// under both of its names.
#[derive(Clone, Debug, PartialEq, Deserialize, Default)]
#[serde(from = "SourceAsRead")]
pub struct Source {
    pub platform: Platform,
    pub chat_id: Option<ChatId>,
    /// `dm`, `group`, `channel`, `thread`, `forum` or another word. It is part of the session key.
    pub chat_type: String,
    pub chat_name: Option<String>,
    pub user_id: Option<UserId>,
    pub user_name: Option<String>,
    pub thread_id: Option<ThreadId>,
    pub chat_topic: Option<String>,
    pub user_id_alt: Option<UserId>,
    pub chat_id_alt: Option<ChatId>,
    pub scope_id: Option<ScopeId>,
    pub parent_chat_id: Option<ChatId>,
    pub message_id: Option<MessageId>,
    /// Target profile of a gateway that hosts several.
    pub profile: Option<String>,
    /// The thread that an answer will open. Newer gateways use it in the session key.
    pub prospective_thread_id: Option<ThreadId>,
}

/// Source of an event that has none, read as peers do: a direct conversation without chat and person.
pub(super) fn unsaid() -> Source {
    Source::from(SourceAsRead::default())
}

pub(super) fn or_unsaid<'de, D: Deserializer<'de>>(from: D) -> Result<Source, D::Error> {
    let raw = Box::<RawValue>::deserialize(from)?;
    Ok(object(Some(&raw)).unwrap_or_else(unsaid))
}

/// Order and presence of the keys match the contract's own writer.
#[derive(Serialize)]
struct SourceAsWritten<'a> {
    platform: &'a Platform,
    chat_id: Option<&'a ChatId>,
    chat_type: &'a str,
    chat_name: Option<&'a str>,
    user_id: Option<&'a UserId>,
    user_name: Option<&'a str>,
    thread_id: Option<&'a ThreadId>,
    chat_topic: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id_alt: Option<&'a UserId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chat_id_alt: Option<&'a ChatId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope_id: Option<&'a ScopeId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    guild_id: Option<&'a ScopeId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_chat_id: Option<&'a ChatId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<&'a MessageId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prospective_thread_id: Option<&'a ThreadId>,
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        SourceAsWritten {
            platform: &self.platform,
            chat_id: self.chat_id.as_ref(),
            chat_type: &self.chat_type,
            chat_name: self.chat_name.as_deref(),
            user_id: self.user_id.as_ref(),
            user_name: self.user_name.as_deref(),
            thread_id: self.thread_id.as_ref(),
            chat_topic: self.chat_topic.as_deref(),
            user_id_alt: self.user_id_alt.as_ref(),
            chat_id_alt: self.chat_id_alt.as_ref(),
            scope_id: self.scope_id.as_ref(),
            guild_id: self.scope_id.as_ref(),
            parent_chat_id: self.parent_chat_id.as_ref(),
            message_id: self.message_id.as_ref(),
            profile: self.profile.as_deref(),
            prospective_thread_id: self.prospective_thread_id.as_ref(),
        }
        .serialize(to)
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct SourceAsRead {
    #[serde(deserialize_with = "or_default")]
    platform: Platform,
    #[serde(deserialize_with = "or_default")]
    chat_id: Option<ChatId>,
    #[serde(deserialize_with = "or_default")]
    chat_type: Option<String>,
    #[serde(deserialize_with = "or_default")]
    chat_name: Option<String>,
    #[serde(deserialize_with = "or_default")]
    user_id: Option<UserId>,
    #[serde(deserialize_with = "or_default")]
    user_name: Option<String>,
    #[serde(deserialize_with = "nonzero")]
    thread_id: Option<ThreadId>,
    #[serde(deserialize_with = "or_default")]
    chat_topic: Option<String>,
    #[serde(deserialize_with = "or_default")]
    user_id_alt: Option<UserId>,
    #[serde(deserialize_with = "or_default")]
    chat_id_alt: Option<ChatId>,
    #[serde(deserialize_with = "or_default")]
    scope_id: Option<ScopeId>,
    #[serde(deserialize_with = "or_default")]
    guild_id: Option<ScopeId>,
    #[serde(deserialize_with = "or_default")]
    parent_chat_id: Option<ChatId>,
    #[serde(deserialize_with = "or_default")]
    message_id: Option<MessageId>,
    #[serde(deserialize_with = "or_default")]
    profile: Option<String>,
    #[serde(deserialize_with = "or_default")]
    prospective_thread_id: Option<ThreadId>,
}

impl From<SourceAsRead> for Source {
    fn from(read: SourceAsRead) -> Self {
        Self {
            platform: read.platform,
            chat_id: read.chat_id,
            // The peers read a missing chat type as a direct conversation.
            chat_type: read.chat_type.unwrap_or_else(|| "dm".to_owned()),
            chat_name: read.chat_name,
            user_id: read.user_id,
            user_name: read.user_name,
            thread_id: read.thread_id,
            chat_topic: read.chat_topic,
            user_id_alt: read.user_id_alt,
            chat_id_alt: read.chat_id_alt,
            // The original contract text says `guild_id`; every running peer says `scope_id`.
            scope_id: read.scope_id.or(read.guild_id),
            parent_chat_id: read.parent_chat_id,
            message_id: read.message_id,
            profile: read.profile,
            prospective_thread_id: read.prospective_thread_id,
        }
    }
}

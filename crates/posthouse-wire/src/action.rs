//! Outbound actions of agents, such as sending a message, and their results.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::id::{CapabilityKind, ChatId, CorrelationId, MessageId, ScopeId, SessionKey, ThreadId, UserId};
use crate::lenient::{field, object, object_or_default, or_default};

/// An outbound action (relay contract section 11.2). An op that this server does not support keeps its name, so
/// that the refusal can name it.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Send {
        chat_id: ChatId,
        content: String,
        reply_to: Option<MessageId>,
        metadata: Metadata,
    },
    Edit {
        chat_id: ChatId,
        message_id: MessageId,
        content: String,
        metadata: Metadata,
    },
    Typing {
        chat_id: ChatId,
        content: Option<String>,
        metadata: Metadata,
    },
    FollowUp {
        session_key: SessionKey,
        kind: CapabilityKind,
        content: String,
        metadata: Metadata,
    },
    GetChatInfo {
        chat_id: ChatId,
    },
    /// An unknown op, or a known one without a required field.
    Unsupported {
        op: String,
        missing: Option<&'static str>,
    },
}

/// Hints that accompany an action. None of them is trusted.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub scope_id: Option<ScopeId>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub guild_id: Option<ScopeId>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<ThreadId>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub notify: Option<bool>,
    /// Set by stock agents on the first message of an answer that they edit while they write it.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub expect_edits: Option<bool>,
    /// Correlation id of the program's question that this answers.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<CorrelationId>,
    /// The agent's profile, as the event had it. It is a hint: permission follows the chat.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

impl Metadata {
    /// The scope, under either of its two names.
    pub fn scope(&self) -> Option<&ScopeId> {
        self.scope_id.as_ref().or(self.guild_id.as_ref())
    }
}

impl Action {
    /// The ops that [`Action`] supports, for `supported_ops`.
    pub const OPS: [&'static str; 5] = ["send", "edit", "typing", "follow_up", "get_chat_info"];

    pub fn op(&self) -> &str {
        match self {
            Action::Send { .. } => "send",
            Action::Edit { .. } => "edit",
            Action::Typing { .. } => "typing",
            Action::FollowUp { .. } => "follow_up",
            Action::GetChatInfo { .. } => "get_chat_info",
            Action::Unsupported { op, .. } => op,
        }
    }

    /// The chat that the action names. A follow-up names a session instead.
    pub fn chat_id(&self) -> Option<&ChatId> {
        match self {
            Action::Send { chat_id, .. }
            | Action::Edit { chat_id, .. }
            | Action::Typing { chat_id, .. }
            | Action::GetChatInfo { chat_id } => Some(chat_id),
            Action::FollowUp { .. } | Action::Unsupported { .. } => None,
        }
    }

    pub fn metadata(&self) -> Option<&Metadata> {
        match self {
            Action::Send { metadata, .. }
            | Action::Edit { metadata, .. }
            | Action::Typing { metadata, .. }
            | Action::FollowUp { metadata, .. } => Some(metadata),
            Action::GetChatInfo { .. } | Action::Unsupported { .. } => None,
        }
    }

    /// Reads an action object. An optional field of a wrong type reads as absent.
    pub fn read(raw: &RawValue) -> Action {
        let text = Some(raw.get()).filter(|text| text.starts_with('{'));
        let read: ActionAsRead<'_> = match text.map(serde_json::from_str) {
            Some(Ok(read)) => read,
            _ => return Action::Unsupported { op: String::new(), missing: Some("op") },
        };
        let op: String = field(read.op).unwrap_or_default();
        let metadata = object(read.metadata).unwrap_or_default();
        let content = field::<String>(read.content);
        let missing = |name| Action::Unsupported { op: op.clone(), missing: Some(name) };
        let chat_id = field::<ChatId>(read.chat_id).filter(|chat| !chat.is_empty());
        match op.as_str() {
            "send" => match (chat_id, content) {
                (Some(chat_id), Some(content)) => {
                    Action::Send { chat_id, content, reply_to: field(read.reply_to), metadata }
                }
                (None, _) => missing("chat_id"),
                (_, None) => missing("content"),
            },
            "edit" => match (chat_id, field(read.message_id), content) {
                (Some(chat_id), Some(message_id), Some(content)) => {
                    Action::Edit { chat_id, message_id, content, metadata }
                }
                (None, ..) => missing("chat_id"),
                (_, None, _) => missing("message_id"),
                (.., None) => missing("content"),
            },
            "typing" => match chat_id {
                Some(chat_id) => Action::Typing { chat_id, content, metadata },
                None => missing("chat_id"),
            },
            "follow_up" => match (field(read.session_key), field(read.kind), content) {
                (Some(session_key), Some(kind), Some(content)) => {
                    Action::FollowUp { session_key, kind, content, metadata }
                }
                (None, ..) => missing("session_key"),
                (_, None, _) => missing("kind"),
                (.., None) => missing("content"),
            },
            "get_chat_info" => match chat_id {
                Some(chat_id) => Action::GetChatInfo { chat_id },
                None => missing("chat_id"),
            },
            _ => Action::Unsupported { op, missing: None },
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ActionAsRead<'a> {
    #[serde(borrow)]
    op: Option<&'a RawValue>,
    #[serde(borrow)]
    chat_id: Option<&'a RawValue>,
    #[serde(borrow)]
    message_id: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    reply_to: Option<&'a RawValue>,
    #[serde(borrow)]
    session_key: Option<&'a RawValue>,
    #[serde(borrow)]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

/// Used by SDK agents. Writes the object that [`Action::read`] reads.
impl Serialize for Action {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("op", self.op())?;
        if let Some(chat_id) = self.chat_id() {
            map.serialize_entry("chat_id", chat_id)?;
        }
        match self {
            Action::Send { content, reply_to, .. } => {
                map.serialize_entry("content", content)?;
                if let Some(reply_to) = reply_to {
                    map.serialize_entry("reply_to", reply_to)?;
                }
            }
            Action::Edit { message_id, content, .. } => {
                map.serialize_entry("message_id", message_id)?;
                map.serialize_entry("content", content)?;
            }
            Action::Typing { content: Some(content), .. } => map.serialize_entry("content", content)?,
            Action::FollowUp { session_key, kind, content, .. } => {
                map.serialize_entry("session_key", session_key)?;
                map.serialize_entry("kind", kind)?;
                map.serialize_entry("content", content)?;
            }
            Action::Typing { content: None, .. }
            | Action::GetChatInfo { .. }
            | Action::Unsupported { .. } => {}
        }
        if let Some(metadata) = self.metadata().filter(|metadata| **metadata != Metadata::default()) {
            map.serialize_entry("metadata", metadata)?;
        }
        map.end()
    }
}

/// The `result` of an `outbound_result` frame. It reports only what has really happened.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Outcome {
    #[serde(deserialize_with = "or_default")]
    pub success: bool,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    #[serde(deserialize_with = "object_or_default", skip_serializing_if = "Option::is_none")]
    pub chat_info: Option<ChatInfo>,
}

/// Answer to `get_chat_info`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChatInfo {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
}

impl Outcome {
    pub fn done() -> Self {
        Self { success: true, ..Self::default() }
    }

    pub fn sent(message_id: MessageId) -> Self {
        Self { success: true, message_id: Some(message_id), ..Self::default() }
    }

    pub fn info(chat_info: ChatInfo) -> Self {
        Self { success: true, chat_info: Some(chat_info), ..Self::default() }
    }

    pub fn failed(error: impl Into<String>) -> Self {
        Self { error: Some(error.into()), ..Self::default() }
    }

    /// The same answer for every destination that the stored records do not allow, so that it does not reveal who
    /// owns the destination.
    pub fn egress_declined(platform: &str) -> Self {
        Self {
            code: Some("egress_declined".to_owned()),
            error: Some(format!("{platform} egress declined: destination not approved")),
            ..Self::default()
        }
    }
}

//! Outbound actions of agents, such as sending a message, and their results.

mod fields;
mod outcome;
mod read;
mod write;

pub use fields::{MediaKind, PromptKind, PromptOption, PromptStyle, RenameGuard};
pub use outcome::{ChatInfo, Outcome};
pub use read::ActionFault;

use serde::{Deserialize, Serialize};

use crate::id::{
    CapabilityKind, ChatId, CorrelationId, MessageId, PromptId, ScopeId, SessionKey, ThreadId, UserId,
};
use crate::lenient::or_default;

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
    SendMedia {
        chat_id: ChatId,
        media_kind: MediaKind,
        /// An upload on this server, or a public URL.
        source_url: String,
        /// The caption.
        content: Option<String>,
        filename: Option<String>,
        reply_to: Option<MessageId>,
        metadata: Metadata,
    },
    /// A question with buttons.
    Prompt {
        chat_id: ChatId,
        prompt_kind: PromptKind,
        prompt_id: PromptId,
        content: String,
        options: Vec<PromptOption>,
        reply_to: Option<MessageId>,
        metadata: Metadata,
    },
    React {
        chat_id: ChatId,
        message_id: MessageId,
        emoji: String,
        remove: bool,
        metadata: Metadata,
    },
    ThreadCreate {
        chat_id: ChatId,
        thread_name: String,
        /// The message under which the thread begins. Without it the thread belongs to the chat.
        message_id: Option<MessageId>,
        metadata: Metadata,
    },
    ThreadRename {
        chat_id: ChatId,
        thread_id: ThreadId,
        thread_name: String,
        guard: RenameGuard,
        metadata: Metadata,
    },
    /// A preview of an answer that is still being written.
    Draft {
        chat_id: ChatId,
        draft_id: i64,
        content: String,
        is_final: bool,
        metadata: Metadata,
    },
    /// An unknown op, or a known one with a missing or wrong field.
    Unsupported {
        op: String,
        fault: Option<ActionFault>,
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
    /// All ops that [`Action`] can read. Each platform lists those that it carries out in its `supported_ops`.
    pub const OPS: [&'static str; 11] = [
        "send",
        "edit",
        "typing",
        "follow_up",
        "get_chat_info",
        "send_media",
        "prompt",
        "react",
        "thread_create",
        "thread_rename",
        "draft",
    ];

    pub fn op(&self) -> &str {
        match self {
            Action::Send { .. } => "send",
            Action::Edit { .. } => "edit",
            Action::Typing { .. } => "typing",
            Action::FollowUp { .. } => "follow_up",
            Action::GetChatInfo { .. } => "get_chat_info",
            Action::SendMedia { .. } => "send_media",
            Action::Prompt { .. } => "prompt",
            Action::React { .. } => "react",
            Action::ThreadCreate { .. } => "thread_create",
            Action::ThreadRename { .. } => "thread_rename",
            Action::Draft { .. } => "draft",
            Action::Unsupported { op, .. } => op,
        }
    }

    /// The chat that the action names. A follow-up names a session instead.
    pub fn chat_id(&self) -> Option<&ChatId> {
        match self {
            Action::Send { chat_id, .. }
            | Action::Edit { chat_id, .. }
            | Action::Typing { chat_id, .. }
            | Action::GetChatInfo { chat_id }
            | Action::SendMedia { chat_id, .. }
            | Action::Prompt { chat_id, .. }
            | Action::React { chat_id, .. }
            | Action::ThreadCreate { chat_id, .. }
            | Action::ThreadRename { chat_id, .. }
            | Action::Draft { chat_id, .. } => Some(chat_id),
            Action::FollowUp { .. } | Action::Unsupported { .. } => None,
        }
    }

    pub fn metadata(&self) -> Option<&Metadata> {
        match self {
            Action::Send { metadata, .. }
            | Action::Edit { metadata, .. }
            | Action::Typing { metadata, .. }
            | Action::FollowUp { metadata, .. }
            | Action::SendMedia { metadata, .. }
            | Action::Prompt { metadata, .. }
            | Action::React { metadata, .. }
            | Action::ThreadCreate { metadata, .. }
            | Action::ThreadRename { metadata, .. }
            | Action::Draft { metadata, .. } => Some(metadata),
            Action::GetChatInfo { .. } | Action::Unsupported { .. } => None,
        }
    }

    /// The text that people see: a message, a caption or a question.
    pub fn content(&self) -> Option<&str> {
        match self {
            Action::Send { content, .. }
            | Action::Edit { content, .. }
            | Action::FollowUp { content, .. }
            | Action::Prompt { content, .. }
            | Action::Draft { content, .. } => Some(content),
            Action::Typing { content, .. } | Action::SendMedia { content, .. } => content.as_deref(),
            Action::GetChatInfo { .. }
            | Action::React { .. }
            | Action::ThreadCreate { .. }
            | Action::ThreadRename { .. }
            | Action::Unsupported { .. } => None,
        }
    }

    /// The message that the action replies to.
    pub fn reply_to(&self) -> Option<&MessageId> {
        match self {
            Action::Send { reply_to, .. }
            | Action::SendMedia { reply_to, .. }
            | Action::Prompt { reply_to, .. } => reply_to.as_ref(),
            _ => None,
        }
    }
}

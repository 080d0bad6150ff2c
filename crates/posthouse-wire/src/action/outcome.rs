//! Results of actions, as an agent gets them.

use serde::{Deserialize, Serialize};

use crate::id::{MessageId, ThreadId};
use crate::lenient::{object_or_default, or_default};

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
    /// The thread that the action created.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<ThreadId>,
    /// The name of a thread that the server itself opened for a `send`. Set only together with `thread_id`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub auto_thread_name: Option<String>,
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

    pub fn thread(thread_id: ThreadId) -> Self {
        Self { success: true, thread_id: Some(thread_id), ..Self::default() }
    }

    pub fn failed(error: impl Into<String>) -> Self {
        Self { error: Some(error.into()), ..Self::default() }
    }

    /// The answer to an op that does not exist or that the platform does not carry out.
    pub fn unsupported(op: &str) -> Self {
        Self::failed(format!("unsupported op: {op}"))
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

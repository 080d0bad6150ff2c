//! States of a receipt, and kinds of replies to it.

use serde::{Deserialize, Serialize};

/// State of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptState {
    Scheduled,
    Queued,
    Delivered,
    Acknowledged,
    Failed,
    /// The agent did not take it in time.
    Expired,
}

impl ReceiptState {
    pub const ALL: [ReceiptState; 6] = [
        ReceiptState::Scheduled,
        ReceiptState::Queued,
        ReceiptState::Delivered,
        ReceiptState::Acknowledged,
        ReceiptState::Failed,
        ReceiptState::Expired,
    ];

    pub fn word(self) -> &'static str {
        match self {
            ReceiptState::Scheduled => "scheduled",
            ReceiptState::Queued => "queued",
            ReceiptState::Delivered => "delivered",
            ReceiptState::Acknowledged => "acknowledged",
            ReceiptState::Failed => "failed",
            ReceiptState::Expired => "expired",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }
}

/// Kind of an agent's message that is stored with a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyKind {
    /// The answer to a question.
    Answer,
    /// A further answer after the first.
    Duplicate,
    /// An answer after the deadline.
    LateReply,
    /// Any other message.
    #[serde(other)]
    Said,
}

impl ReplyKind {
    pub fn word(self) -> &'static str {
        match self {
            ReplyKind::Answer => "answer",
            ReplyKind::Duplicate => "duplicate",
            ReplyKind::LateReply => "late_reply",
            ReplyKind::Said => "said",
        }
    }
}

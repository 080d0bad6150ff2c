//! How far a delivery has come, and what an utterance is to it.

use serde::{Deserialize, Serialize};

/// How far a delivery has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptState {
    Scheduled,
    Queued,
    Delivered,
    Acknowledged,
    Failed,
    /// Nobody came for it.
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

/// What something that an agent said is to the receipt that it is kept with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyKind {
    /// The answer to a question.
    Answer,
    /// An answer after the answer.
    Duplicate,
    /// An answer after the deadline.
    LateReply,
    /// Talk.
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

//! Deliveries of programs to agents, and their receipts (agent connector contract, 1.0).

mod fault;
mod payload;
mod receipt;
mod record;

pub use fault::{Cause, DeliveryFailed};
pub use payload::{Meta, Payload, PayloadKind, PayloadOrigin, TriggerKind, is_dispatch_id};
pub use receipt::{AgentDescriptor, AgentStatus, DeliveryReceipt, Response, WakeOpts, WakeReceipt, WakeTime};
pub use record::{ReceiptState, ReplyKind};

use serde::{Deserialize, Serialize};

use crate::lenient::or_default;

/// Details of an event that came from a program (`post` on the event). The SDK reads it, stock agents ignore it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Posted {
    pub kind: PayloadKind,
    /// Absent for a wake, which has no envelope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
    /// A program waits for an answer with the correlation id in `meta`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub expects_reply: bool,
    /// Prefix of the event's text for agents that cannot read this object. An agent that can removes it.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub preamble: Option<String>,
}

impl Posted {
    /// The program's text: the text of the event without the preamble.
    pub fn unwrap<'t>(&self, text: &'t str) -> &'t str {
        self.preamble.as_deref().and_then(|preamble| text.strip_prefix(preamble)).unwrap_or(text)
    }
}

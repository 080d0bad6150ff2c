//! What programs hand to an agent, and what they hear about it (agent connector contract, 1.0).

mod fault;
mod payload;
mod receipt;
mod record;

pub use fault::{Cause, DeliveryFailed};
pub use payload::{Kind, Meta, Origin, Payload, TriggerKind, is_dispatch_id};
pub use receipt::{AgentDescriptor, AgentStatus, DeliveryReceipt, Response, WakeOpts, WakeReceipt, When};
pub use record::{ReceiptState, ReplyKind};

use serde::{Deserialize, Serialize};

use crate::lenient::or_default;

/// What rides beside an event that a program brought (`post` on the event): our SDK reads it, stock
/// agents ignore it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Posted {
    pub kind: Kind,
    /// Absent for a wake, which has no envelope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
    /// Somebody waits for an answer under the meta's correlation id.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub expects_reply: bool,
    /// What the event's text begins with for agents that cannot read this object. An agent that can takes
    /// it off again.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub preamble: Option<String>,
}

impl Posted {
    /// The text as the program wrote it, out of the event's.
    pub fn unwrap<'t>(&self, text: &'t str) -> &'t str {
        self.preamble.as_deref().and_then(|preamble| text.strip_prefix(preamble)).unwrap_or(text)
    }
}

//! What programs ask of the post, and what they hear.

use std::time::Duration;

use ledger::{Exchange, Receipt, ReceiptKey, ReceiptState, Reply};
use posthouse_time::Moment;
use posthouse_wire::delivery::{
    AgentStatus, DeliveryReceipt, Kind, Payload, Response, TriggerKind, WakeReceipt, When,
};
use posthouse_wire::{CorrelationId, DispatchId};

/// How long one call waits at most.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long a question may stay open.
pub const LONGEST_TIMEOUT: Duration = Duration::from_secs(3600);

/// Tell an agent something, by every connector that knows it.
#[derive(Clone, Debug)]
pub struct Notify {
    /// `agent` delivers, `agent@session` wakes.
    pub agent: String,
    pub message: String,
    pub kind: Kind,
    pub event_type: Option<String>,
    pub correlation_id: Option<CorrelationId>,
    /// Only these, if any are named.
    pub connectors: Option<Vec<String>>,
    /// Who it is from, as the envelope says; nothing: the caller's own name.
    pub from: Option<String>,
    pub trigger_kind: Option<TriggerKind>,
    /// The same id again is the same message again. Nothing: a fresh one.
    pub dispatch_id: Option<DispatchId>,
    /// How long a wake waits to be taken.
    pub wait: Option<Duration>,
}

/// Hand over a complete envelope.
#[derive(Clone, Debug)]
pub struct Deliver {
    pub agent: String,
    pub payload: Payload,
    pub connectors: Option<Vec<String>>,
}

/// Get an agent's attention.
#[derive(Clone, Debug)]
pub struct Wake {
    /// `agent` or `agent@session`.
    pub agent: String,
    pub context: Option<String>,
    pub when: When,
    /// Beats a session in the address.
    pub session_id: Option<String>,
    pub connectors: Option<Vec<String>>,
    pub from: Option<String>,
    pub dispatch_id: Option<DispatchId>,
    pub wait: Option<Duration>,
}

/// Ask an agent, and wait for its answer.
#[derive(Clone, Debug)]
pub struct Ask {
    pub agent: String,
    pub message: String,
    pub timeout: Option<Duration>,
    pub correlation_id: Option<CorrelationId>,
    pub event_type: Option<String>,
    pub connectors: Option<Vec<String>>,
    pub from: Option<String>,
    pub trigger_kind: Option<TriggerKind>,
    /// How long this call waits; the question stays open longer.
    pub wait: Option<Duration>,
}

/// What a notify came to. Nobody knowing the agent is an empty list, not an error.
#[derive(Clone, Debug)]
pub struct Notified {
    pub agent: String,
    pub dispatch_id: DispatchId,
    pub dispatched: Vec<Dispatched>,
}

/// What one connector made of a dispatch.
#[derive(Clone, Debug)]
pub struct Dispatched {
    pub connector: String,
    pub outcome: Result<Handed, crate::Refused>,
    pub wakes: bool,
}

/// The contract's receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handed {
    Delivered(DeliveryReceipt),
    Woken(WakeReceipt),
}

/// What a wake came to, over all connectors: woken if any of them woke it.
#[derive(Clone, Debug)]
pub struct Woken {
    pub dispatch_id: DispatchId,
    pub receipt: WakeReceipt,
    pub dispatched: Vec<Dispatched>,
}

/// How a delivery came out, over all connectors.
#[derive(Clone, Debug)]
pub struct Delivered {
    pub dispatch_id: DispatchId,
    pub receipt: DeliveryReceipt,
    pub dispatched: Vec<Dispatched>,
}

/// Where a question stands.
#[derive(Clone, Debug)]
pub enum Exchanged {
    Answered(Response),
    /// Still open; to be asked about again by its id.
    Open {
        correlation_id: CorrelationId,
        deadline: Moment,
    },
}

/// A receipt with everything that hangs on it.
#[derive(Clone, Debug)]
pub struct Told {
    pub receipt: Receipt,
    pub replies: Vec<Reply>,
}

/// Which receipts, and from where on.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    pub agent: Option<String>,
    pub state: Option<ReceiptState>,
    pub before: Option<ReceiptKey>,
    pub limit: Option<u32>,
}

/// One agent of the directory.
#[derive(Clone, Debug)]
pub struct Listed {
    pub agent_id: String,
    pub agent_name: Option<String>,
    /// The connectors that know it, in order.
    pub connectors: Vec<String>,
    /// Only where one agent was asked for.
    pub status: Option<AgentStatus>,
}

/// A page of questions.
#[derive(Clone, Debug)]
pub struct Questions {
    pub items: Vec<Exchange>,
    pub next: Option<(Moment, CorrelationId)>,
}

//! Requests of programs to the post, and their results.

use std::time::Duration;

use http_kit::PageSize;
use ledger::{Receipt, ReceiptKey, ReceiptState, StoredReply};
use posthouse_time::Moment;
use posthouse_wire::delivery::{
    AgentStatus, DeliveryReceipt, Payload, PayloadKind, PayloadOrigin, Response, TriggerKind, WakeReceipt,
    WakeTime,
};
use posthouse_wire::{CorrelationId, DispatchId};

/// The longest wait of one call.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The longest lifetime of a question.
pub const LONGEST_TIMEOUT: Duration = Duration::from_secs(3600);

/// A message to an agent, sent by every connector that knows it.
#[derive(Clone, Debug)]
pub struct NotifyCommand {
    /// `agent` delivers, `agent@session` wakes.
    pub agent: String,
    pub message: String,
    pub kind: PayloadKind,
    pub event_type: Option<String>,
    pub correlation_id: Option<CorrelationId>,
    /// Use only these connectors. `None`: all that know the agent.
    pub connectors: Option<Vec<String>>,
    /// The sender name in the envelope. `None`: the caller's own name.
    pub from: Option<String>,
    pub trigger_kind: Option<TriggerKind>,
    /// A repeated id means the same message again. `None`: a new id.
    pub dispatch_id: Option<DispatchId>,
    /// Time that a wake waits for the agent to accept it.
    pub wait: Option<Duration>,
}

/// Delivery of a complete envelope.
#[derive(Clone, Debug)]
pub struct DeliverCommand {
    pub agent: String,
    pub payload: Payload,
    pub connectors: Option<Vec<String>>,
}

/// Interruption of an agent.
#[derive(Clone, Debug)]
pub struct WakeCommand {
    /// `agent` or `agent@session`.
    pub agent: String,
    pub context: Option<String>,
    pub when: WakeTime,
    /// Overrides a session in the address.
    pub session_id: Option<String>,
    pub connectors: Option<Vec<String>>,
    pub from: Option<String>,
    pub dispatch_id: Option<DispatchId>,
    pub wait: Option<Duration>,
}

/// A question to an agent.
#[derive(Clone, Debug)]
pub struct AskCommand {
    pub agent: String,
    pub message: String,
    pub timeout: Option<Duration>,
    /// The id that the caller gives to the question.
    pub correlation_id: CorrelationId,
    pub event_type: Option<String>,
    pub connectors: Option<Vec<String>>,
    pub from: Option<String>,
    pub trigger_kind: Option<TriggerKind>,
    /// The whole origin of the question, from a skill that the server runs. `None`: it is made from the fields above.
    pub origin: Option<PayloadOrigin>,
    /// The id of this dispatch. `None`: a new one.
    pub dispatch_id: Option<DispatchId>,
}

/// The result of a notify. For an unknown agent the list is empty.
#[derive(Clone, Debug)]
pub struct NotifyOutcome {
    pub agent: String,
    pub dispatch_id: DispatchId,
    pub dispatched: Vec<ConnectorOutcome>,
}

/// The result of a dispatch at one connector.
#[derive(Clone, Debug)]
pub struct ConnectorOutcome {
    pub connector: String,
    pub outcome: Result<SentReceipt, crate::Refused>,
    pub wakes: bool,
}

/// The contract's receipt of a delivery or a wake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentReceipt {
    Delivered(DeliveryReceipt),
    Woken(WakeReceipt),
}

/// The result of a wake over all connectors: woken if any of them woke the agent.
#[derive(Clone, Debug)]
pub struct WakeOutcome {
    pub dispatch_id: DispatchId,
    pub receipt: WakeReceipt,
    pub dispatched: Vec<ConnectorOutcome>,
}

/// The result of a delivery over all connectors.
#[derive(Clone, Debug)]
pub struct DeliverOutcome {
    pub dispatch_id: DispatchId,
    pub receipt: DeliveryReceipt,
    pub dispatched: Vec<ConnectorOutcome>,
}

/// The state of a question.
#[derive(Clone, Debug)]
pub enum AskState {
    Answered(Response),
    /// Still open. Attach to it by its id.
    Open {
        correlation_id: CorrelationId,
        deadline: Moment,
    },
}

/// A receipt with the replies to it.
#[derive(Clone, Debug)]
pub struct ReceiptWithReplies {
    pub receipt: Receipt,
    pub replies: Vec<StoredReply>,
}

/// The number of items on a page of every list.
pub(crate) const PAGE: PageSize = PageSize { default: 50, largest: 200 };

/// Filter and page of a list of receipts.
#[derive(Clone, Debug, Default)]
pub struct ReceiptListing {
    pub agent: Option<String>,
    pub state: Option<ReceiptState>,
    pub before: Option<ReceiptKey>,
    pub limit: Option<usize>,
}

/// An agent in the directory.
#[derive(Clone, Debug)]
pub struct DirectoryEntry {
    pub agent_id: String,
    pub agent_name: Option<String>,
    /// The connectors that know it, in order.
    pub connectors: Vec<String>,
    /// Only set if one agent was requested.
    pub status: Option<AgentStatus>,
}

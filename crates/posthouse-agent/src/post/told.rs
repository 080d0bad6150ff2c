//! What the house answers.

use posthouse_wire::delivery::{
    AgentDescriptor, AgentStatus, DeliveryReceipt, ReceiptState, ReplyKind, Response, WakeReceipt,
};
use posthouse_wire::{CorrelationId, DispatchId, MessageId};
use serde::Deserialize;
use serde_json::Value;

/// What a notify came to. Nobody knowing the agent is an empty list.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Notified {
    pub agent: String,
    pub dispatch_id: DispatchId,
    #[serde(default)]
    pub dispatched: Vec<Dispatched>,
}

/// What a delivery came to, over all connectors.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Delivered {
    #[serde(flatten)]
    pub receipt: DeliveryReceipt,
    pub dispatch_id: DispatchId,
    #[serde(default)]
    pub dispatched: Vec<Dispatched>,
}

/// What a wake came to, over all connectors.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Woken {
    #[serde(flatten)]
    pub receipt: WakeReceipt,
    pub dispatch_id: DispatchId,
    #[serde(default)]
    pub dispatched: Vec<Dispatched>,
}

/// What one connector made of it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Dispatched {
    pub connector: String,
    pub ok: bool,
    pub route: Route,
    /// There when it went well.
    pub receipt: Option<Handed>,
    /// There when it did not, in words and by the contract's own name.
    pub error: Option<String>,
    pub error_kind: Option<String>,
}

/// Which verb of the contract it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    Deliver,
    Wake,
    Exchange,
    /// One that a later house may add.
    #[serde(other)]
    Other,
}

/// The contract's receipt, of either verb.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Handed {
    Woken(WakeReceipt),
    Delivered(DeliveryReceipt),
}

/// An agent's answer.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Answered {
    #[serde(flatten)]
    pub response: Response,
    /// The content as data, where it is a JSON object or array.
    pub data: Option<Value>,
}

/// A question and how it stands. Times are in ms.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Asked {
    pub correlation_id: CorrelationId,
    pub agent_id: String,
    pub connector: String,
    /// What its receipt is found by ([`Client::receipt`](super::Client::receipt)).
    pub dispatch_id: DispatchId,
    pub state: ExchangeState,
    pub opened_at: i64,
    /// Until when an answer counts.
    pub deadline: i64,
    pub ended_at: Option<i64>,
    /// Why it never reached the agent, in words and by the contract's own name.
    pub error: Option<String>,
    pub error_kind: Option<String>,
}

/// How a question stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExchangeState {
    Open,
    Answered,
    TimedOut,
    /// It never reached the agent.
    Failed,
    /// One that a later house may add.
    #[serde(other)]
    Other,
}

/// One delivery of a dispatch by one connector, as far as it has come. Times are in ms.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Receipt {
    pub dispatch_id: DispatchId,
    pub connector: String,
    pub agent_id: String,
    pub session_id: Option<String>,
    pub route: Route,
    pub state: ReceiptState,
    /// When it was emitted.
    pub sent_at: i64,
    /// When the house had it for good.
    pub accepted_at: i64,
    /// When it was handed to the agent, or taken by the receiver.
    pub delivered_at: Option<i64>,
    /// When the agent said that it has it.
    pub acknowledged_at: Option<i64>,
    /// From emitted to delivered.
    pub queue_lag_ms: Option<i64>,
    /// When it is tried next, or brought up.
    pub due_at: Option<i64>,
    /// How often a receiver outside the house was tried.
    #[serde(default)]
    pub attempts: u32,
    /// Why it failed, in words and by the contract's own name.
    pub error: Option<String>,
    pub error_kind: Option<String>,
    /// The contract's receipt, once the connector gave one.
    pub receipt: Option<Handed>,
    /// What the agent said back, oldest first; the latest of it.
    #[serde(default)]
    pub replies: Vec<Reply>,
}

/// Something that an agent said to a program.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Reply {
    /// In ms.
    pub at: i64,
    pub kind: ReplyKind,
    pub message_id: Option<MessageId>,
    pub text: String,
}

/// An agent that can be written to.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Listed {
    #[serde(flatten)]
    pub agent: AgentDescriptor,
    /// The connectors that know it, in order.
    #[serde(default)]
    pub connectors: Vec<String>,
    /// Only where one agent was asked for.
    pub status: Option<AgentStatus>,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// What to ask `after` for the rest; absent on the last page.
    pub next: Option<String>,
}

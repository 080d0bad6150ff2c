//! Response types of the client for programs. They serialize to what the server sent.

use posthouse_wire::delivery::{
    AgentDescriptor, AgentStatus, DeliveryReceipt, ReceiptState, ReplyKind, Response, WakeReceipt,
};
use posthouse_wire::{CorrelationId, DispatchId, MessageId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Result of a notify. The list is empty if no connector knows the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotifyResponse {
    pub agent: String,
    pub dispatch_id: DispatchId,
    #[serde(default)]
    pub dispatched: Vec<ConnectorReport>,
}

/// Result of a delivery, over all connectors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeliverResponse {
    #[serde(flatten)]
    pub receipt: DeliveryReceipt,
    pub dispatch_id: DispatchId,
    #[serde(default)]
    pub dispatched: Vec<ConnectorReport>,
}

/// Result of a wake, over all connectors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WakeResponse {
    #[serde(flatten)]
    pub receipt: WakeReceipt,
    pub dispatch_id: DispatchId,
    #[serde(default)]
    pub dispatched: Vec<ConnectorReport>,
}

/// Result of one connector.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectorReport {
    pub connector: String,
    pub ok: bool,
    pub route: DispatchRoute,
    /// Set on success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<ConnectorReceipt>,
    /// Set on failure: a text, and the contract's name of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<String>,
}

/// Verb of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DispatchRoute {
    Deliver,
    Wake,
    Exchange,
    /// A verb that a later server may add.
    #[serde(other)]
    Other,
}

/// The contract's receipt, of either verb.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ConnectorReceipt {
    Woken(WakeReceipt),
    Delivered(DeliveryReceipt),
}

/// An agent's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentAnswer {
    #[serde(flatten)]
    pub response: Response,
    /// The content as data, if it is a JSON object or array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// A question and its state. Times are in ms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionRecord {
    pub correlation_id: CorrelationId,
    pub agent_id: String,
    pub connector: String,
    /// Finds its receipt ([`Client::receipt`](super::Client::receipt)).
    pub dispatch_id: DispatchId,
    pub state: QuestionState,
    pub opened_at: i64,
    /// Time until which an answer counts.
    pub deadline: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<i64>,
    /// Why it never reached the agent: a text, and the contract's name of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<String>,
}

/// State of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionState {
    Open,
    Answered,
    TimedOut,
    /// It never reached the agent.
    Failed,
    /// A state that a later server may add.
    #[serde(other)]
    Other,
}

/// State of one delivery of a dispatch by one connector. Times are in ms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DispatchReceipt {
    pub dispatch_id: DispatchId,
    pub connector: String,
    pub agent_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    pub route: DispatchRoute,
    pub state: ReceiptState,
    /// When the program sent it.
    pub sent_at: i64,
    /// When the server had stored it.
    pub accepted_at: i64,
    /// When it was sent to the agent, or accepted by the receiver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<i64>,
    /// When the agent acknowledged it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledged_at: Option<i64>,
    /// Time from sent to delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_lag_ms: Option<i64>,
    /// Time of the next attempt, or of a scheduled wake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<i64>,
    /// Number of attempts to reach an external receiver.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts: u32,
    /// Why it failed: a text, and the contract's name of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<String>,
    /// The contract's receipt, once the connector has returned one.
    pub receipt: Option<ConnectorReceipt>,
    /// The latest replies of the agent, oldest first.
    #[serde(default)]
    pub replies: Vec<AgentReply>,
}

/// A reply of an agent to a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentReply {
    /// In ms.
    pub at: i64,
    pub kind: ReplyKind,
    pub message_id: Option<MessageId>,
    pub text: String,
}

/// An agent that can be addressed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AddressableAgent {
    #[serde(flatten)]
    pub agent: AgentDescriptor,
    /// The connectors that know it, in order.
    #[serde(default)]
    pub connectors: Vec<String>,
    /// Only set if a single agent was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<AgentStatus>,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListPage<T> {
    pub items: Vec<T>,
    /// Value of `after` for the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

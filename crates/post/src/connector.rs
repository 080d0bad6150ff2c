//! The connector contract: `AgentConnector`, the trait by which agents are reached, woken and asked.

mod builder;
mod configured_agents;
pub mod drop;
pub mod memory;
pub mod noop;
pub mod relay;
pub(crate) mod reply;
pub mod settings;
pub mod tmux;
pub mod unavailable;
mod unique_names;
pub mod webhook;

use std::time::Duration;

use async_trait::async_trait;
use ledger::{Instance, NewReceipt};
use posthouse_time::Moment;
use posthouse_wire::delivery::{
    AgentDescriptor, AgentStatus, DeliveryFailed, DeliveryReceipt, Payload, WakeOpts, WakeReceipt,
};
use posthouse_wire::{CorrelationId, DispatchId, EntryId};
use serde::Serialize;

use crate::{Fault, Refused};

pub use crate::dispatch::{Dispatch, DispatchItem};
pub(crate) use builder::ConnectorBuilder;

/// The version of the contract.
pub const CONTRACT_VERSION: &str = "1.0.0";

/// The operations that a connector supports. Shown in its capabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Features {
    pub deliver: bool,
    pub wake: bool,
    pub list_agents: bool,
    pub agent_status: bool,
    pub health_check: bool,
    pub request_response: bool,
}

impl Features {
    /// Every operation of the contract.
    pub const ALL: Features = Features {
        deliver: true,
        wake: true,
        list_agents: true,
        agent_status: true,
        health_check: true,
        request_response: true,
    };
}

/// The public description of a connector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    pub connector_type: &'static str,
    pub implementation: &'static str,
    pub contract_version: &'static str,
    pub features: Features,
    /// Always null: this version of the contract has no manifest.
    pub manifest: Option<()>,
    pub manifest_unsupported: bool,
}

impl Capabilities {
    pub fn of(connector: &dyn AgentConnector) -> Self {
        Self {
            connector_type: "agent_connector",
            implementation: connector.implementation(),
            contract_version: CONTRACT_VERSION,
            features: connector.features(),
            manifest: None,
            manifest_unsupported: true,
        }
    }
}

/// Why an operation of a connector failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectorError {
    /// An operational fault, or an agent that is not configured.
    #[error(transparent)]
    Failed(#[from] DeliveryFailed),
    /// The connector never supports this operation.
    #[error("{implementation} has no {what}")]
    NotImplemented { implementation: &'static str, what: &'static str },
    /// A fault of this server.
    #[error("the server cannot do this now")]
    Fault(#[from] Fault),
}

/// Id, time and sender of a wake, which has no envelope of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emission {
    pub dispatch_id: DispatchId,
    /// By the clock of the emitter.
    pub sent_at: Moment,
    /// The name of the emitter.
    pub from: String,
}

/// How the answer to a question is awaited.
#[derive(Clone, Debug)]
pub struct ExpectedReply {
    pub correlation_id: CorrelationId,
    pub timeout: Duration,
    /// The URL to which the agent may POST its answer later, for agents that speak HTTP.
    pub reply_to: Option<String>,
}

/// An answer as the agent gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectorReply {
    pub content: String,
    /// By the clock of the agent, in ms, if it gave a time.
    pub sent_at: Option<i64>,
}

/// The result of putting a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskOutcome {
    /// The agent answered in the same call.
    Answer(DeliveryReceipt, ConnectorReply),
    /// The agent has the question. The answer arrives by another request, or is collected.
    Awaited(DeliveryReceipt),
}

/// A path to reach agents. Each method makes one attempt; the post stores, retries and records.
#[async_trait]
pub trait AgentConnector: Send + Sync {
    /// The kind of this connector, e.g. `webhook`.
    fn implementation(&self) -> &'static str;
    fn features(&self) -> Features;
    /// Whether an attempt with an unknown result can be repeated without harm, because the receiver recognizes the
    /// dispatch id.
    fn repeats_harmlessly(&self) -> bool;
    /// Whether the post has to poll for answers with [`AgentConnector::collect`].
    fn collects(&self) -> bool {
        false
    }
    /// How this connector stores a message together with its receipt, if it does. With `None` the post stores the
    /// receipt first, then makes attempts with the methods below.
    fn storage(&self) -> Option<&dyn MessageStorage> {
        None
    }

    async fn list_agents(&self) -> Result<Vec<AgentDescriptor>, ConnectorError>;
    /// Whether it lists exactly this name. Cheaper than the list if the list is long.
    async fn lists(&self, agent_id: &str) -> Result<bool, ConnectorError> {
        Ok(self.list_agents().await?.iter().any(|agent| agent.agent_id == agent_id))
    }
    async fn deliver(&self, agent_id: &str, payload: &Payload) -> Result<DeliveryReceipt, ConnectorError>;
    /// Interrupts the agent. A connector that cannot interrupt delivers the text and answers `woken: false`; a failed
    /// attempt is an error.
    async fn wake(
        &self,
        agent_id: &str,
        opts: &WakeOpts,
        emission: &Emission,
    ) -> Result<WakeReceipt, ConnectorError>;
    /// Whether its receivers are configured and reachable.
    async fn health_check(&self) -> bool;
    /// The health check with its reason, for operators only: which URL, directory or pane fails, and why. Of a URL only
    /// the origin is shown.
    async fn diagnose(&self) -> Result<(), String> {
        match self.health_check().await {
            true => Ok(()),
            false => Err("its receiver could not be reached with these settings".to_owned()),
        }
    }
    /// Why this connector cannot be opened, if that is known without a health check.
    fn barred(&self) -> Option<&str> {
        None
    }
    /// The error for a question to this agent, if the features exclude questions.
    fn unasked(&self, agent_id: &str) -> ConnectorError {
        let _ = agent_id;
        ConnectorError::no_reply_channel(self.implementation())
    }
    /// Puts a question. [`ConnectorError::NotImplemented`] if the connector has no way back for an answer.
    async fn request_response(
        &self,
        agent_id: &str,
        payload: &Payload,
        question: &ExpectedReply,
    ) -> Result<AskOutcome, ConnectorError>;
    /// Polls for the answer to a question. Only called if [`AgentConnector::collects`]. An answer with another
    /// correlation id belongs to another question.
    async fn collect(
        &self,
        agent_id: &str,
        question: &DispatchId,
        correlation: &CorrelationId,
    ) -> Result<Option<ConnectorReply>, ConnectorError> {
        let _ = (agent_id, question, correlation);
        Ok(None)
    }
    async fn agent_status(&self, agent_id: &str) -> AgentStatus {
        let _ = agent_id;
        AgentStatus::Unknown
    }
}

/// Delivery by a connector that keeps messages in the storage of this server. A message and its receipt are one
/// commit, and the state of the receipt follows from the stored message, so the two cannot disagree.
#[async_trait]
pub trait MessageStorage: Send + Sync {
    /// Stores a message with its receipt. The same message again stores nothing and is marked as known.
    async fn store(&self, message: NewMessage<'_>) -> Result<StoredDispatch, Refused>;
    /// Waits at most `wait` for the agent to accept a stored wake, and reports whether it did.
    async fn woken(
        &self,
        to: &Instance,
        stored: &StoredDispatch,
        wait: Duration,
    ) -> Result<WakeReceipt, Fault>;
}

/// A message to be stored for an agent.
pub struct NewMessage<'a> {
    pub to: &'a Instance,
    pub dispatch: &'a Dispatch,
    pub item: &'a DispatchItem,
    /// The connector adds the agent and the conversation.
    pub receipt: NewReceipt,
}

/// A message that is stored with its receipt.
#[derive(Clone, Debug)]
pub struct StoredDispatch {
    pub entry: EntryId,
    /// The receipt of a delivery: the time of our commit, the id of the entry and the conversation.
    pub receipt: DeliveryReceipt,
    /// The same message was stored before, so nothing was done.
    pub known: bool,
    /// Time to wait for the agent to accept a wake, unless the request sets its own.
    pub wake_wait: Duration,
}

impl ConnectorError {
    /// The same error for senders: every URL is cut to its origin, because its path may contain a secret.
    pub(crate) fn without_url_paths(self) -> Self {
        match self {
            ConnectorError::Failed(mut failed) => {
                failed.message = origins_alone(&failed.message);
                ConnectorError::Failed(failed)
            }
            undone => undone,
        }
    }

    /// The error of a connector that has no way back for an answer.
    pub fn no_reply_channel(implementation: &'static str) -> Self {
        ConnectorError::NotImplemented { implementation, what: "reply channel" }
    }
}

fn origins_alone(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        shown.push_str(before);
        let origin = after.find(|c: char| c == '/' || c == '?' || c.is_whitespace()).unwrap_or(after.len());
        shown.push_str(&after[..origin]);
        let end = after.find(char::is_whitespace).unwrap_or(after.len());
        // This colon belongs to the sentence, not to the URL.
        if after[..end].ends_with(':') && origin < end {
            shown.push(':');
        }
        rest = &after[end..];
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_origin_of_a_receivers_address_is_shown() {
        for (text, shown) in [
            ("HTTP 503 from https://hooks.example/services/T0/SECRET", "HTTP 503 from https://hooks.example"),
            (
                "no answer from http://127.0.0.1:9/in?key=1: timed out",
                "no answer from http://127.0.0.1:9: timed out",
            ),
            ("nothing to hide", "nothing to hide"),
        ] {
            assert_eq!(origins_alone(text), shown);
        }
    }
}

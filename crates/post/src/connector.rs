//! The contract for a way to agents: hand over, wake, ask, and say honestly what happened.

pub mod barred;
pub mod drop;
mod fresh;
pub mod memory;
pub mod noop;
pub mod relay;
pub(crate) mod reply;
pub mod settings;
pub mod tmux;
pub mod webhook;
mod wired;

use std::time::Duration;

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::delivery::{
    AgentDescriptor, AgentStatus, DeliveryFailed, DeliveryReceipt, Payload, WakeOpts, WakeReceipt,
};
use posthouse_wire::{CorrelationId, DispatchId};
use serde::Serialize;

/// The version of the contract.
pub const CONTRACT_VERSION: &str = "1.0.0";

/// What a connector can do; every word of it is shown to whoever asks what is wired.
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
    /// Everything that the contract knows.
    pub const ALL: Features = Features {
        deliver: true,
        wake: true,
        list_agents: true,
        agent_status: true,
        health_check: true,
        request_response: true,
    };
}

/// What is told of a connector to whoever asks what is wired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    pub connector_type: &'static str,
    pub implementation: &'static str,
    pub contract_version: &'static str,
    pub features: Features,
    /// Always null: this contract knows no manifest, and to lack one is no error of the connector's.
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

/// Why a connector did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Undone {
    /// An operational fault, or an agent that is not configured.
    #[error(transparent)]
    Failed(#[from] DeliveryFailed),
    /// There is no such channel at all, now and for ever.
    #[error("{implementation} has no {what}")]
    NotImplemented { implementation: &'static str, what: &'static str },
}

/// The emission that a wake belongs to; a wake has no envelope of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emission {
    pub dispatch_id: DispatchId,
    /// The emitter's clock.
    pub sent_at: Moment,
    /// Who emitted it.
    pub from: String,
}

/// How an answer is waited for.
#[derive(Clone, Debug)]
pub struct Question {
    pub correlation_id: CorrelationId,
    pub timeout: Duration,
    /// Where an answer may be sent to later, for substrates that speak HTTP.
    pub reply_to: Option<String>,
}

/// An answer as the agent gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub content: String,
    /// The replier's clock, in ms, if it said.
    pub sent_at: Option<i64>,
}

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replied {
    /// Answered on the spot.
    Answer(DeliveryReceipt, Answer),
    /// The agent has it; the answer comes by another way, or is collected.
    Awaited(DeliveryReceipt),
}

/// A way to agents. Each method is one attempt: keeping, retrying and recording are the post's business.
#[async_trait]
pub trait AgentConnector: Send + Sync {
    /// A short name of the kind of substrate.
    fn implementation(&self) -> &'static str;
    fn features(&self) -> Features;
    /// Whether an attempt whose end is unknown may be made again without harm: the receiver knows the
    /// dispatch id, or the place it goes to does.
    fn repeats_harmlessly(&self) -> bool;
    /// Whether answers have to be looked for. Those of others come by themselves, or not at all.
    fn collects(&self) -> bool {
        false
    }

    async fn list_agents(&self) -> Result<Vec<AgentDescriptor>, Undone>;
    /// Whether it lists this very name. For those with long lists this is cheaper than the list.
    async fn lists(&self, agent_id: &str) -> Result<bool, Undone> {
        Ok(self.list_agents().await?.iter().any(|agent| agent.agent_id == agent_id))
    }
    async fn deliver(&self, agent_id: &str, payload: &Payload) -> Result<DeliveryReceipt, Undone>;
    /// Lack of a channel degrades to a delivery with `woken: false`; a fault is an error.
    async fn wake(&self, agent_id: &str, opts: &WakeOpts, emission: &Emission)
    -> Result<WakeReceipt, Undone>;
    /// Whether the substrate is reachable and configured.
    async fn health_check(&self) -> bool;
    /// The same look with its reason, for the operator alone: which address, directory or pane it is, and what is the
    /// matter there. Of an address only its origin is told.
    async fn diagnose(&self) -> Result<(), String> {
        match self.health_check().await {
            true => Ok(()),
            false => Err("what it leads to could not be reached as it is configured".to_owned()),
        }
    }
    /// Why it cannot be opened at all, which is known without a look.
    fn barred(&self) -> Option<&str> {
        None
    }
    /// Why this agent cannot be asked, where the features say that it cannot.
    fn unasked(&self, agent_id: &str) -> Undone {
        let _ = agent_id;
        Undone::no_reply_channel(self.implementation())
    }
    /// Puts a question. [`Undone::NotImplemented`] where nothing can come back.
    async fn request_response(
        &self,
        agent_id: &str,
        payload: &Payload,
        question: &Question,
    ) -> Result<Replied, Undone>;
    /// Looks for the answer to a question that is awaited, where answers have to be looked for. One that
    /// names another correlation id belongs to another question.
    async fn collect(
        &self,
        agent_id: &str,
        question: &DispatchId,
        correlation: &CorrelationId,
    ) -> Result<Option<Answer>, Undone> {
        let _ = (agent_id, question, correlation);
        Ok(None)
    }
    async fn agent_status(&self, agent_id: &str) -> AgentStatus {
        let _ = agent_id;
        AgentStatus::Unknown
    }
}

impl Undone {
    /// The same for those who sent something: a receiver's address may hold a secret in its path, so of every
    /// URL only the origin is told.
    pub(crate) fn discreet(self) -> Self {
        match self {
            Undone::Failed(mut failed) => {
                failed.message = origins_alone(&failed.message);
                Undone::Failed(failed)
            }
            undone => undone,
        }
    }

    /// The answer of a substrate on which nothing can come back.
    pub fn no_reply_channel(implementation: &'static str) -> Self {
        Undone::NotImplemented { implementation, what: "reply channel" }
    }
}

fn origins_alone(text: &str) -> String {
    let mut told = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        told.push_str(before);
        let origin = after.find(|c: char| c == '/' || c == '?' || c.is_whitespace()).unwrap_or(after.len());
        told.push_str(&after[..origin]);
        let end = after.find(char::is_whitespace).unwrap_or(after.len());
        // What the sentence itself goes on with.
        if after[..end].ends_with(':') && origin < end {
            told.push(':');
        }
        rest = &after[end..];
    }
    told + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_receivers_address_only_its_origin_is_told() {
        for (said, told) in [
            ("HTTP 503 from https://hooks.example/services/T0/SECRET", "HTTP 503 from https://hooks.example"),
            (
                "no answer from http://127.0.0.1:9/in?key=1: timed out",
                "no answer from http://127.0.0.1:9: timed out",
            ),
            ("nothing to hide", "nothing to hide"),
        ] {
            assert_eq!(origins_alone(said), told);
        }
    }
}

//! A stored connector that cannot be opened any more: the house withdrew its consent, or the settings do not fit.

use async_trait::async_trait;
use posthouse_wire::delivery::{
    AgentDescriptor, DeliveryFailed, DeliveryReceipt, Payload, WakeOpts, WakeReceipt,
};

use super::{AgentConnector, Emission, Features, Question, Replied, Undone};

/// Claims the names that it always claimed and fails each of them, with the reason. Were it left out instead, its
/// agents would seem never to have been there, and what is sent to them would go nowhere without a word.
pub struct Barred {
    implementation: &'static str,
    /// What its kind can do while it is open.
    features: Features,
    agents: Vec<String>,
    why: String,
}

impl Barred {
    pub fn new(implementation: &'static str, features: Features, agents: Vec<String>, why: String) -> Self {
        Self { implementation, features, agents, why }
    }

    fn failed(&self, agent_id: &str) -> Undone {
        let message = format!("The connector of '{agent_id}' is not open: {}.", self.why);
        DeliveryFailed::client_validation(agent_id, message).into()
    }
}

#[async_trait]
impl AgentConnector for Barred {
    fn implementation(&self) -> &'static str {
        self.implementation
    }

    /// What its kind can do, save asking: a question goes by the first that can be asked, and this one would only
    /// keep it from another that answers.
    fn features(&self) -> Features {
        Features { request_response: false, ..self.features }
    }

    fn repeats_harmlessly(&self) -> bool {
        true
    }

    async fn list_agents(&self) -> Result<Vec<AgentDescriptor>, Undone> {
        Ok(self.agents.iter().map(AgentDescriptor::new).collect())
    }

    async fn deliver(&self, agent_id: &str, _payload: &Payload) -> Result<DeliveryReceipt, Undone> {
        Err(self.failed(agent_id))
    }

    async fn wake(
        &self,
        agent_id: &str,
        _opts: &WakeOpts,
        _emission: &Emission,
    ) -> Result<WakeReceipt, Undone> {
        Err(self.failed(agent_id))
    }

    async fn health_check(&self) -> bool {
        false
    }

    async fn diagnose(&self) -> Result<(), String> {
        Err(self.why.clone())
    }

    fn barred(&self) -> Option<&str> {
        Some(&self.why)
    }

    /// A kind from which nothing ever comes back says that; any other has the reason.
    fn unasked(&self, agent_id: &str) -> Undone {
        match self.features.request_response {
            true => self.failed(agent_id),
            false => Undone::no_reply_channel(self.implementation),
        }
    }

    async fn request_response(
        &self,
        agent_id: &str,
        _payload: &Payload,
        _question: &Question,
    ) -> Result<Replied, Undone> {
        Err(self.unasked(agent_id))
    }
}

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
    agents: Vec<String>,
    why: String,
}

impl Barred {
    pub fn new(implementation: &'static str, agents: Vec<String>, why: String) -> Self {
        Self { implementation, agents, why }
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

    /// Whatever is asked of it is answered with the reason; one that could not be asked at all would hide it.
    fn features(&self) -> Features {
        Features::ALL
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

    async fn request_response(
        &self,
        agent_id: &str,
        _payload: &Payload,
        _question: &Question,
    ) -> Result<Replied, Undone> {
        Err(self.failed(agent_id))
    }
}

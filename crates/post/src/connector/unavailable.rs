//! Stand-in for a stored connector that cannot be opened: its settings are invalid or no longer allowed.

use async_trait::async_trait;
use posthouse_wire::delivery::{
    AgentDescriptor, DeliveryFailed, DeliveryReceipt, Payload, WakeOpts, WakeReceipt,
};

use super::{AgentConnector, AskOutcome, ConnectorError, Emission, ExpectedReply, Features};

/// Lists the same agents as before and fails every operation with the reason. Without it, its agents would look
/// unknown, and messages to them would be dropped silently.
pub struct UnavailableConnector {
    implementation: &'static str,
    /// The features of its kind while it is open.
    features: Features,
    agents: Vec<String>,
    why: String,
}

impl UnavailableConnector {
    pub fn new(implementation: &'static str, features: Features, agents: Vec<String>, why: String) -> Self {
        Self { implementation, features, agents, why }
    }

    fn failed(&self, agent_id: &str) -> ConnectorError {
        let message = format!("The connector of '{agent_id}' is not open: {}.", self.why);
        DeliveryFailed::client_validation(agent_id, message).into()
    }
}

#[async_trait]
impl AgentConnector for UnavailableConnector {
    fn implementation(&self) -> &'static str {
        self.implementation
    }

    /// The features of its kind without questions: a question goes by the first connector that supports them, and this
    /// one would only block another that works.
    fn features(&self) -> Features {
        Features { request_response: false, ..self.features }
    }

    fn repeats_harmlessly(&self) -> bool {
        true
    }

    async fn list_agents(&self) -> Result<Vec<AgentDescriptor>, ConnectorError> {
        Ok(self.agents.iter().map(AgentDescriptor::new).collect())
    }

    async fn deliver(&self, agent_id: &str, _payload: &Payload) -> Result<DeliveryReceipt, ConnectorError> {
        Err(self.failed(agent_id))
    }

    async fn wake(
        &self,
        agent_id: &str,
        _opts: &WakeOpts,
        _emission: &Emission,
    ) -> Result<WakeReceipt, ConnectorError> {
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

    /// A kind without a way back for answers says so. Any other kind gives the reason.
    fn unasked(&self, agent_id: &str) -> ConnectorError {
        match self.features.request_response {
            true => self.failed(agent_id),
            false => ConnectorError::no_reply_channel(self.implementation),
        }
    }

    async fn request_response(
        &self,
        agent_id: &str,
        _payload: &Payload,
        _question: &ExpectedReply,
    ) -> Result<AskOutcome, ConnectorError> {
        Err(self.unasked(agent_id))
    }
}

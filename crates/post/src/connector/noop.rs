//! No-op connector: accepts everything, reaches nobody, and logs a warning each time.

use async_trait::async_trait;
use posthouse_time::Timepiece;
use posthouse_wire::delivery::{AgentDescriptor, DeliveryReceipt, Payload, WakeOpts, WakeReceipt};
use tracing::warn;

use super::{AgentConnector, AskOutcome, ConnectorError, Emission, ExpectedReply, Features};

/// A connector without agents.
pub struct NoopConnector {
    timepiece: Timepiece,
}

impl NoopConnector {
    pub const IMPLEMENTATION: &str = "noop";
    pub(super) const FEATURES: Features = Features { request_response: false, ..Features::ALL };

    pub fn new(timepiece: Timepiece) -> Self {
        Self { timepiece }
    }
}

#[async_trait]
impl AgentConnector for NoopConnector {
    fn implementation(&self) -> &'static str {
        Self::IMPLEMENTATION
    }

    fn features(&self) -> Features {
        Self::FEATURES
    }

    fn repeats_harmlessly(&self) -> bool {
        true
    }

    async fn list_agents(&self) -> Result<Vec<AgentDescriptor>, ConnectorError> {
        warn!("the noop connector was asked for its agents: it has none");
        Ok(Vec::new())
    }

    async fn deliver(&self, agent_id: &str, payload: &Payload) -> Result<DeliveryReceipt, ConnectorError> {
        warn!(agent = agent_id, dispatch.id = %payload.meta.dispatch_id, "a delivery reached nobody: the noop connector drops it");
        Ok(DeliveryReceipt { delivered_at: self.timepiece.now().millis(), ..DeliveryReceipt::default() })
    }

    async fn wake(
        &self,
        agent_id: &str,
        _opts: &WakeOpts,
        emission: &Emission,
    ) -> Result<WakeReceipt, ConnectorError> {
        warn!(agent = agent_id, dispatch.id = %emission.dispatch_id, "a wake reached nobody: the noop connector drops it");
        Ok(WakeReceipt { woken_at: self.timepiece.now().millis(), ..WakeReceipt::default() })
    }

    async fn health_check(&self) -> bool {
        warn!("the noop connector was asked for its health: it reaches nobody");
        true
    }

    async fn request_response(
        &self,
        agent_id: &str,
        _payload: &Payload,
        question: &ExpectedReply,
    ) -> Result<AskOutcome, ConnectorError> {
        warn!(agent = agent_id, correlation.id = %question.correlation_id, "a question reached nobody: the noop connector drops it");
        Err(ConnectorError::no_reply_channel(Self::IMPLEMENTATION))
    }

    async fn agent_status(&self, agent_id: &str) -> posthouse_wire::delivery::AgentStatus {
        warn!(agent = agent_id, "the noop connector was asked for the status of an agent: it has none");
        posthouse_wire::delivery::AgentStatus::Unknown
    }
}

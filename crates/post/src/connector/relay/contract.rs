//! The relay connector behind the connector contract: agents by their name, as the tenant's operator.

use std::sync::Arc;

use async_trait::async_trait;
use ledger::{Instance, Opening};
use posthouse_time::Moment;
use posthouse_wire::DispatchId;
use posthouse_wire::delivery::{
    AgentDescriptor, AgentStatus, DeliveryFailed, DeliveryReceipt, Payload, WakeOpts, WakeReceipt,
};

use super::{RELAY, RelayConnector};
use crate::connector::{
    AgentConnector, AskOutcome, ConnectorError, Emission, ExpectedReply, Features, MessageStorage,
    NewMessage, StoredDispatch,
};
use crate::directory::unknown_agent;
use crate::dispatch::{Dispatch, DispatchItem};
use crate::{Address, Fault, Refused};

impl RelayConnector {
    /// Stores an item for an agent by its name, as the tenant's operator.
    async fn put(
        &self,
        agent_id: &str,
        emission: Emission,
        item: &DispatchItem,
    ) -> Result<(Arc<Instance>, StoredDispatch), ConnectorError> {
        let name = Address::read(agent_id).agent;
        let found = self.agents.agent(&self.tenant, name).await.map_err(Fault::from)?;
        let Some(to) = found else { return Err(unknown_agent(agent_id).into()) };
        let Emission { dispatch_id, sent_at, from } = emission;
        let dispatch = Dispatch {
            tenant: self.tenant.clone(),
            sender: ledger::operator_client(&self.tenant),
            sent_by: None,
            from,
            id: dispatch_id,
            sent_at,
        };
        let receipt = dispatch.receipt((RELAY, &to.name), item, Opening::Entry, self.timepiece.now());
        let stored = self.store(NewMessage { to: &to, dispatch: &dispatch, item, receipt }).await;
        Ok((to, stored.map_err(|refused| as_error(agent_id, refused))?))
    }

    async fn status(&self, agent: &str) -> Result<AgentStatus, Fault> {
        let Some(instance) = self.agents.agent(&self.tenant, agent).await? else {
            return Ok(AgentStatus::Unknown);
        };
        Ok(match (self.is_attached(&instance.id), &instance.wake_url) {
            (true, _) if self.relay.inboxes().records().size(&instance.id).await?.entries > 0 => {
                AgentStatus::Active
            }
            (true, _) => AgentStatus::Idle,
            (false, Some(_)) => AgentStatus::Asleep,
            (false, None) => AgentStatus::Unknown,
        })
    }
}

#[async_trait]
impl AgentConnector for RelayConnector {
    fn implementation(&self) -> &'static str {
        Self::IMPLEMENTATION
    }

    fn features(&self) -> Features {
        Features::ALL
    }

    /// A repeat is recognized by its receipt.
    fn repeats_harmlessly(&self) -> bool {
        true
    }

    fn storage(&self) -> Option<&dyn MessageStorage> {
        Some(self)
    }

    async fn list_agents(&self) -> Result<Vec<AgentDescriptor>, ConnectorError> {
        let instances = self.agents.records().instances(Some(&self.tenant)).await.map_err(Fault::from)?;
        Ok(instances.into_iter().map(|found| AgentDescriptor::named(found.name)).collect())
    }

    async fn lists(&self, agent_id: &str) -> Result<bool, ConnectorError> {
        Ok(self.agents.agent(&self.tenant, agent_id).await.map_err(Fault::from)?.is_some())
    }

    async fn deliver(&self, agent_id: &str, payload: &Payload) -> Result<DeliveryReceipt, ConnectorError> {
        let item = DispatchItem::Deliver { payload: payload.clone() };
        let (_, stored) = self.put(agent_id, emission_of(payload), &item).await?;
        Ok(stored.receipt)
    }

    async fn wake(
        &self,
        agent_id: &str,
        opts: &WakeOpts,
        emission: &Emission,
    ) -> Result<WakeReceipt, ConnectorError> {
        let session = Address::read(agent_id).session_meant(opts.session_id.as_deref());
        let opts = WakeOpts { session_id: session.map(str::to_owned), ..opts.clone() };
        let item = DispatchItem::Wake { opts, from: emission.from.clone() };
        let (to, stored) = self.put(agent_id, emission.clone(), &item).await?;
        Ok(self.woken(&to, &stored, stored.wake_wait).await?)
    }

    /// The receiver is this server itself, so it is healthy if its ledger can be read.
    async fn health_check(&self) -> bool {
        self.diagnose().await.is_ok()
    }

    async fn diagnose(&self) -> Result<(), String> {
        let asked = self.agents.records().tenant(self.tenant.as_str()).await;
        asked.map(drop).map_err(|fault| format!("the roster cannot be read: {fault}"))
    }

    /// The agent answers in the conversation of the question.
    async fn request_response(
        &self,
        agent_id: &str,
        payload: &Payload,
        question: &ExpectedReply,
    ) -> Result<AskOutcome, ConnectorError> {
        let mut payload = payload.clone();
        payload.meta.correlation_id = Some(question.correlation_id.clone());
        let emission = emission_of(&payload);
        let (_, stored) = self.put(agent_id, emission, &DispatchItem::Ask { payload }).await?;
        Ok(AskOutcome::Awaited(stored.receipt))
    }

    async fn agent_status(&self, agent_id: &str) -> AgentStatus {
        self.status(Address::read(agent_id).agent).await.unwrap_or_else(|fault| {
            tracing::error!(%fault, "could not read the status of an agent");
            AgentStatus::Unknown
        })
    }
}

fn emission_of(payload: &Payload) -> Emission {
    Emission {
        dispatch_id: DispatchId::clone(&payload.meta.dispatch_id),
        sent_at: Moment::from_millis(payload.meta.sent_at),
        from: payload.meta.origin.skill_name.clone(),
    }
}

/// Converts a refusal to an error of the contract.
fn as_error(agent_id: &str, refused: Refused) -> ConnectorError {
    match refused {
        Refused::Failed(failed) => failed.into(),
        Refused::Fault(fault) => ConnectorError::Fault(fault),
        refused => DeliveryFailed::client_validation(agent_id, refused.to_string()).into(),
    }
}

//! Relay connector: agents connected by the relay, behind the connector contract.

use std::time::Duration;

use async_trait::async_trait;
use posthouse_wire::TenantId;
use posthouse_wire::delivery::{
    AgentDescriptor, AgentStatus, Cause, DeliveryFailed, DeliveryReceipt, Payload, WakeOpts, WakeReceipt,
};

use super::{AgentConnector, Emission, Features, Question, Replied, Undone};
use crate::relay_path::RELAY;
use crate::requests::{Ask, Deliver, Exchanged, Wake};
use crate::{Address, Caller, Post, Refused};

/// The relay connector of one tenant. Unlike other connectors it stores receipts itself, because an inbox entry and
/// its receipt are one commit.
pub struct RelayConnector {
    post: Post,
    caller: Caller,
}

impl RelayConnector {
    pub const IMPLEMENTATION: &str = RELAY;

    /// For the agents of this tenant, as its operator.
    pub fn new(post: &Post, tenant: &TenantId) -> Self {
        let client = ledger::operator_client(tenant);
        let caller = Caller { client, tenant: tenant.clone(), agent: None, attested: None };
        Self { post: post.clone(), caller }
    }

    fn only_here() -> Option<Vec<String>> {
        Some(vec![RELAY.to_owned()])
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

    async fn list_agents(&self) -> Result<Vec<AgentDescriptor>, Undone> {
        let instances = self.post.0.identity.roster.records().instances(Some(&self.caller.tenant)).await;
        let instances = instances.map_err(|fault| troubled("", &fault.into()))?;
        Ok(instances.into_iter().map(|found| AgentDescriptor::named(found.name)).collect())
    }

    async fn lists(&self, agent_id: &str) -> Result<bool, Undone> {
        let found = self.post.instance(&self.caller.tenant, agent_id).await;
        Ok(found.map_err(|fault| troubled(agent_id, &Refused::Fault(fault)))?.is_some())
    }

    async fn deliver(&self, agent_id: &str, payload: &Payload) -> Result<DeliveryReceipt, Undone> {
        let request =
            Deliver { agent: agent_id.to_owned(), payload: payload.clone(), connectors: Self::only_here() };
        let delivered = self.post.deliver(&self.caller, request).await;
        delivered.map(|delivered| delivered.receipt).map_err(|refused| troubled(agent_id, &refused))
    }

    async fn wake(
        &self,
        agent_id: &str,
        opts: &WakeOpts,
        emission: &Emission,
    ) -> Result<WakeReceipt, Undone> {
        let WakeOpts { context, when, session_id } = opts.clone();
        let request = Wake {
            agent: agent_id.to_owned(),
            context,
            when,
            session_id,
            connectors: Self::only_here(),
            from: Some(emission.from.clone()),
            dispatch_id: Some(emission.dispatch_id.clone()),
            wait: None,
        };
        let woken = self.post.wake(&self.caller, request).await;
        woken.map(|woken| woken.receipt).map_err(|refused| troubled(agent_id, &refused))
    }

    /// The receiver is this server itself, so it is healthy if its ledger can be read.
    async fn health_check(&self) -> bool {
        self.diagnose().await.is_ok()
    }

    async fn diagnose(&self) -> Result<(), String> {
        let asked = self.post.0.identity.roster.records().tenant(self.caller.tenant.as_str()).await;
        asked.map(drop).map_err(|fault| format!("the roster cannot be read: {fault}"))
    }

    /// The answer is stored with the question, where the caller finds it.
    async fn request_response(
        &self,
        agent_id: &str,
        payload: &Payload,
        question: &Question,
    ) -> Result<Replied, Undone> {
        let request = Ask {
            agent: agent_id.to_owned(),
            message: payload.text.clone(),
            timeout: Some(question.timeout),
            correlation_id: Some(question.correlation_id.clone()),
            event_type: payload.meta.event_type.clone(),
            connectors: Self::only_here(),
            from: Some(payload.meta.origin.skill_name.clone()),
            trigger_kind: Some(payload.meta.origin.trigger_kind),
            wait: Some(Duration::ZERO),
        };
        let asked = self.post.exchange(&self.caller, request).await;
        let now = self.post.0.timepiece.now();
        let receipt = DeliveryReceipt { delivered_at: now.millis(), ..DeliveryReceipt::default() };
        match asked.map_err(|refused| troubled(agent_id, &refused))? {
            Exchanged::Open { .. } => Ok(Replied::Awaited(receipt)),
            Exchanged::Answered(response) => {
                let answer = super::Answer { content: response.content, sent_at: Some(response.sent_at) };
                Ok(Replied::Answer(receipt, answer))
            }
        }
    }

    async fn agent_status(&self, agent_id: &str) -> AgentStatus {
        let agent = Address::read(agent_id).agent;
        let listed = self.post.agent(&self.caller, agent).await;
        listed.ok().and_then(|listed| listed.status).unwrap_or(AgentStatus::Unknown)
    }
}

/// Converts a refusal to an error of the contract.
fn troubled(agent_id: &str, refused: &Refused) -> Undone {
    match refused {
        Refused::Failed(failed) | Refused::Unanswered(failed) => failed.clone().into(),
        Refused::NotImplemented(_) => Undone::no_reply_channel(RELAY),
        Refused::TimedOut { .. } => DeliveryFailed::new(agent_id, Cause::Timeout, refused.to_string()).into(),
        Refused::Fault(fault) => {
            tracing::error!(%fault, "the relay connector failed");
            DeliveryFailed::new(agent_id, Cause::Network, refused.to_string()).into()
        }
        _ => DeliveryFailed::client_validation(agent_id, refused.to_string()).into(),
    }
}

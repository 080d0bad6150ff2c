//! Authenticated callers of the post.

use std::sync::Arc;

use identity::Principal;
use ledger::Instance;
use posthouse_wire::delivery::TriggerKind;
use posthouse_wire::{ClientId, InstanceId, TenantId};

/// An authenticated caller. All fields except `attested` come from our own record of the credential.
#[derive(Clone, Debug)]
pub struct Caller {
    pub client: ClientId,
    pub tenant: TenantId,
    /// The agent, for the credential of an instance. `None` for the credential of a tenant.
    pub agent: Option<Arc<Instance>>,
    /// The caller that a program acts for. A label that grants no rights.
    pub attested: Option<String>,
}

impl Caller {
    /// The caller that this principal is. `None` for principals that may not call the post.
    pub fn of(principal: &Principal, attested: Option<String>) -> Option<Self> {
        let agent = match principal {
            Principal::Tenant { .. } => None,
            Principal::Agent { agent, .. } => Some(Arc::clone(agent)),
            Principal::Operator | Principal::Person(_) | Principal::Issued { .. } => return None,
        };
        let (client, tenant) = (principal.client()?, principal.tenant()?.clone());
        Some(Self { client, tenant, agent, attested })
    }

    pub fn instance(&self) -> Option<&InstanceId> {
        self.agent.as_ref().map(|agent| &agent.id)
    }

    /// The default sender name: the agent's name, or the client's.
    pub fn name(&self) -> &str {
        self.agent.as_ref().map_or(self.client.as_str(), |agent| &agent.name)
    }

    /// The `caller_agent_id` of the envelope.
    pub fn agent_id(&self) -> Option<String> {
        self.agent.as_ref().map(|agent| agent.name.clone()).or_else(|| self.attested.clone())
    }

    /// The `caller_agent_id` for an emission of this kind. A schedule, an event or a person at a terminal is not an
    /// agent, even if an agent passes it on.
    pub fn caller_agent_id(&self, requested: Option<TriggerKind>) -> Option<String> {
        match self.trigger(requested) {
            TriggerKind::Agent | TriggerKind::Webhook => self.agent_id(),
            _ => None,
        }
    }

    /// The trigger kind of an emission. A program of a tenant may choose it; for an agent it is always `Agent`.
    pub fn trigger(&self, requested: Option<TriggerKind>) -> TriggerKind {
        match &self.agent {
            Some(_) => TriggerKind::Agent,
            None => requested.unwrap_or(TriggerKind::Webhook),
        }
    }
}

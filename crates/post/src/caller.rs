//! On whose behalf something is sent.

use std::sync::Arc;

use ledger::Instance;
use posthouse_wire::delivery::TriggerKind;
use posthouse_wire::{ClientId, InstanceId, TenantId};

/// Whoever asks, by our own record of the credential presented.
#[derive(Clone, Debug)]
pub struct Caller {
    pub client: ClientId,
    pub tenant: TenantId,
    /// The agent that an instance's credential stands for; nothing for a tenant's.
    pub agent: Option<Arc<Instance>>,
    /// What a fronting host says of its own caller. A label; it gives no right.
    pub attested: Option<String>,
}

impl Caller {
    pub fn instance(&self) -> Option<&InstanceId> {
        self.agent.as_ref().map(|agent| &agent.id)
    }

    /// What it goes by as a sender where it says nothing itself: an agent's name, or the client's.
    pub fn name(&self) -> &str {
        self.agent.as_ref().map_or(self.client.as_str(), |agent| &agent.name)
    }

    /// The authenticated caller, as the envelope names it.
    pub fn agent_id(&self) -> Option<String> {
        self.agent.as_ref().map(|agent| agent.name.clone()).or_else(|| self.attested.clone())
    }

    /// Whom an emission of that kind names as its caller. A schedule, an event or a person at a terminal is no
    /// agent, whoever passes it on.
    pub fn called_by(&self, said: Option<TriggerKind>) -> Option<String> {
        match self.trigger(said) {
            TriggerKind::Agent | TriggerKind::Webhook => self.agent_id(),
            _ => None,
        }
    }

    /// An agent cannot say why it writes; a tenant's program can.
    pub fn trigger(&self, said: Option<TriggerKind>) -> TriggerKind {
        match &self.agent {
            Some(_) => TriggerKind::Agent,
            None => said.unwrap_or(TriggerKind::Webhook),
        }
    }
}

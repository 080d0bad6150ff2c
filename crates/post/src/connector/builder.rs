//! Builds the connectors of a tenant from their records.

use std::sync::Arc;

use errand::Errand;
use identity::RosterView;
use ledger::ConnectorRecord;
use posthouse_time::Timepiece;
use posthouse_wire::{ConnectorId, TenantId};
use relay::Relay;
use serde_json::Value;
use vault::WebhookSigner;

use super::AgentConnector;
use super::memory::ConnectorMemory;
use super::relay::RelayConnector;
use super::settings::{self, BadSettings, Tools};
use crate::Config;

/// What connectors are built from. A cheap handle to clone.
#[derive(Clone)]
pub(crate) struct ConnectorBuilder {
    pub relay: Relay,
    pub agents: RosterView,
    pub errand: Errand,
    pub webhook_signer: WebhookSigner,
    pub timepiece: Timepiece,
    /// State that outlives the connectors, which are rebuilt often.
    pub memory: ConnectorMemory,
    pub config: Arc<Config>,
}

impl ConnectorBuilder {
    /// A connector with new settings. Nothing is opened or called yet.
    pub fn build(
        &self,
        tenant: &TenantId,
        id: &ConnectorId,
        kind: &str,
        settings: &Value,
    ) -> Result<Arc<dyn AgentConnector>, BadSettings> {
        settings::build(kind, settings, self.tools(tenant, id))
    }

    /// A stored connector. If it can no longer be built, it fails every operation with the reason.
    pub fn rebuild(&self, record: &ConnectorRecord) -> Arc<dyn AgentConnector> {
        let settings = serde_json::from_str(&record.settings).unwrap_or_default();
        settings::rebuild(&record.kind, &settings, self.tools(&record.tenant, &record.id))
    }

    /// The relay connector that every tenant has.
    pub fn relay(&self, tenant: &TenantId) -> Arc<dyn AgentConnector> {
        let (relay, agents) = (self.relay.clone(), self.agents.clone());
        Arc::new(RelayConnector::new(relay, agents, tenant.clone(), &self.config, self.timepiece.clone()))
    }

    fn tools(&self, tenant: &TenantId, id: &ConnectorId) -> Tools<'_> {
        Tools {
            id: id.clone(),
            tenant: tenant.clone(),
            errand: self.errand.clone(),
            webhook_signer: self.webhook_signer.clone(),
            timepiece: self.timepiece.clone(),
            memory: self.memory.clone(),
            config: &self.config,
        }
    }
}

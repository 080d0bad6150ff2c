//! Cache of agent records, keyed by the roster version of their tenant.

use std::sync::Arc;

use ledger::Instance;
use moka::sync::Cache;
use posthouse_wire::{InstanceId, TenantId};
use relay::Relay;

use super::REMEMBERED;
use crate::Fault;

/// The agents of the roster, by tenant and name or id. A cheap handle to clone.
#[derive(Clone)]
pub(crate) struct AgentRecords {
    relay: Relay,
    known: Cache<(u64, TenantId, String), Arc<Instance>>,
}

impl AgentRecords {
    pub fn new(relay: Relay) -> Self {
        Self { relay, known: Cache::builder().max_capacity(100_000).time_to_live(REMEMBERED).build() }
    }

    /// The version of everything that is stored about this tenant. It changes with every change on this node.
    pub fn version(&self, tenant: &TenantId) -> u64 {
        self.relay.tenant_version(tenant)
    }

    /// An agent of this tenant by its name or id.
    pub async fn find(&self, tenant: &TenantId, name: &str) -> Result<Option<Arc<Instance>>, Fault> {
        let key = (self.version(tenant), tenant.clone(), name.to_owned());
        if let Some(known) = self.known.get(&key) {
            return Ok(Some(known));
        }
        let roster = self.relay.roster();
        let found = match name.starts_with("inst_") {
            true => roster.instance(&InstanceId::new(name)).await?.filter(|found| found.tenant == *tenant),
            false => roster.instance_named(tenant, name).await?,
        };
        let found = found.map(Arc::new);
        if let Some(found) = &found {
            self.known.insert(key, Arc::clone(found));
        }
        Ok(found)
    }

    /// All agents of this tenant, read from the ledger.
    pub async fn all(&self, tenant: &TenantId) -> Result<Vec<Instance>, Fault> {
        Ok(self.relay.roster().instances(Some(tenant)).await?)
    }
}

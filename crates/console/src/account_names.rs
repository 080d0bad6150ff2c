//! Names of tenants and agents, for lists that show records of several of them.

use std::collections::HashMap;

use ledger::Tenant;
use posthouse_wire::{InstanceId, TenantId};

use crate::problem::AdminProblem;
use crate::routes::Parts;

/// Names by id. An id that is not there has an empty name.
pub(crate) struct AccountNames {
    tenants: HashMap<TenantId, String>,
    agents: HashMap<InstanceId, String>,
}

impl AccountNames {
    pub async fn read(console: &Parts, only: Option<&TenantId>) -> Result<Self, AdminProblem> {
        let roster = console.identity.roster.records();
        let tenants = roster.tenants().await?;
        let instances = roster.instances(only).await?;
        Ok(Self {
            tenants: tenants.into_iter().map(|Tenant { id, name, .. }| (id, name)).collect(),
            agents: instances.into_iter().map(|instance| (instance.id, instance.name)).collect(),
        })
    }

    pub fn tenant(&self, id: &TenantId) -> String {
        self.tenants.get(id).cloned().unwrap_or_default()
    }

    pub fn agent(&self, id: &InstanceId) -> String {
        self.agents.get(id).cloned().unwrap_or_default()
    }
}

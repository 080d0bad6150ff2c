//! Bytes of files that are being written, by tenant and by agent. Only those with such a file are remembered.

use std::collections::HashMap;
use std::hash::Hash;

use posthouse_wire::{InstanceId, TenantId};

#[derive(Default)]
pub(super) struct UnfinishedBytes {
    tenants: HashMap<TenantId, i64>,
    agents: HashMap<InstanceId, i64>,
}

impl UnfinishedBytes {
    pub fn of_tenant(&self, tenant: &TenantId) -> i64 {
        self.tenants.get(tenant).copied().unwrap_or(0)
    }

    pub fn of_agent(&self, agent: &InstanceId) -> i64 {
        self.agents.get(agent).copied().unwrap_or(0)
    }

    pub fn count(&mut self, tenant: &TenantId, agent: &InstanceId, change: i64) {
        count(&mut self.tenants, tenant, change);
        count(&mut self.agents, agent, change);
    }
}

fn count<K: Clone + Eq + Hash>(sums: &mut HashMap<K, i64>, of: &K, change: i64) {
    let bytes = sums.entry(of.clone()).or_default();
    *bytes += change;
    if *bytes == 0 {
        sums.remove(of);
    }
}

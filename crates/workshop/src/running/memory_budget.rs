//! Memory budget of runs: how much the running skills of one tenant, and of the whole server, hold together.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use posthouse_wire::TenantId;
use skill::{MemoryRefusal, RunMemory};

const OF_THE_TENANT: &str = "what all running skills of the tenant hold together";
const OF_THE_SERVER: &str = "what all running skills of the server hold together";

/// The budgets of all tenants.
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    of_a_tenant: usize,
    of_the_server: usize,
    held: Arc<Mutex<HashMap<TenantId, usize>>>,
}

/// The budget as the runs of one tenant use it.
#[derive(Debug)]
struct TenantMemory {
    budget: MemoryBudget,
    tenant: TenantId,
}

impl MemoryBudget {
    pub fn new(of_a_tenant: usize, of_the_server: usize) -> Self {
        Self { of_a_tenant, of_the_server, held: Arc::default() }
    }

    pub fn of(&self, tenant: &TenantId) -> Arc<dyn RunMemory> {
        Arc::new(TenantMemory { budget: self.clone(), tenant: tenant.clone() })
    }
}

impl RunMemory for TenantMemory {
    /// The last bytes of the server are for tenants that hold little: a tenant gets more only while it holds at most as
    /// much as is free.
    fn reserve(&self, bytes: usize) -> Result<(), MemoryRefusal> {
        let MemoryBudget { of_a_tenant, of_the_server, held } = &self.budget;
        let mut held = held.lock();
        let free = of_the_server.saturating_sub(held.values().sum());
        let own = held.get(&self.tenant).copied().unwrap_or_default() + bytes;
        if own > *of_a_tenant {
            return Err(MemoryRefusal { what: OF_THE_TENANT, limit: *of_a_tenant });
        }
        if own > free {
            return Err(MemoryRefusal { what: OF_THE_SERVER, limit: *of_the_server });
        }
        held.insert(self.tenant.clone(), own);
        Ok(())
    }

    fn release(&self, bytes: usize) {
        let mut held = self.budget.held.lock();
        if let Some(own) = held.get_mut(&self.tenant) {
            *own = own.saturating_sub(bytes);
            if *own == 0 {
                held.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_its_budget_and_others_keep_their_share_of_the_server() {
        let budget = MemoryBudget::new(400, 1000);
        let [acme, zen, late] = ["acme", "zen", "late"].map(|tenant| budget.of(&tenant.into()));
        acme.reserve(400).unwrap();
        assert_eq!(acme.reserve(1), Err(MemoryRefusal { what: OF_THE_TENANT, limit: 400 }));
        zen.reserve(300).unwrap();
        assert_eq!(zen.reserve(100), Err(MemoryRefusal { what: OF_THE_SERVER, limit: 1000 }));
        late.reserve(100).unwrap();
        acme.release(400);
        zen.reserve(100).unwrap();
        for (of, bytes) in [(zen, 400), (late, 100)] {
            of.release(bytes);
        }
        assert!(budget.held.lock().is_empty());
    }
}

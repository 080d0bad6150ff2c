//! Who has as many attempts under way as one may.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use posthouse_wire::TenantId;

/// Attempts of one tenant made side by side at what is still to be sent.
const PER_TENANT: usize = 8;

/// Attempts under way, by tenant.
#[derive(Clone, Default)]
pub(crate) struct Busy(Arc<Mutex<HashMap<TenantId, usize>>>);

/// One attempt's place.
pub(crate) struct Place {
    busy: Busy,
    tenant: TenantId,
}

impl Busy {
    /// Those who have to wait for one of their own to end.
    pub fn full(&self) -> Vec<TenantId> {
        let under_way = self.0.lock();
        under_way
            .iter()
            .filter(|(_, count)| **count >= PER_TENANT)
            .map(|(tenant, _)| tenant.clone())
            .collect()
    }

    pub fn enter(&self, tenant: &TenantId) -> Place {
        *self.0.lock().entry(tenant.clone()).or_default() += 1;
        Place { busy: self.clone(), tenant: tenant.clone() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut under_way = self.busy.0.lock();
        if let Some(count) = under_way.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                under_way.remove(&self.tenant);
            }
        }
    }
}

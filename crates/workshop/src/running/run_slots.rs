//! Places for running skills: a limit per tenant and one for the whole server.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use posthouse_wire::TenantId;

/// Runs at once in the whole server.
const RUNS: usize = 2000;

/// Counts the running skills.
#[derive(Clone, Default)]
pub struct RunSlots(Arc<Mutex<HashMap<TenantId, usize>>>);

/// The place of one run. Dropping it gives the place back.
pub struct RunSlot {
    slots: RunSlots,
    tenant: TenantId,
}

impl RunSlots {
    /// A place, if the tenant has fewer runs than `limit`. The last places of the server are for tenants with few runs:
    /// a tenant gets one only while it has at most as many as are free.
    pub fn take(&self, tenant: &TenantId, limit: usize) -> Option<RunSlot> {
        let mut running = self.0.lock();
        let free = RUNS.saturating_sub(running.values().sum());
        let own = running.get(tenant).copied().unwrap_or_default();
        if own >= limit || own >= free {
            return None;
        }
        running.insert(tenant.clone(), own + 1);
        Some(RunSlot { slots: self.clone(), tenant: tenant.clone() })
    }
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        let mut running = self.slots.0.lock();
        if let Some(count) = running.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                running.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_a_limit_and_leaves_room_for_others() {
        let slots = RunSlots::default();
        let (acme, zen) = (TenantId::from("acme"), TenantId::from("zen"));
        let two: Vec<RunSlot> = (0..3).filter_map(|_| slots.take(&acme, 2)).collect();
        assert_eq!(two.len(), 2);
        drop(two);
        let many: Vec<RunSlot> = (0..3 * RUNS).filter_map(|_| slots.take(&acme, usize::MAX)).collect();
        assert_eq!(many.len(), RUNS / 2, "half of the server stays free");
        assert!(slots.take(&zen, 1).is_some());
        drop(many);
        assert!(slots.0.lock().is_empty());
    }
}

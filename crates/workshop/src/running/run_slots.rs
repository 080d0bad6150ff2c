//! Places for running skills: a limit per tenant and one for the whole server.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use posthouse_wire::TenantId;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Runs at once in the whole server.
const RUNS: usize = 2000;

/// Counts the running skills.
#[derive(Clone, Default)]
pub struct RunSlots(Arc<SlotCounts>);

#[derive(Default)]
struct SlotCounts {
    running: Mutex<HashMap<TenantId, TenantSlots>>,
    freed: Notify,
}

/// The running skills of a tenant, and how many it may have.
#[derive(Clone, Copy, Default)]
struct TenantSlots {
    count: usize,
    limit: usize,
}

/// The place of one run. Dropping it gives the place back.
pub struct RunSlot {
    slots: RunSlots,
    tenant: TenantId,
}

impl RunSlots {
    /// A place, if the tenant has fewer runs than `limit`. The last places of the server are for tenants with few runs:
    /// a tenant gets one only while it has at most as many as are free.
    pub fn take(&self, tenant: &TenantId, limit: usize) -> Option<RunSlot> {
        let mut running = self.0.running.lock();
        let free = free(&running);
        let count = running.get(tenant).map_or(0, |slots| slots.count);
        if count >= limit || count >= free {
            return None;
        }
        running.insert(tenant.clone(), TenantSlots { count: count + 1, limit });
        Some(RunSlot { slots: self.clone(), tenant: tenant.clone() })
    }

    /// Waits for a place. For runs that were accepted before, which must not be refused any more.
    pub async fn wait_for(&self, tenant: &TenantId, limit: usize) -> RunSlot {
        loop {
            // Registered before the look, so that no place is missed that becomes free in between.
            let mut freed = std::pin::pin!(self.0.freed.notified());
            freed.as_mut().enable();
            if let Some(slot) = self.take(tenant, limit) {
                return slot;
            }
            freed.await;
        }
    }

    /// Ends when some place becomes free.
    pub fn freed(&self) -> Notified<'_> {
        self.0.freed.notified()
    }

    /// Tenants that get no place now. `None` if nobody does.
    pub fn full(&self) -> Option<Vec<TenantId>> {
        let running = self.0.running.lock();
        let free = free(&running);
        let is_full = |slots: &TenantSlots| slots.count >= slots.limit.min(free);
        let full = running.iter().filter(|(_, slots)| is_full(slots)).map(|(tenant, _)| tenant.clone());
        (free > 0).then(|| full.collect())
    }
}

fn free(running: &HashMap<TenantId, TenantSlots>) -> usize {
    RUNS.saturating_sub(running.values().map(|slots| slots.count).sum())
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        let mut running = self.slots.0.running.lock();
        if let Some(slots) = running.get_mut(&self.tenant) {
            slots.count -= 1;
            if slots.count == 0 {
                running.remove(&self.tenant);
            }
        }
        drop(running);
        self.slots.0.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

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
        assert!(slots.0.running.lock().is_empty());
    }

    #[tokio::test]
    async fn an_accepted_run_waits_for_a_place_and_its_tenant_counts_as_full_meanwhile() {
        let slots = RunSlots::default();
        let acme = TenantId::from("acme");
        assert_eq!(slots.full(), Some(Vec::new()));
        let place = slots.take(&acme, 1).unwrap();
        assert_eq!(slots.full(), Some(vec![acme.clone()]));
        let mut waiting = std::pin::pin!(slots.wait_for(&acme, 1));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(place);
        drop(waiting.await);
        assert_eq!(slots.full(), Some(Vec::new()));
    }
}

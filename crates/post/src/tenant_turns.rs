//! Per-tenant limit on requests that are stored at the same time.
//!
//! Every running request makes all others wait longer: for a worker, for the ledger's writer, for the disk. Requests
//! of a tenant above this limit wait in a queue of that tenant instead. A request gives its turn back before it waits
//! for an agent.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use posthouse_wire::TenantId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Requests of one tenant that are stored at the same time. Enough for several thousand a second.
const PER_TENANT: usize = 8;
/// Number of remembered tenants above which those without requests are forgotten.
const REMEMBERED: usize = 1024;

#[derive(Default)]
pub(crate) struct TenantTurns(Mutex<Semaphores>);

#[derive(Default)]
struct Semaphores {
    tenants: HashMap<TenantId, Weak<Semaphore>>,
    /// Number of tenants that remained after the last cleanup.
    left: usize,
}

/// A request's turn, until it is dropped.
pub(crate) struct TenantTurn {
    _permit: Option<OwnedSemaphorePermit>,
}

impl TenantTurns {
    /// Waits for a turn of this tenant.
    pub async fn turn(&self, tenant: &TenantId) -> TenantTurn {
        let turns = self.0.lock().of(tenant);
        // The semaphore is never closed, so this always succeeds.
        TenantTurn { _permit: turns.acquire_owned().await.ok() }
    }
}

impl Semaphores {
    fn of(&mut self, tenant: &TenantId) -> Arc<Semaphore> {
        if let Some(turns) = self.tenants.get(tenant).and_then(Weak::upgrade) {
            return turns;
        }
        // Only after the number has doubled since the last cleanup, so that the amortized cost per tenant is constant.
        if self.tenants.len() >= REMEMBERED.max(2 * self.left) {
            self.tenants.retain(|_, turns| turns.strong_count() > 0);
            self.left = self.tenants.len();
        }
        let turns = Arc::new(Semaphore::new(PER_TENANT));
        self.tenants.insert(tenant.clone(), Arc::downgrade(&turns));
        turns
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_tenant_that_takes_all_its_turns_leaves_another_its_own() {
        let turns = TenantTurns::default();
        let (loud, quiet) = (TenantId::new("ten_loud"), TenantId::new("ten_quiet"));
        let mut taken = Vec::new();
        for _ in 0..PER_TENANT {
            taken.push(turns.turn(&loud).await);
        }
        let mut next = Box::pin(turns.turn(&loud));
        assert!(next.as_mut().now_or_never().is_none(), "it has to wait for one of its own");
        assert!(turns.turn(&quiet).now_or_never().is_some());
        taken.pop();
        assert!(next.as_mut().now_or_never().is_some());
    }

    #[tokio::test]
    async fn tenants_without_requests_are_forgotten() {
        let turns = TenantTurns::default();
        let busy = turns.turn(&"ten_busy".into()).await;
        for number in 0..10 * REMEMBERED {
            turns.turn(&format!("ten_{number}").into()).await;
        }
        assert!(turns.0.lock().tenants.len() <= REMEMBERED);
        assert!(turns.0.lock().tenants.contains_key(&TenantId::new("ten_busy")));
        drop(busy);
    }
}

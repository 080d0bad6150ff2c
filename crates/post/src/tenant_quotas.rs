//! Quotas of a tenant: messages per minute, requests that are stored at once, storage, and open questions.
//!
//! Every running request makes all others wait longer: for a worker, for the ledger's writer, for the disk. Requests
//! of a tenant above the limit wait in a queue of that tenant instead. A request gives its turn back before it waits
//! for an agent.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use identity::{OverQuota, QuotaKind, Quotas};
use ledger::Usage;
use parking_lot::Mutex;
use posthouse_wire::{InstanceId, TenantId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Refused;
use crate::fault::STORAGE_FULL;

/// Requests of one tenant that are stored at the same time. Enough for several thousand a second.
const PER_TENANT: usize = 8;
/// Number of remembered tenants above which those without requests are forgotten.
const REMEMBERED: usize = 1024;

/// The quotas that everything stored for a program counts against.
pub(crate) struct TenantQuotas {
    turns: Mutex<Semaphores>,
    usage: Arc<dyn Usage>,
    rates: Quotas,
    open_questions: u32,
}

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

impl TenantQuotas {
    pub fn new(usage: Arc<dyn Usage>, rates: Quotas, open_questions: u32) -> Self {
        Self { turns: Mutex::default(), usage, rates, open_questions }
    }

    /// Counts one message to an agent of this tenant. Messages of people count against the same limits.
    pub async fn message(&self, tenant: &TenantId, to: Option<&InstanceId>) -> Result<(), OverQuota> {
        self.rates.take(QuotaKind::Message, tenant, to).await
    }

    /// Waits until a request of this tenant may be stored. Refused if the tenant has used up its storage.
    pub async fn turn_with_room(&self, tenant: &TenantId) -> Result<TenantTurn, Refused> {
        match self.has_room(tenant) {
            true => Ok(self.turn(tenant).await),
            false => Err(Refused::OverQuota(STORAGE_FULL)),
        }
    }

    /// Waits until a request of this tenant may be stored.
    pub async fn turn(&self, tenant: &TenantId) -> TenantTurn {
        let turns = self.turns.lock().of(tenant);
        // The semaphore is never closed, so this always succeeds.
        TenantTurn { _permit: turns.acquire_owned().await.ok() }
    }

    /// Whether the tenant is below its storage limit.
    pub fn has_room(&self, tenant: &TenantId) -> bool {
        self.usage.of_tenant(tenant).has_room()
    }

    /// The largest number of open questions of one tenant.
    pub fn open_questions(&self) -> u32 {
        self.open_questions
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
    use crate::tests::fixtures::Fixture;

    async fn quotas() -> Arc<TenantQuotas> {
        Fixture::open().await.quotas()
    }

    #[tokio::test]
    async fn a_tenant_that_takes_all_its_turns_leaves_another_its_own() {
        let quotas = quotas().await;
        let (loud, quiet) = (TenantId::new("ten_loud"), TenantId::new("ten_quiet"));
        let mut taken = Vec::new();
        for _ in 0..PER_TENANT {
            taken.push(quotas.turn(&loud).await);
        }
        let mut next = Box::pin(quotas.turn(&loud));
        assert!(next.as_mut().now_or_never().is_none(), "it has to wait for one of its own");
        assert!(quotas.turn(&quiet).now_or_never().is_some());
        taken.pop();
        assert!(next.as_mut().now_or_never().is_some());
    }

    #[tokio::test]
    async fn tenants_without_requests_are_forgotten() {
        let quotas = quotas().await;
        let busy = quotas.turn(&"ten_busy".into()).await;
        for number in 0..10 * REMEMBERED {
            quotas.turn(&format!("ten_{number}").into()).await;
        }
        assert!(quotas.turns.lock().tenants.len() <= REMEMBERED);
        assert!(quotas.turns.lock().tenants.contains_key(&TenantId::new("ten_busy")));
        drop(busy);
    }
}

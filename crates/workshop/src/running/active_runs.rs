//! Runs under way: every run that has begun and not ended, from its claim to its stored end. These can be cancelled.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use posthouse_wire::{RunId, TenantId};
use tokio_util::sync::CancellationToken;

/// All runs under way. A cheap handle to clone.
#[derive(Clone, Default)]
pub struct ActiveRuns(Arc<Mutex<HashMap<RunId, ListedRun>>>);

struct ListedRun {
    tenant: TenantId,
    cancelled: CancellationToken,
    is_cancel_requested: Arc<AtomicBool>,
}

/// One run under way. Dropping it removes the run from the list.
pub struct ActiveRun {
    pub id: RunId,
    /// Cancelled when somebody cancels the run, and when the server stops.
    pub cancelled: CancellationToken,
    /// What its record said when it was taken from the queue. `None` for a run that somebody waits for.
    pub queued: Option<QueuedRun>,
    /// Whether somebody cancelled it. The server may stop at the same time.
    is_cancel_requested: Arc<AtomicBool>,
    list: ActiveRuns,
}

/// What the record of a queued run said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedRun {
    pub is_repeatable: bool,
}

impl ActiveRuns {
    pub fn add(
        &self,
        tenant: &TenantId,
        id: RunId,
        cancelled: CancellationToken,
        queued: Option<QueuedRun>,
    ) -> ActiveRun {
        let is_cancel_requested = Arc::<AtomicBool>::default();
        let listed = ListedRun {
            tenant: tenant.clone(),
            cancelled: cancelled.clone(),
            is_cancel_requested: Arc::clone(&is_cancel_requested),
        };
        self.0.lock().insert(id.clone(), listed);
        ActiveRun { id, cancelled, queued, is_cancel_requested, list: self.clone() }
    }

    /// False if the tenant has no such run under way.
    pub fn cancel(&self, tenant: &TenantId, id: &RunId) -> bool {
        let runs = self.0.lock();
        let found = runs.get(id).filter(|listed| listed.tenant == *tenant);
        let cancel = |listed: &&ListedRun| {
            listed.is_cancel_requested.store(true, Ordering::Release);
            listed.cancelled.cancel();
        };
        found.inspect(cancel).is_some()
    }
}

impl ActiveRun {
    /// Whether somebody cancelled it, as opposed to a server that stops.
    pub fn was_cancelled(&self) -> bool {
        self.is_cancel_requested.load(Ordering::Acquire)
    }
}

impl Drop for ActiveRun {
    fn drop(&mut self) {
        self.list.0.lock().remove(&self.id);
    }
}

//! Runs under way: every run that has begun and not ended, from its claim to its stored end. These can be cancelled.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use posthouse_wire::{RunId, TenantId};
use tokio_util::sync::CancellationToken;

/// All runs under way. A cheap handle to clone.
#[derive(Clone, Default)]
pub struct ActiveRuns(Arc<Mutex<HashMap<RunId, (TenantId, CancellationToken)>>>);

/// One run under way. Dropping it removes the run from the list.
pub struct ActiveRun {
    pub id: RunId,
    /// Cancelled when somebody cancels the run, and when the server stops.
    pub cancelled: CancellationToken,
    /// What its record said when it was taken from the queue. `None` for a run that somebody waits for.
    pub queued: Option<QueuedRun>,
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
        self.0.lock().insert(id.clone(), (tenant.clone(), cancelled.clone()));
        ActiveRun { id, cancelled, queued, list: self.clone() }
    }

    /// False if the tenant has no such run under way.
    pub fn cancel(&self, tenant: &TenantId, id: &RunId) -> bool {
        let runs = self.0.lock();
        let found = runs.get(id).filter(|(owner, _)| owner == tenant);
        found.inspect(|(_, token)| token.cancel()).is_some()
    }
}

impl Drop for ActiveRun {
    fn drop(&mut self) {
        self.list.0.lock().remove(&self.id);
    }
}

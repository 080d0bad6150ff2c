//! Acknowledgements of entries: committing them, and callers that wait for one.

mod ack_waiters;

use std::sync::Arc;
use std::time::Duration;

use ledger::{Acknowledgement, Inbox};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::{EntryId, InstanceId};

use crate::{Fault, Metrics};
use ack_waiters::AckWaiters;

/// Commits what agents acknowledge, and tells those who wait for it.
pub struct Acknowledgements {
    inbox: Arc<dyn Inbox>,
    waiters: AckWaiters,
    metrics: Arc<Metrics>,
    timepiece: Timepiece,
}

impl Acknowledgements {
    pub(crate) fn new(inbox: Arc<dyn Inbox>, metrics: Arc<Metrics>, timepiece: Timepiece) -> Self {
        Self { inbox, waiters: AckWaiters::default(), metrics, timepiece }
    }

    /// Commits acknowledgements of an agent. The server's responsibility for the entries ends with the commit.
    pub(crate) async fn commit(
        &self,
        by: &InstanceId,
        acknowledged: Vec<Acknowledgement>,
    ) -> Result<(), Fault> {
        let entries: Vec<EntryId> =
            acknowledged.iter().map(|acknowledged| acknowledged.entry.clone()).collect();
        let gone = self.inbox.acknowledge(by, acknowledged).await?;
        self.waiters.tell(&entries);
        self.metrics.entries_acknowledged.inc_by(gone.entries.unsigned_abs());
        Ok(())
    }

    /// Waits until the agent's acknowledgement of this entry is committed, and returns its time. `None` when that did
    /// not happen in time. An earlier acknowledgement is found in the ledger.
    pub async fn wait_for(&self, entry: &EntryId, within: Duration) -> Result<Option<Moment>, Fault> {
        let mut waiting = self.waiters.wait_for(entry);
        // Read after registering, so that no commit is missed in between.
        if let Some(at) = self.inbox.acknowledged_at(entry).await? {
            return Ok(Some(at));
        }
        if within.is_zero() {
            return Ok(None);
        }
        let _ = self.timepiece.within(within, waiting.committed()).await;
        // The notification is only a hint, and does not come from other nodes. The ledger decides.
        Ok(self.inbox.acknowledged_at(entry).await?)
    }
}

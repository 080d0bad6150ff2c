//! Acknowledgements of entries: committing them, and callers that wait for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use ledger::{Acknowledgement, Inbox};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::{EntryId, InstanceId};
use tokio::sync::watch;

use crate::{Fault, Metrics};

/// Pause between two attempts to commit acknowledgements while the ledger fails.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Commits what agents acknowledge, and tells those who wait for it.
pub struct Acknowledgements {
    inbox: Arc<dyn Inbox>,
    /// Callers that wait for the acknowledgement of an entry.
    waiters: DashMap<EntryId, watch::Sender<bool>>,
    /// Number of waiting callers. While there are none, an acknowledgement needs no lookup.
    waiting: AtomicUsize,
    metrics: Arc<Metrics>,
    timepiece: Timepiece,
}

impl Acknowledgements {
    pub(crate) fn new(inbox: Arc<dyn Inbox>, metrics: Arc<Metrics>, timepiece: Timepiece) -> Self {
        Self { inbox, waiters: DashMap::new(), waiting: AtomicUsize::new(0), metrics, timepiece }
    }

    /// Commits acknowledgements, and retries until the ledger succeeds: an acknowledged entry must not be delivered
    /// again.
    pub(crate) async fn store(self: Arc<Self>, by: InstanceId, acknowledged: Vec<Acknowledgement>) {
        while let Err(fault) = self.commit(&by, &acknowledged).await {
            if let Fault::Ledger(ledger::Fault::Closed) = fault {
                return;
            }
            tracing::error!(%fault, "could not store acknowledgements; trying again");
            self.timepiece.after(RETRY_PAUSE).await;
        }
    }

    /// Commits acknowledgements of an agent. The server's responsibility for the entries ends with the commit.
    pub(crate) async fn commit(
        &self,
        by: &InstanceId,
        acknowledged: &[Acknowledgement],
    ) -> Result<(), Fault> {
        let gone = self.inbox.acknowledge(by, acknowledged.to_vec()).await?;
        if self.waiting.load(Ordering::Acquire) > 0 {
            for committed in acknowledged.iter().filter_map(|one| self.waiters.get(&one.entry)) {
                committed.send_replace(true);
            }
        }
        self.metrics.entries_acknowledged.inc_by(gone.entries.unsigned_abs());
        Ok(())
    }

    /// Waits until the agent's acknowledgement of this entry is committed, and returns its time. `None` when that did
    /// not happen in time. An earlier acknowledgement is found in the ledger.
    pub async fn wait_for(&self, entry: &EntryId, within: Duration) -> Result<Option<Moment>, Fault> {
        let mut waiter = AckWaiter::new(self, entry);
        // Read after registering, so that no commit is missed in between.
        if let Some(at) = self.inbox.acknowledged_at(entry).await? {
            return Ok(Some(at));
        }
        if within.is_zero() {
            return Ok(None);
        }
        let _ = self.timepiece.within(within, waiter.committed()).await;
        // The notification is only a hint, and does not come from other nodes. The ledger decides.
        Ok(self.inbox.acknowledged_at(entry).await?)
    }
}

/// One waiting caller. The last one of an entry removes the entry from the map.
struct AckWaiter<'a> {
    acknowledgements: &'a Acknowledgements,
    entry: &'a EntryId,
    committed: Option<watch::Receiver<bool>>,
}

impl<'a> AckWaiter<'a> {
    fn new(acknowledgements: &'a Acknowledgements, entry: &'a EntryId) -> Self {
        acknowledgements.waiting.fetch_add(1, Ordering::AcqRel);
        let waiters = acknowledgements.waiters.entry(entry.clone());
        let committed = waiters.or_insert_with(|| watch::Sender::new(false)).subscribe();
        Self { acknowledgements, entry, committed: Some(committed) }
    }

    /// Completes when the acknowledgement was committed on this node.
    async fn committed(&mut self) {
        if let Some(committed) = self.committed.as_mut() {
            let _ = committed.wait_for(|acknowledged| *acknowledged).await;
        }
    }
}

impl Drop for AckWaiter<'_> {
    fn drop(&mut self) {
        self.committed = None;
        let is_last = |_: &EntryId, committed: &mut watch::Sender<bool>| committed.receiver_count() == 0;
        self.acknowledgements.waiters.remove_if_mut(self.entry, is_last);
        self.acknowledgements.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::{Records, bot_of};

    use super::*;

    #[tokio::test]
    async fn who_waits_for_an_acknowledgement_gets_the_time_of_its_commit() {
        let records = Records::open().await;
        let heron = records.enrol("heron").await.instance;
        let acknowledgements =
            Acknowledgements::new(records.ledger.inbox(), Arc::default(), records.clock.clone());
        let entry = records.append(&heron, &bot_of("heron"), None).await;
        assert_eq!(acknowledgements.wait_for(&entry, Duration::ZERO).await.unwrap(), None);
        let acknowledged =
            [Acknowledgement { entry: entry.clone(), handed: records.clock.now(), place: None }];
        let (waited, committed) = tokio::join!(
            acknowledgements.wait_for(&entry, Duration::from_secs(60)),
            acknowledgements.commit(&heron, &acknowledged),
        );
        committed.unwrap();
        assert_eq!(waited.unwrap(), Some(records.clock.now()));
        assert_eq!(records.waiting(&heron).await, 0);
        assert_eq!(acknowledgements.metrics.entries_acknowledged.get(), 1);
        assert!(acknowledgements.waiters.is_empty(), "nobody waits any more");
    }
}

//! Acknowledgements of entries: committing them, and callers that wait for one.

mod ack_waiters;

use std::sync::Arc;
use std::time::Duration;

use ledger::{Acknowledgement, Inbox};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::{EntryId, InstanceId};

use crate::{Fault, Metrics};
use ack_waiters::AckWaiters;

/// Pause between two attempts to commit acknowledgements while the ledger fails.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

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
        self.waiters.tell(acknowledged);
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
    }
}

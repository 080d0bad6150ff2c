//! Callers that wait for the acknowledgement of one entry.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use posthouse_time::Moment;
use posthouse_wire::EntryId;
use tokio::sync::watch;

use crate::{Fault, Relay};

/// AckWaiter callers by entry. The count avoids a map lookup for every acknowledgement when nobody waits.
#[derive(Default)]
pub(crate) struct AckWaiters {
    waiting: DashMap<EntryId, watch::Sender<bool>>,
    count: AtomicUsize,
}

impl AckWaiters {
    /// Notifies the callers that wait for these entries, after their acknowledgement was committed.
    pub fn tell(&self, taken: &[EntryId]) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        for entry in taken {
            if let Some(waiting) = self.waiting.get(entry) {
                waiting.send_replace(true);
            }
        }
    }

    fn wait_for(&self, entry: &EntryId) -> AckWaiter<'_> {
        self.count.fetch_add(1, Ordering::AcqRel);
        let told = self.waiting.entry(entry.clone()).or_insert_with(|| watch::Sender::new(false)).subscribe();
        AckWaiter { taken: self, entry: entry.clone(), told: Some(told) }
    }
}

/// One waiting caller. The last one of an entry removes the entry from the map.
struct AckWaiter<'a> {
    taken: &'a AckWaiters,
    entry: EntryId,
    told: Option<watch::Receiver<bool>>,
}

impl Drop for AckWaiter<'_> {
    fn drop(&mut self) {
        self.told = None;
        self.taken.waiting.remove_if(&self.entry, |_, told| told.receiver_count() == 0);
        self.taken.count.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Relay {
    /// Waits until the agent's acknowledgement of this entry is committed. Returns false when that did not happen in
    /// time. An earlier acknowledgement is found in the ledger.
    pub async fn acknowledged_within(&self, entry: &EntryId, within: Duration) -> Result<bool, Fault> {
        Ok(self.acknowledged_at(entry, within).await?.is_some())
    }

    /// Same as [`Relay::acknowledged_within`], with the time of the acknowledgement.
    pub async fn acknowledged_at(&self, entry: &EntryId, within: Duration) -> Result<Option<Moment>, Fault> {
        let mut waiting = self.0.ack_waiters.wait_for(entry);
        // Read after registering, so that no commit is missed in between.
        if let Some(at) = self.0.inbox.acknowledged_at(entry).await? {
            return Ok(Some(at));
        }
        if within.is_zero() {
            return Ok(None);
        }
        let Some(told) = waiting.told.as_mut() else { return Ok(None) };
        let heard = async { told.wait_for(|taken| *taken).await.is_ok() };
        let _ = self.0.timepiece.within(within, heard).await;
        // The notification is only a hint, and does not come from other nodes. The ledger decides.
        Ok(self.0.inbox.acknowledged_at(entry).await?)
    }
}

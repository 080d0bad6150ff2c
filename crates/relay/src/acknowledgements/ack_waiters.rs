//! Callers that wait for the acknowledgement of one entry.

use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashMap;
use ledger::Acknowledgement;
use posthouse_wire::EntryId;
use tokio::sync::watch;

/// Waiting callers by entry. The count avoids a map lookup for every acknowledgement when nobody waits.
#[derive(Default)]
pub(super) struct AckWaiters {
    waiting: DashMap<EntryId, watch::Sender<bool>>,
    count: AtomicUsize,
}

impl AckWaiters {
    /// Notifies the callers that wait for these entries, after their acknowledgement was committed.
    pub fn tell(&self, acknowledged: &[Acknowledgement]) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        for Acknowledgement { entry, .. } in acknowledged {
            if let Some(waiting) = self.waiting.get(entry) {
                waiting.send_replace(true);
            }
        }
    }

    pub fn wait_for(&self, entry: &EntryId) -> AckWaiter<'_> {
        self.count.fetch_add(1, Ordering::AcqRel);
        let committed =
            self.waiting.entry(entry.clone()).or_insert_with(|| watch::Sender::new(false)).subscribe();
        AckWaiter { waiters: self, entry: entry.clone(), committed: Some(committed) }
    }
}

/// One waiting caller. The last one of an entry removes the entry from the map.
pub(super) struct AckWaiter<'a> {
    waiters: &'a AckWaiters,
    entry: EntryId,
    committed: Option<watch::Receiver<bool>>,
}

impl AckWaiter<'_> {
    /// Completes when the acknowledgement was committed on this node.
    pub async fn committed(&mut self) {
        if let Some(committed) = self.committed.as_mut() {
            let _ = committed.wait_for(|acknowledged| *acknowledged).await;
        }
    }
}

impl Drop for AckWaiter<'_> {
    fn drop(&mut self) {
        self.committed = None;
        self.waiters.waiting.remove_if(&self.entry, |_, committed| committed.receiver_count() == 0);
        self.waiters.count.fetch_sub(1, Ordering::AcqRel);
    }
}

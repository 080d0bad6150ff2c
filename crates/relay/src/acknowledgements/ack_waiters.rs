//! Callers that wait for the acknowledgement of one entry.

use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashMap;
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

    pub fn wait_for(&self, entry: &EntryId) -> AckWaiter<'_> {
        self.count.fetch_add(1, Ordering::AcqRel);
        let told = self.waiting.entry(entry.clone()).or_insert_with(|| watch::Sender::new(false)).subscribe();
        AckWaiter { waiters: self, entry: entry.clone(), told: Some(told) }
    }
}

/// One waiting caller. The last one of an entry removes the entry from the map.
pub(super) struct AckWaiter<'a> {
    waiters: &'a AckWaiters,
    entry: EntryId,
    told: Option<watch::Receiver<bool>>,
}

impl AckWaiter<'_> {
    /// Completes when the acknowledgement was committed on this node.
    pub async fn told(&mut self) {
        if let Some(told) = self.told.as_mut() {
            let _ = told.wait_for(|taken| *taken).await;
        }
    }
}

impl Drop for AckWaiter<'_> {
    fn drop(&mut self) {
        self.told = None;
        self.waiters.waiting.remove_if(&self.entry, |_, told| told.receiver_count() == 0);
        self.waiters.count.fetch_sub(1, Ordering::AcqRel);
    }
}

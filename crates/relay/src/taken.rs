//! Who waits for an agent to take one particular entry.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use posthouse_wire::EntryId;
use tokio::sync::watch;

use crate::{Fault, Relay};

/// Waiting callers by entry; a count beside the map, since every acknowledgement of every agent asks.
#[derive(Default)]
pub(crate) struct Taken {
    waiting: DashMap<EntryId, watch::Sender<bool>>,
    count: AtomicUsize,
}

impl Taken {
    /// Their acknowledgement is committed. Most of the time nobody waits for any of them.
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

    fn wait_for(&self, entry: &EntryId) -> Waiting<'_> {
        self.count.fetch_add(1, Ordering::AcqRel);
        let told = self.waiting.entry(entry.clone()).or_insert_with(|| watch::Sender::new(false)).subscribe();
        Waiting { taken: self, entry: entry.clone(), told: Some(told) }
    }
}

/// One caller's place; the last one to leave takes the entry's along.
struct Waiting<'a> {
    taken: &'a Taken,
    entry: EntryId,
    told: Option<watch::Receiver<bool>>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.told = None;
        self.taken.waiting.remove_if(&self.entry, |_, told| told.receiver_count() == 0);
        self.taken.count.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Relay {
    /// Waits until the agent's acknowledgement of this entry is committed; false when that did not happen
    /// in time. One that was taken before is found in the ledger.
    pub async fn taken(&self, entry: &EntryId, within: Duration) -> Result<bool, Fault> {
        let mut waiting = self.0.taken.wait_for(entry);
        // Only now: what is committed from here on is heard.
        if self.is_taken(entry).await? {
            return Ok(true);
        }
        let Some(told) = waiting.told.as_mut() else { return Ok(false) };
        let heard = async { told.wait_for(|taken| *taken).await.is_ok() };
        let _ = self.0.timepiece.within(within, heard).await;
        // The word is only a nudge, and one from another node is not heard: what counts is on record.
        self.is_taken(entry).await
    }

    async fn is_taken(&self, entry: &EntryId) -> Result<bool, Fault> {
        let story = self.0.traces.entry(entry).await?;
        Ok(story.is_some_and(|story| story.steps.iter().any(|step| step.what == "acknowledged")))
    }
}

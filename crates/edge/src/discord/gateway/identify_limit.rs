//! Identify limit: Discord accepts only a few new sessions of a bot every five seconds.

use std::time::Duration;

use posthouse_time::{Instant, Timepiece};
use tokio::sync::{Mutex, MutexGuard};

const PERIOD: Duration = Duration::from_secs(5);

/// For each of the parallel slots, the time at which it is free again. A slot is locked while a shard connects with it.
pub(super) struct IdentifyLimit {
    slots: Vec<Mutex<Option<Instant>>>,
    timepiece: Timepiece,
}

/// The turn of a shard to connect and to identify. If it is dropped without that, the next shard has its turn at once.
pub(super) struct IdentifyTurn<'a> {
    slot: MutexGuard<'a, Option<Instant>>,
    timepiece: &'a Timepiece,
}

impl IdentifyLimit {
    pub fn new(at_once: u32, timepiece: Timepiece) -> Self {
        let slots = (0..at_once.clamp(1, 1000)).map(|_| Mutex::default()).collect();
        Self { slots, timepiece }
    }

    /// Waits until this shard may identify. Shards wait before they connect, because a connection that waits without a
    /// session is closed for its missing heartbeats.
    pub async fn turn(&self, shard: u32) -> IdentifyTurn<'_> {
        let slot = self.slots[shard as usize % self.slots.len()].lock().await;
        if let Some(free) = *slot {
            self.timepiece.after(free.since(self.timepiece.instant())).await;
        }
        IdentifyTurn { slot, timepiece: &self.timepiece }
    }
}

impl IdentifyTurn<'_> {
    /// Ends the turn of a shard that identifies now.
    pub fn used(mut self) {
        *self.slot = Some(self.timepiece.instant() + PERIOD);
    }
}

//! Identify limit: Discord accepts only a few new sessions of a bot every five seconds.

use std::time::Duration;

use parking_lot::Mutex;
use posthouse_time::{Instant, Timepiece};

const PERIOD: Duration = Duration::from_secs(5);

/// For each of the parallel slots, the time at which it is free again.
pub(super) struct IdentifyLimit {
    places: Mutex<Vec<Option<Instant>>>,
    timepiece: Timepiece,
}

impl IdentifyLimit {
    pub fn new(at_once: u32, timepiece: Timepiece) -> Self {
        let places = vec![None; at_once.clamp(1, 1000) as usize];
        Self { places: Mutex::new(places), timepiece }
    }

    /// Waits until this shard may identify.
    pub async fn wait(&self, shard: u32) {
        let now = self.timepiece.instant();
        let wait = {
            let mut places = self.places.lock();
            let place = shard as usize % places.len();
            let turn = places[place].filter(|free| *free > now).unwrap_or(now);
            places[place] = Some(turn + PERIOD);
            turn.since(now)
        };
        self.timepiece.after(wait).await;
    }
}

//! Steps of the wall clock: how they are noticed.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use posthouse_time::{Instant, Timepiece};

use crate::Fault;
use crate::background::ClockTasks;
use crate::config::micros;
use crate::heap::Heap;

/// How often the clock checks whether the wall clock was set.
const STEP_LOOK: Duration = Duration::from_secs(5);
/// Smallest change that counts as a step of the wall clock.
const STEP_US: u64 = 1_000_000;

/// Difference between the wall clock and the monotonic clock when the main loop last checked, in microseconds. It
/// changes when the wall clock is set.
pub(crate) struct WallClock {
    lead: AtomicI64,
    timepiece: Timepiece,
}

impl WallClock {
    pub fn new(timepiece: Timepiece) -> Self {
        Self { lead: AtomicI64::new(lead(&timepiece)), timepiece }
    }

    /// Whether the wall clock was set since the last call of [`WallClock::follow_step`].
    pub fn was_set(&self) -> bool {
        self.lead.load(Ordering::Relaxed).abs_diff(lead(&self.timepiece)) > STEP_US
    }

    /// Takes the wall clock as it is from now on. Returns the difference from before if it was set meanwhile.
    pub fn follow_step(&self) -> Option<i64> {
        let lead = lead(&self.timepiece);
        let before = self.lead.swap(lead, Ordering::Relaxed);
        (before.abs_diff(lead) > STEP_US).then_some(before)
    }

    /// Makes the next call of [`WallClock::follow_step`] see a step again.
    pub fn undo(&self, before: i64) {
        self.lead.store(before, Ordering::Relaxed);
    }

    /// Wakes the main loop when the wall clock was set, because the loop may not notice this while it sleeps.
    pub async fn keep_watch(&self, heap: &Heap, background: &ClockTasks) -> Result<(), Fault> {
        loop {
            tokio::select! {
                () = background.closing.cancelled() => return Ok(()),
                () = self.timepiece.after(STEP_LOOK) => {}
            }
            // Compared with the value that the main loop uses: it may have seen a step that was undone since.
            if self.was_set() {
                heap.nudge.notify_one();
            }
        }
    }
}

fn lead(timepiece: &Timepiece) -> i64 {
    let (wall, instant) = timepiece.readings();
    wall.millis().saturating_mul(1000).saturating_sub(micros(instant.since(Instant::default())))
}

#[cfg(test)]
mod tests {
    use posthouse_time::Moment;

    use super::*;

    #[test]
    fn a_step_of_the_wall_clock_is_seen_once_and_passing_time_is_none() {
        let timepiece = Timepiece::wound(Moment::from_seconds(1_800_000_000));
        let wall_clock = WallClock::new(timepiece.clone());
        timepiece.wind(Duration::from_secs(3600));
        assert!(!wall_clock.was_set() && wall_clock.follow_step().is_none());
        timepiece.set(Moment::from_seconds(1_700_000_000));
        assert!(wall_clock.was_set());
        let before = wall_clock.follow_step().unwrap();
        assert!(wall_clock.follow_step().is_none());
        wall_clock.undo(before);
        assert!(wall_clock.was_set(), "a step that could not be handled is seen again");
    }
}

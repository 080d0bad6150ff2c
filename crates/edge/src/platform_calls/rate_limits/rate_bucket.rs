//! One bucket of a rate limit: the calls that are left, and when there are more.

use std::collections::VecDeque;
use std::time::Duration;

use posthouse_time::Instant;

/// Longest period that is assumed for a bucket about which the platform has said nothing since it was filled.
const LONGEST_ASSUMED: Duration = Duration::from_secs(10);

/// How a bucket is filled again.
#[derive(Clone, Debug)]
pub(super) enum Refill {
    /// By a limit that is known beforehand: so many calls in any time as long as the period. The times of the last
    /// calls are kept.
    Known { recent: VecDeque<Instant>, calls: u32, period: Duration },
    /// By what the platform announces: a new period begins with the most that it announced.
    Announced {
        calls: u32,
        period: Duration,
        /// The platform has said nothing about this period yet.
        is_assumed: bool,
    },
    /// At once. The bucket only has a pause that the platform asked for.
    Unlimited,
}

/// The calls that can be made now, and the time at which there are more.
#[derive(Clone, Debug)]
pub(super) struct RateBucket {
    pub left: u32,
    pub filled_at: Instant,
    pub refill: Refill,
}

impl RateBucket {
    /// Counts the calls that are left now. A call that waited is checked like any other, because one period does not
    /// hold all that waited.
    pub fn refill(&mut self, now: Instant) {
        let is_filled = self.filled_at <= now;
        match &mut self.refill {
            Refill::Known { recent, calls, period } => {
                while recent.front().is_some_and(|called| *called + *period <= now) {
                    recent.pop_front();
                }
                if is_filled {
                    self.left = calls.saturating_sub(recent.len() as u32);
                    if self.left == 0 {
                        self.filled_at = recent.front().map_or(now, |first| *first) + *period;
                    }
                }
            }
            Refill::Announced { calls, period, is_assumed } if is_filled => {
                self.left = *calls;
                self.filled_at = now + *period;
                *is_assumed = true;
            }
            Refill::Unlimited if is_filled => self.left = u32::MAX,
            _ => {}
        }
    }

    pub fn take(&mut self, now: Instant) {
        self.left -= 1;
        if let Refill::Known { recent, period, .. } = &mut self.refill {
            recent.push_back(now);
            if self.left == 0 {
                self.filled_at = recent.front().map_or(now, |first| *first) + *period;
            }
        }
    }

    /// Takes over what the platform announced. Responses may overtake each other: within one period the smaller number
    /// is the newer one.
    pub fn learn(&mut self, left: u32, filled_after: Duration, now: Instant) {
        let filled_at = now + filled_after;
        let runs = self.filled_at > now;
        let Refill::Announced { calls, period, is_assumed } = &mut self.refill else {
            return self.pause(filled_at, now);
        };
        (self.left, self.filled_at) = match runs {
            true if *is_assumed => (self.left.min(left), filled_at),
            true => (self.left.min(left), self.filled_at.max(filled_at)),
            false => (left, filled_at),
        };
        *is_assumed = false;
        *calls = (*calls).max(left.saturating_add(1));
        *period = (*period).max(filled_after).min(LONGEST_ASSUMED);
    }

    /// Allows no call until this time.
    pub fn pause(&mut self, until: Instant, now: Instant) {
        self.filled_at =
            if self.left == 0 && self.filled_at > now { self.filled_at.max(until) } else { until };
        self.left = 0;
    }
}

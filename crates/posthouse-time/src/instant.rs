//! `Instant`: a reading of the monotonic clock, for durations and deadlines.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A point on the monotonic clock of one [`Timepiece`](crate::Timepiece). It never goes back, and a step of
/// the wall clock does not move it, so every duration in memory is measured with it. It has no meaning in
/// another process; stored times use a [`Moment`](crate::Moment).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(Duration);

impl Instant {
    /// Later than any reading: a deadline that is never reached.
    pub const NEVER: Self = Self(Duration::MAX);

    pub(crate) const fn from_origin(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// Time since `earlier`; zero if `earlier` is in the future.
    pub fn since(self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, by: Duration) -> Instant {
        Instant(self.0.saturating_add(by))
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;
    fn sub(self, by: Duration) -> Instant {
        Instant(self.0.saturating_sub(by))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        let start = Instant::default();
        assert_eq!(start - Duration::from_secs(1), start);
        assert_eq!(Instant::NEVER + Duration::from_secs(1), Instant::NEVER);
        assert_eq!(start.since(start + Duration::from_secs(1)), Duration::ZERO);
        assert_eq!((start + Duration::from_secs(9)).since(start), Duration::from_secs(9));
    }
}

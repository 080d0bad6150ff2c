//! `Moment`: a wall clock time in milliseconds.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// Milliseconds since the Unix epoch, in UTC. The ledger stores and compares times in this form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(i64);

impl Moment {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Whole seconds, rounded down: the unit of tokens and signatures.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Time since `earlier`; zero if `earlier` is in the future.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;
    fn add(self, by: Duration) -> Moment {
        Moment(self.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Moment;
    fn sub(self, by: Duration) -> Moment {
        Moment(self.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }
}

/// RFC 3339 in UTC with milliseconds.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(timestamp) => write!(f, "{timestamp:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_prints_as_rfc_3339_with_milliseconds() {
        assert_eq!(Moment::from_millis(1_765_000_000_007).to_string(), "2025-12-06T05:46:40.007Z");
        assert_eq!(Moment::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        let end = Moment::from_millis(i64::MAX);
        assert_eq!(end + Duration::from_secs(1), end);
        assert_eq!(Moment::from_millis(5).since(Moment::from_millis(9)), Duration::ZERO);
        assert_eq!(Moment::from_millis(-1).seconds(), -1);
    }
}

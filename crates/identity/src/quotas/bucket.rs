//! A token bucket: a minute's worth may come at once, and then as much as the rate refills.

use std::time::Duration;

use posthouse_time::Instant;

pub(super) const MINUTE: Duration = Duration::from_secs(60);

/// One bucket. It stores only the time until which everything taken so far is paid for, so a change of the limit takes
/// effect at once, and a bucket that is full again equals a new one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bucket {
    paid_until: Instant,
}

impl Bucket {
    /// How long to wait until this fits. `None` when it fits now.
    pub fn wait(&self, cost: Option<Duration>, now: Instant) -> Option<Duration> {
        let Some(cost) = cost else { return Some(MINUTE) };
        let ahead = self.paid_until.since(now) + cost;
        ahead.checked_sub(MINUTE).filter(|wait| !wait.is_zero())
    }

    pub fn charge(&mut self, cost: Duration, now: Instant) {
        self.paid_until = self.paid_until.max(now) + cost;
    }

    pub fn is_full(&self, now: Instant) -> bool {
        self.paid_until <= now
    }

    /// How much of the limit is taken now.
    pub fn used(&self, limit: u32, now: Instant) -> u32 {
        let part = self.paid_until.since(now).as_secs_f64() / MINUTE.as_secs_f64();
        // The last nanoseconds of a minute that the limit does not divide evenly do not count as one more.
        (part * f64::from(limit) - 1e-3).ceil() as u32
    }
}

/// The part of a minute that this takes up. `None` when the limit allows nothing.
pub(super) fn cost(limit: u32, tenths: u32) -> Option<Duration> {
    let minute = u64::try_from(MINUTE.as_nanos()).unwrap_or(u64::MAX);
    let nanos = (minute * u64::from(tenths)).checked_div(10 * u64::from(limit))?;
    Some(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many fit at once.
    fn fitting(bucket: &mut Bucket, limit: u32, tenths: u32, now: Instant) -> u32 {
        let cost = cost(limit, tenths);
        let mut fitting = 0;
        while bucket.wait(cost, now).is_none() {
            bucket.charge(cost.unwrap(), now);
            fitting += 1;
        }
        fitting
    }

    #[test]
    fn a_minutes_worth_fits_at_once_and_then_what_the_rate_refills() {
        for limit in [1, 7, 600, 6_000] {
            let (mut bucket, now) = (Bucket::default(), Instant::default() + 1000 * MINUTE);
            assert_eq!(fitting(&mut bucket, limit, 10, now), limit);
            assert_eq!(bucket.used(limit, now), limit);
            let wait = bucket.wait(cost(limit, 10), now).unwrap();
            assert!(wait <= MINUTE / limit, "{wait:?}");
            assert_eq!(fitting(&mut bucket, limit, 10, now + wait), 1);
            let much_later = now + 10 * MINUTE;
            assert!(bucket.is_full(much_later));
            assert_eq!(fitting(&mut bucket, limit, 10, much_later), limit, "pauses are not saved up");
        }
    }

    #[test]
    fn a_tenth_costs_a_tenth_and_nothing_fits_into_a_limit_of_zero() {
        let (mut bucket, now) = (Bucket::default(), Instant::default());
        assert_eq!(fitting(&mut bucket, 60, 1, now), 600);
        assert_eq!(Bucket::default().wait(cost(0, 1), now), Some(MINUTE));
    }

    #[test]
    fn a_limit_that_is_raised_takes_effect_at_once() {
        let (mut bucket, now) = (Bucket::default(), Instant::default());
        fitting(&mut bucket, 1, 10, now);
        let second = now + Duration::from_secs(1);
        assert!(bucket.wait(cost(1, 10), second).is_some());
        assert_eq!(fitting(&mut bucket, 600, 10, second), 10);
    }
}

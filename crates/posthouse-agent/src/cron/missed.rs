//! Missed runs: which of the times that have passed are run later.

use std::iter::successors;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::schedule::{Schedule, ScheduleKind};
use crate::jobs::{Missed, Policy};

/// Most runs of one backlog. Of a longer one, the oldest are run.
const MOST: usize = 1000;

/// The times to run now for a job that was due at `first`, oldest first. Empty if the run is to be skipped.
pub(super) fn missed_runs(
    policy: &Policy,
    schedule: &Schedule,
    first: Timestamp,
    now: Timestamp,
    zone: &TimeZone,
) -> Vec<Timestamp> {
    let earliest = earliest(policy, now);
    match policy.missed {
        // Claimed under the time that was due, so that a late fire for it finds it settled.
        Missed::Once => vec![first],
        Missed::Skip => {
            let latest = latest(schedule, first, now, zone);
            Vec::from_iter((latest >= earliest).then_some(latest))
        }
        Missed::All => {
            let times =
                successors(not_before(schedule, first, earliest, zone), |at| schedule.after(*at, zone));
            times.take_while(|at| *at <= now).take(MOST).collect()
        }
    }
}

/// The first time to arm for a job that may be overdue. The portal gets no times that the policy would
/// skip: it gets a limited number of times and could otherwise reach their end before the present.
pub(super) fn start(
    policy: &Policy,
    schedule: &Schedule,
    first: Timestamp,
    now: Timestamp,
    zone: &TimeZone,
) -> Option<Timestamp> {
    if first > now {
        return Some(first);
    }
    match policy.missed {
        Missed::Once => Some(latest(schedule, first, now, zone)),
        Missed::Skip | Missed::All => not_before(schedule, first, earliest(policy, now), zone),
    }
}

/// The beginning of the policy's window.
fn earliest(policy: &Policy, now: Timestamp) -> Timestamp {
    now.checked_sub(SignedDuration::from_micros(policy.window_us())).unwrap_or(Timestamp::MIN)
}

/// The first time that is not before `earliest`, found without counting through all earlier ones.
fn not_before(
    schedule: &Schedule,
    first: Timestamp,
    earliest: Timestamp,
    zone: &TimeZone,
) -> Option<Timestamp> {
    if first >= earliest {
        return Some(first);
    }
    match schedule.kind() {
        ScheduleKind::Once { .. } => None,
        ScheduleKind::Interval { every } => {
            let every = period(*every);
            let behind = u128::try_from(earliest.duration_since(first).as_micros()).ok()?;
            ahead(first, behind.div_ceil(every).checked_mul(every)?)
        }
        ScheduleKind::Cron { .. } => {
            schedule.after(earliest.checked_sub(SignedDuration::from_micros(1)).ok()?, zone)
        }
    }
}

/// The last time that has passed: `first` or a later one.
fn latest(schedule: &Schedule, first: Timestamp, now: Timestamp, zone: &TimeZone) -> Timestamp {
    match schedule.kind() {
        ScheduleKind::Once { .. } => first,
        ScheduleKind::Interval { every } => {
            let behind = u128::try_from(now.duration_since(first).as_micros()).unwrap_or(0);
            ahead(first, behind - behind % period(*every)).unwrap_or(first)
        }
        ScheduleKind::Cron { .. } => {
            // Searches backwards in growing steps, because the distance between the times is unknown.
            let mut back = SignedDuration::from_secs(60);
            loop {
                let base = now.checked_sub(back).unwrap_or(first).max(first);
                let times = successors(schedule.after(base, zone), |at| schedule.after(*at, zone));
                match times.take_while(|at| *at <= now).last() {
                    Some(latest) => return latest,
                    None if base == first => return first,
                    None => back = back.saturating_mul(4),
                }
            }
        }
    }
}

fn period(every: Duration) -> u128 {
    every.max(Duration::from_secs(1)).as_micros()
}

fn ahead(first: Timestamp, micros: u128) -> Option<Timestamp> {
    first.checked_add(SignedDuration::from_micros(i64::try_from(micros).ok()?)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cron::schedule::Dialect;

    const ZONE: &TimeZone = &TimeZone::UTC;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(1_780_315_200 + minute * 60).unwrap()
    }

    fn every(text: &str) -> Schedule {
        Schedule::parse(text, Dialect::Hermes019, at(0), ZONE).unwrap()
    }

    fn policy(missed: Missed, window: u32) -> Policy {
        Policy { missed, window: Some(window), ..Policy::default() }
    }

    #[test]
    fn all_makes_up_for_every_time_inside_the_window_oldest_first() {
        for schedule in [every("every 10m"), every("*/10 * * * *")] {
            let times = missed_runs(&policy(Missed::All, 1800), &schedule, at(10), at(65), ZONE);
            assert_eq!(times, [at(40), at(50), at(60)]);
            assert_eq!(start(&policy(Missed::All, 1800), &schedule, at(10), at(65), ZONE), Some(at(40)));
        }
    }

    #[test]
    fn once_runs_under_the_time_that_was_due_and_starts_the_portal_at_the_latest() {
        let schedule = every("every 10m");
        assert_eq!(missed_runs(&Policy::default(), &schedule, at(10), at(65), ZONE), [at(10)]);
        assert_eq!(start(&Policy::default(), &schedule, at(10), at(65), ZONE), Some(at(60)));
    }

    #[test]
    fn skip_runs_what_is_late_by_less_than_the_window_and_else_waits_for_the_next() {
        let schedule = every("every 60m");
        assert_eq!(missed_runs(&policy(Missed::Skip, 300), &schedule, at(60), at(64), ZONE), [at(60)]);
        assert!(missed_runs(&policy(Missed::Skip, 300), &schedule, at(60), at(66), ZONE).is_empty());
        assert!(missed_runs(&policy(Missed::Skip, 300), &every("30m"), at(30), at(40), ZONE).is_empty());
        let cron = every("0 * * * *");
        assert_eq!(start(&policy(Missed::Skip, 300), &cron, at(60), at(66), ZONE), Some(at(120)));
    }

    #[test]
    fn a_backlog_without_end_is_cut() {
        let year = at(525_600);
        let times = missed_runs(&policy(Missed::All, u32::MAX), &every("* * * * *"), at(1), year, ZONE);
        assert_eq!((times.len(), times[0]), (1000, at(1)));
        let latest = start(&Policy::default(), &every("* * * * *"), at(1), year, ZONE);
        assert_eq!(latest, Some(year));
    }
}

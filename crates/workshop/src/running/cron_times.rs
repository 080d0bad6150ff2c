//! Times of cron triggers: the next minute that an expression matches, in UTC, and the jitter after it.

use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use posthouse_time::Moment;
use posthouse_wire::TenantId;
use skill::{CivilMinute, CronFields};

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60;
/// How far ahead a match is looked for: 29 February falls on each day of the week once in 40 years.
const DAYS_AHEAD: i64 = 41 * 366;

/// The first minute after `after` that matches. `None` if no minute ever does.
pub fn next_minute(fields: &CronFields, after: Moment) -> Option<Moment> {
    if !fields.can_match() {
        return None;
    }
    let first = after.millis().div_euclid(MINUTE) + 1;
    let first_day = first.div_euclid(DAY);
    for day in first_day..first_day + DAYS_AHEAD {
        if !fields.matches_date(civil_date(day)) {
            continue;
        }
        let begin = if day == first_day { first.rem_euclid(DAY) } else { 0 };
        let small = |number: i64| u8::try_from(number).unwrap_or_default();
        if let Some((hour, minute)) = fields.first_time(small(begin / 60), small(begin % 60)) {
            let minute = i64::from(hour) * 60 + i64::from(minute);
            return Some(Moment::from_millis((day * DAY + minute) * MINUTE));
        }
    }
    None
}

/// How long after its time a scheduled run begins. One time has always the same jitter.
pub fn jitter_of(tenant: &TenantId, job: &str, most_seconds: u64) -> Duration {
    let hash = digest(&SHA256, format!("jitter {tenant}/{job}").as_bytes());
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash.as_ref()[..8]);
    Duration::from_millis(u64::from_be_bytes(bytes) % (most_seconds.saturating_mul(1000) + 1))
}

/// Day, month and weekday of a day that is counted from 1970, at midnight.
fn civil_date(day: i64) -> CivilMinute {
    // Years begin in March here, so that a leap day is the last day of its year.
    let from_march = day + 719_468;
    let (era, day_of_era) = (from_march.div_euclid(146_097), from_march.rem_euclid(146_097));
    let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let _ = era;
    let month = (5 * day_of_year + 2) / 153;
    let small = |number: i64| u8::try_from(number).unwrap_or_default();
    CivilMinute {
        minute: 0,
        hour: 0,
        day: small(day_of_year - (153 * month + 2) / 5 + 1),
        month: small(if month < 10 { month + 3 } else { month - 9 }),
        weekday: small((day + 4).rem_euclid(7)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(expression: &str, after: &str) -> Option<String> {
        let after: Moment = Moment::from_millis(after.parse().unwrap());
        next_minute(&CronFields::read(expression).unwrap(), after).map(|at| at.to_string())
    }

    #[test]
    fn the_next_matching_minute_is_found_in_utc() {
        // 2026-01-01T00:00:00Z, a Thursday.
        let start = "1767225600000";
        let found = |expression| next(expression, start).unwrap_or_default();
        assert!(found("* * * * *").starts_with("2026-01-01T00:01:00"), "{}", found("* * * * *"));
        assert!(found("0 9 * * 1").starts_with("2026-01-05T09:00:00"), "{}", found("0 9 * * 1"));
        assert!(found("30 2 29 2 *").starts_with("2028-02-29T02:30:00"), "{}", found("30 2 29 2 *"));
        assert!(found("59 23 31 12 *").starts_with("2026-12-31T23:59:00"));
        assert_eq!(next("0 0 31 2 *", start), None);
        assert!(found("0 0 29 2 1").starts_with("2044-02-29T00:00:00"), "{}", found("0 0 29 2 1"));
    }

    #[test]
    fn a_minute_never_follows_itself() {
        let at = Moment::from_millis(1_767_225_600_000);
        let fields = CronFields::read("* * * * *").unwrap();
        let next = next_minute(&fields, at).unwrap();
        assert_eq!(next.millis() - at.millis(), MINUTE);
        assert_eq!(next_minute(&fields, next).unwrap().millis() - next.millis(), MINUTE);
    }
}

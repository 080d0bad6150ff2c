//! Schedule grammar of the stock agent, form by form in its order.

use std::time::Duration;

use jiff::{Timestamp, tz::TimeZone};

use super::{
    Dialect, Flaw, Schedule, ScheduleFault, after_word,
    duration::{DurationError, stock_minutes},
    fields, is_blank,
    iso::ParsedTime,
    trimmed,
};

pub(super) fn parse(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Schedule, ScheduleFault> {
    let (cut, text) = trimmed(text);
    read(text, now, zone).map_err(|fault| fault.shifted(cut))
}

fn read(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Schedule, ScheduleFault> {
    if let Some(rest) = after_word(text, "every ") {
        return interval(rest, now).map_err(|fault| fault.shifted("every ".len()));
    }
    if looks_like_cron(text) {
        return Ok(Schedule::cron(text, fields::compile(text, Dialect::Hermes019)?, text));
    }
    // A capital T anywhere means a timestamp. The stock agent does not try other forms after that.
    if text.contains('T') || begins_with_date(text) {
        return timestamp(text, zone);
    }
    match stock_minutes(text) {
        Ok(minutes) => Ok(Schedule::once(later(now, minutes)?, format!("once in {text}"))),
        Err(DurationError::TooLong) => Err(ScheduleFault::overflow().at(0)),
        Err(DurationError::Elsewhat { at }) => {
            let why = "not a duration, an interval, a cron expression or a timestamp";
            Err(ScheduleFault::new(Flaw::Unrecognised, why).at(at).nearest(nearest(text)))
        }
    }
}

fn interval(rest: &str, now: Timestamp) -> Result<Schedule, ScheduleFault> {
    let (cut, rest) = trimmed(rest);
    let minutes = match stock_minutes(rest) {
        Ok(minutes) => minutes,
        Err(DurationError::TooLong) => return Err(ScheduleFault::overflow().at(cut)),
        Err(DurationError::Elsewhat { at }) => {
            let why = "an interval is a whole number of minutes, hours or days";
            let fault = ScheduleFault::new(Flaw::BadIntervalDuration, why).at(cut + at);
            return Err(fault.nearest("`every 30m`"));
        }
    };
    // A schedule without a first run could never be armed.
    later(now, minutes)?;
    Ok(Schedule::interval(Duration::from_secs(minutes * 60), format!("every {minutes}m")))
}

fn later(now: Timestamp, minutes: u64) -> Result<Timestamp, ScheduleFault> {
    let length = minutes.checked_mul(60).map(Duration::from_secs);
    let run_at = length.and_then(|length| now.checked_add(length).ok());
    run_at.ok_or_else(|| ScheduleFault::overflow().at(0))
}

/// Five or more fields, of which the first five contain only digits and `*-,/`.
fn looks_like_cron(text: &str) -> bool {
    let numeric = |field: &&str| field.chars().all(|c| c.is_ascii_digit() || "*-,/".contains(c));
    text.split(is_blank).filter(|field| !field.is_empty()).take(5).filter(numeric).count() == 5
}

pub(super) fn begins_with_date(text: &str) -> bool {
    let shape = "dddd-dd-dd".bytes();
    let mut bytes = text.bytes();
    shape.into_iter().all(|wanted| match bytes.next() {
        Some(byte) if wanted == b'd' => byte.is_ascii_digit(),
        found => found == Some(wanted),
    })
}

pub(super) fn timestamp(text: &str, zone: &TimeZone) -> Result<Schedule, ScheduleFault> {
    let Some(moment) = ParsedTime::read(&text.replace('Z', "+00:00")) else {
        let why = "looks like a timestamp, but is not a valid one";
        return Err(ScheduleFault::new(Flaw::BadTimestamp, why).at(0).nearest("`2026-02-03T14:00`"));
    };
    let run_at = moment.instant(zone).ok_or_else(|| ScheduleFault::overflow().at(0))?;
    Ok(Schedule::once(run_at, format!("once at {}", moment.to_the_minute())))
}

fn nearest(text: &str) -> &'static str {
    let lower = text.to_lowercase();
    if lower.starts_with("every") {
        "`every 30m`"
    } else if lower.starts_with('@') || lower.split(is_blank).count() >= 4 {
        "`0 9 * * *`"
    } else {
        "`30m`"
    }
}

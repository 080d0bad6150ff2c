//! Cron expressions of skills: which minutes one matches.
//!
//! Five fields, and every one of them must match: minute, hour, day of the month, month, day of the week with 0 for
//! Sunday. A field is `*`, a number, a range `a-b`, a list of these, each with an optional step `/n`. There are no
//! names, no macros, and no ranges that wrap around, such as `22-2`.

use crate::run::leading_integer;
use crate::syntax::blanks::words;

/// A minute on a calendar and a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CivilMinute {
    pub minute: u8,
    pub hour: u8,
    /// Day of the month, from 1.
    pub day: u8,
    /// Month, from 1.
    pub month: u8,
    /// Day of the week, 0 for Sunday.
    pub weekday: u8,
}

/// The values that each field of an expression matches, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CronFields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
}

impl CronFields {
    /// Reads an expression. `None` unless it has five fields. A field that cannot be read matches nothing.
    pub fn read(expression: &str) -> Option<Self> {
        let fields: Vec<&str> = words(expression).collect();
        let [minute, hour, day, month, weekday] = fields[..] else { return None };
        Some(Self {
            minutes: field(minute, 0, 59),
            hours: field(hour, 0, 23),
            days: field(day, 1, 31),
            months: field(month, 1, 12),
            weekdays: field(weekday, 0, 6),
        })
    }

    pub fn matches(&self, at: CivilMinute) -> bool {
        let has = |bits: u64, value: u8| bits.checked_shr(value.into()).is_some_and(|bits| bits & 1 == 1);
        has(self.minutes, at.minute)
            && has(self.hours, at.hour)
            && has(self.days, at.day)
            && has(self.months, at.month)
            && has(self.weekdays, at.weekday)
    }
}

fn field(text: &str, first: u8, last: u8) -> u64 {
    let values = (first..=last).filter(|value| text.split(',').any(|part| matches_part(part, *value, first)));
    values.fold(0, |bits, value| bits | 1 << value)
}

fn matches_part(part: &str, value: u8, first: u8) -> bool {
    let value = f64::from(value);
    let (base, step) = match part.split_once('/') {
        Some((base, step)) => (base, leading_integer(step)),
        None => (part, Some(1.0)),
    };
    let Some(step) = step.filter(|step| *step > 0.0) else { return false };
    if base == "*" {
        return (value - f64::from(first)) % step == 0.0;
    }
    match base.split_once('-') {
        Some((from, to)) => match (leading_integer(from), leading_integer(to)) {
            (Some(from), Some(to)) => value >= from && value <= to && (value - from) % step == 0.0,
            _ => false,
        },
        // A step after a single number has no effect.
        None => leading_integer(base) == Some(value),
    }
}

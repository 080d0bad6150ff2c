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
        has(self.minutes, at.minute) && has(self.hours, at.hour) && self.matches_date(at)
    }

    /// Whether some minutes of a day match. The minute and the hour of `day` are not looked at.
    pub fn matches_date(&self, day: CivilMinute) -> bool {
        has(self.days, day.day) && has(self.months, day.month) && has(self.weekdays, day.weekday)
    }

    /// The first hour and minute from these on that match, on a day that does.
    pub fn first_time(&self, hour: u8, minute: u8) -> Option<(u8, u8)> {
        let minute =
            Some(minute).filter(|_| has(self.hours, hour)).and_then(|minute| first(self.minutes, minute));
        match minute {
            Some(minute) => Some((hour, minute)),
            None => Some((first(self.hours, hour + 1)?, first(self.minutes, 0)?)),
        }
    }

    /// Whether any minute of any year matches. `* * 31 2 *` is none, because no February has 31 days.
    pub fn can_match(&self) -> bool {
        // The longest that each month can be. Every such day falls on every day of the week in some year.
        const DAYS: [u8; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let mut months = (1..).zip(DAYS).filter(|(month, _)| has(self.months, *month));
        self.minutes != 0
            && self.hours != 0
            && self.weekdays != 0
            && months.any(|(_, days)| first(self.days, 1).is_some_and(|first| first <= days))
    }
}

fn has(bits: u64, value: u8) -> bool {
    bits.checked_shr(value.into()).is_some_and(|bits| bits & 1 == 1)
}

/// The smallest value from this one on.
fn first(bits: u64, from: u8) -> Option<u8> {
    let left = bits.checked_shr(from.into())?;
    let ahead = u8::try_from(left.trailing_zeros()).ok()?;
    (left != 0).then(|| from + ahead)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(expression: &str) -> CronFields {
        CronFields::read(expression).unwrap()
    }

    #[test]
    fn an_expression_that_no_date_matches_is_known() {
        for never in [
            "* * 31 2 *",
            "* * 30 2 *",
            "0 0 31 4,6,9,11 *",
            "60 * * * *",
            "* 22-2 * * *",
            "* * * JAN *",
            "0 9 * * 7",
        ] {
            assert!(!fields(never).can_match(), "{never}");
        }
        for possible in ["* * * * *", "0 0 29 2 1", "0 0 30,31 2,3 *", "59 23 31 12 6"] {
            assert!(fields(possible).can_match(), "{possible}");
        }
    }

    #[test]
    fn the_first_time_of_a_day_is_the_first_minute_that_matches() {
        for expression in ["* * * * *", "*/7 3,5-9/2 * * *", "59 23 * * *", "0 0 * * *", "60 * * * *"] {
            let fields = fields(expression);
            let minutes: Vec<(u8, u8)> =
                (0..24).flat_map(|hour| (0..60).map(move |minute| (hour, minute))).collect();
            let matches = |(hour, minute): &(u8, u8)| {
                fields.matches(CivilMinute { minute: *minute, hour: *hour, day: 1, month: 1, weekday: 4 })
            };
            for from in (0..minutes.len()).step_by(13) {
                let expected = minutes[from..].iter().copied().find(matches);
                assert_eq!(
                    fields.first_time(minutes[from].0, minutes[from].1),
                    expected,
                    "{expression} {from}"
                );
            }
        }
    }
}

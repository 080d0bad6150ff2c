//! Schedules: parsing what a person wrote, and computing the next run.
//!
//! There are two grammars. [`Dialect::Hermes019`] is the stock agent's, for a store that is shared with a
//! stock agent. [`Dialect::Posthouse`] has more forms and refuses ambiguous ones. Both compute times alike:
//! a cron schedule follows the local time of its zone, an interval or a delay is elapsed time, and the next
//! run is always later than the last as an instant, whatever local time does.

mod duration;
mod fault;
mod fields;
mod iso;
mod phrase;
mod posthouse;
mod record;
mod skipped_days;
mod stock;
mod wall;
mod zone;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};

pub use fault::{Flaw, ScheduleFault};
pub use iso::{iso, read_iso};
pub use zone::zone;

use wall::Wall;

/// Longest delay after which a one-shot that never ran may still run.
const ONE_SHOT_GRACE: SignedDuration = SignedDuration::from_secs(120);
/// Shortest and longest grace of a missed recurring run, in seconds.
const GRACE: std::ops::RangeInclusive<i64> = 120..=7_200;

/// Grammar of schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Dialect {
    /// The stock agent's grammar, for a store that a stock agent reads too.
    #[default]
    Hermes019,
    /// The same with more forms, except that ambiguous forms are refused.
    Posthouse,
}

/// When a job runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    kind: ScheduleKind,
    display: String,
    /// The zone that the schedule itself names. It takes precedence over the caller's.
    zone: Option<TimeZone>,
    /// Set exactly if the kind is cron.
    wall: Option<Wall>,
}

/// The three kinds of schedule.
#[derive(Clone, Debug, PartialEq)]
pub enum ScheduleKind {
    /// One run, at an instant.
    Once { run_at: Timestamp },
    /// A run each time this much has passed since the last.
    Interval { every: Duration },
    /// A run whenever the local time matches. A stock agent can read the expression.
    Cron { expr: String },
}

impl Schedule {
    /// Parses what a person wrote. Delays count from `now`. A time without an offset is read in `zone`.
    pub fn parse(
        text: &str,
        dialect: Dialect,
        now: Timestamp,
        zone: &TimeZone,
    ) -> Result<Self, ScheduleFault> {
        match dialect {
            Dialect::Hermes019 => stock::parse(text, now, zone),
            Dialect::Posthouse => posthouse::parse(text, now, zone),
        }
    }

    /// The kind of the schedule.
    pub fn kind(&self) -> &ScheduleKind {
        &self.kind
    }

    /// The schedule as shown to a person.
    pub fn display(&self) -> &str {
        &self.display
    }

    /// The next run, given the end of the last one, if there was one.
    ///
    /// A one-shot that never ran is due for up to 120 seconds after its time, and never again after it ran;
    /// only then is there no next run. A recurring schedule that can have none (the 31st of February, an
    /// interval past the end of the calendar) is a fault.
    pub fn next(
        &self,
        last: Option<Timestamp>,
        now: Timestamp,
        zone: &TimeZone,
    ) -> Result<Option<Timestamp>, ScheduleFault> {
        match &self.kind {
            ScheduleKind::Once { run_at } => {
                let due = last.is_none() && now.duration_since(*run_at) <= ONE_SHOT_GRACE;
                Ok(due.then_some(*run_at))
            }
            ScheduleKind::Interval { every } => match last.unwrap_or(now).checked_add(*every) {
                Ok(next) => Ok(Some(next)),
                Err(_) => Err(ScheduleFault::overflow()),
            },
            ScheduleKind::Cron { expr } => match self.after(last.unwrap_or(now), zone) {
                Some(next) => Ok(Some(next)),
                None => Err(ScheduleFault::no_future_match(expr)),
            },
        }
    }

    /// The first occurrence strictly after an instant. An interval counts from that instant. An interval of
    /// zero counts as one second, so that a successor is always later.
    pub fn after(&self, base: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match &self.kind {
            ScheduleKind::Once { run_at } => (*run_at > base).then_some(*run_at),
            ScheduleKind::Interval { every } => base.checked_add((*every).max(Duration::from_secs(1))).ok(),
            ScheduleKind::Cron { .. } => self.wall.as_ref()?.after(base, self.zone(zone)),
        }
    }

    /// Longest delay after which a run is still caught up: half the period, between two minutes and two
    /// hours.
    pub fn grace(&self, now: Timestamp, zone: &TimeZone) -> Duration {
        let period = match &self.kind {
            ScheduleKind::Once { .. } => 0,
            ScheduleKind::Interval { every } => i64::try_from(every.as_secs()).unwrap_or(i64::MAX),
            ScheduleKind::Cron { .. } => self.period(now, zone).unwrap_or(0),
        };
        let seconds = (period / 2).clamp(*GRACE.start(), *GRACE.end());
        Duration::from_secs(seconds.unsigned_abs())
    }

    /// Seconds between the next two runs, in local or in elapsed time, whichever is more. An hour that a
    /// zone skips or repeats must not shorten a job's grace.
    fn period(&self, now: Timestamp, zone: &TimeZone) -> Option<i64> {
        let first = self.after(now, zone)?;
        let second = self.after(first, zone)?;
        let reading = |at: Timestamp| -> DateTime { self.zone(zone).to_datetime(at) };
        let on_the_wall = reading(second).duration_since(reading(first));
        Some(second.duration_since(first).max(on_the_wall).as_secs())
    }

    fn zone<'a>(&'a self, read_by: &'a TimeZone) -> &'a TimeZone {
        self.zone.as_ref().unwrap_or(read_by)
    }

    fn once(run_at: Timestamp, display: String) -> Self {
        Self { kind: ScheduleKind::Once { run_at }, display, zone: None, wall: None }
    }

    fn interval(every: Duration, display: String) -> Self {
        Self { kind: ScheduleKind::Interval { every }, display, zone: None, wall: None }
    }

    fn cron(expr: &str, wall: Wall, display: &str) -> Self {
        let kind = ScheduleKind::Cron { expr: expr.to_owned() };
        Self { kind, display: display.to_owned(), zone: None, wall: Some(wall) }
    }
}

/// Characters that both grammars trim and split at.
fn is_blank(c: char) -> bool {
    // The stock agent treats the four ASCII separators as blanks; Unicode does not.
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// The text without surrounding blanks, and the number of characters cut off before it.
fn trimmed(text: &str) -> (usize, &str) {
    let tail = text.trim_start_matches(is_blank);
    let cut = text.chars().count() - tail.chars().count();
    (cut, tail.trim_end_matches(is_blank))
}

/// The text after an ASCII word at its beginning, ignoring case.
fn after_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let head = text.get(..word.len())?;
    head.eq_ignore_ascii_case(word).then(|| &text[word.len()..])
}

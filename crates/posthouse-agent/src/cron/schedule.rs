//! When a job runs: reading what a person wrote, and working out the next instant.
//!
//! Two grammars are read. [`Dialect::Hermes019`] is the stock agent's, for a store that a stock agent
//! shares; [`Dialect::Posthouse`] knows more forms and refuses what could be meant two ways. Both count
//! time alike: a cron schedule holds the reading of the wall clock in its zone, an interval or a delay is
//! elapsed time, and the next run is later than the last as an instant, whatever the clocks on the wall do.

mod duration;
mod fault;
mod fields;
mod iso;
mod lost;
mod phrase;
mod posthouse;
mod record;
mod stock;
mod wall;
mod zone;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};

pub use fault::{Flaw, ScheduleFault};
pub use iso::{iso, read_iso};
pub use zone::zone;

use wall::Wall;

/// How far in the past a one-shot that never ran may lie and still run.
const ONE_SHOT_GRACE: SignedDuration = SignedDuration::from_secs(120);
/// The least and the most that a missed recurring run is forgiven.
const GRACE: std::ops::RangeInclusive<i64> = 120..=7_200;

/// Whose grammar a schedule is read by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Dialect {
    /// The stock agent's, for a store that a stock agent reads too.
    #[default]
    Hermes019,
    /// The same and more, save that what could be meant two ways is refused.
    Posthouse,
}

/// When a job runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    kind: Kind,
    display: String,
    /// The zone the schedule itself names; it wins over the one a caller reads by.
    zone: Option<TimeZone>,
    /// Present exactly when the kind is cron.
    wall: Option<Wall>,
}

/// The three ways a job recurs, or does not.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// One run, at an instant.
    Once { run_at: Timestamp },
    /// A run each time this much has passed since the last.
    Interval { every: Duration },
    /// A run whenever the wall clock matches. The text is one that a stock agent can read.
    Cron { expr: String },
}

impl Schedule {
    /// Reads what a person wrote. `now` is what delays count from; `zone` is where a time without an
    /// offset is read.
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

    /// Which of the three it is.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// How it is shown to a person.
    pub fn display(&self) -> &str {
        &self.display
    }

    /// The next run, given when the last one ended, if there was one.
    ///
    /// A one-shot that never ran is still due up to 120 seconds late, and never again after it ran; that
    /// is the only case without a next run. A recurring schedule that can have none (the 31st of
    /// February, an interval past the end of the calendar) is a fault.
    pub fn next(
        &self,
        last: Option<Timestamp>,
        now: Timestamp,
        zone: &TimeZone,
    ) -> Result<Option<Timestamp>, ScheduleFault> {
        match &self.kind {
            Kind::Once { run_at } => {
                let due = last.is_none() && now.duration_since(*run_at) <= ONE_SHOT_GRACE;
                Ok(due.then_some(*run_at))
            }
            Kind::Interval { every } => match last.unwrap_or(now).checked_add(*every) {
                Ok(next) => Ok(Some(next)),
                Err(_) => Err(ScheduleFault::overflow()),
            },
            Kind::Cron { expr } => match self.after(last.unwrap_or(now), zone) {
                Some(next) => Ok(Some(next)),
                None => Err(ScheduleFault::no_future_match(expr)),
            },
        }
    }

    /// The first occurrence strictly after an instant. An interval counts from that instant, and one of
    /// no length as a second, so that a successor is always later.
    pub fn after(&self, base: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match &self.kind {
            Kind::Once { run_at } => (*run_at > base).then_some(*run_at),
            Kind::Interval { every } => base.checked_add((*every).max(Duration::from_secs(1))).ok(),
            Kind::Cron { .. } => self.wall.as_ref()?.after(base, self.zone(zone)),
        }
    }

    /// How late a run may be and still be caught up: half the period, within two minutes and two hours.
    pub fn grace(&self, now: Timestamp, zone: &TimeZone) -> Duration {
        let period = match &self.kind {
            Kind::Once { .. } => 0,
            Kind::Interval { every } => i64::try_from(every.as_secs()).unwrap_or(i64::MAX),
            Kind::Cron { .. } => self.period(now, zone).unwrap_or(0),
        };
        let seconds = (period / 2).clamp(*GRACE.start(), *GRACE.end());
        Duration::from_secs(seconds.unsigned_abs())
    }

    /// The seconds between the two coming runs, on the wall or as they pass, whichever is more: an hour
    /// that a zone skips or repeats must not make a job less forgiven than on other days.
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
        Self { kind: Kind::Once { run_at }, display, zone: None, wall: None }
    }

    fn interval(every: Duration, display: String) -> Self {
        Self { kind: Kind::Interval { every }, display, zone: None, wall: None }
    }

    fn cron(expr: &str, wall: Wall, display: &str) -> Self {
        let kind = Kind::Cron { expr: expr.to_owned() };
        Self { kind, display: display.to_owned(), zone: None, wall: Some(wall) }
    }
}

/// What both grammars cut off and split at.
fn is_blank(c: char) -> bool {
    // The four separators of ASCII are blank to the stock agent and not to Unicode.
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// The part of a text between its blanks, and how many characters were cut off before it.
fn trimmed(text: &str) -> (usize, &str) {
    let tail = text.trim_start_matches(is_blank);
    let cut = text.chars().count() - tail.chars().count();
    (cut, tail.trim_end_matches(is_blank))
}

/// What follows a word of ASCII at the beginning of a text, in any case.
fn after_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let head = text.get(..word.len())?;
    head.eq_ignore_ascii_case(word).then(|| &text[word.len()..])
}

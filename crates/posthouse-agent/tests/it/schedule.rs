//! Schedules: the recorded vectors, the days on which clocks change, and the two grammars.

mod daylight;
mod dialects;
mod records;
mod vectors;

use jiff::{Timestamp, tz::TimeZone};
use posthouse_agent::cron::schedule::{Dialect, Schedule, ScheduleFault};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn in_zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap()
}

/// Parses a schedule of the Posthouse grammar at noon UTC on a winter's day.
fn ours(text: &str) -> Result<Schedule, ScheduleFault> {
    Schedule::parse(text, Dialect::Posthouse, at("2026-01-31T12:00:00Z"), &TimeZone::UTC)
}

/// The same in the stock agent's grammar.
fn stock(text: &str) -> Result<Schedule, ScheduleFault> {
    Schedule::parse(text, Dialect::Hermes019, at("2026-01-31T12:00:00Z"), &TimeZone::UTC)
}

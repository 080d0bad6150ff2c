//! The `schedule` object of a job record, as the stock agent stores it.
//!
//! The stock agent knows whole minutes and one zone, and keeps fields that it does not know. So an interval
//! with seconds has an additional field `seconds` beside its minutes (rounded up), a schedule with its own
//! zone has `tz`, and a cron expression of our dialect has `dialect`. A stock agent ignores these fields
//! and still gets a sensible schedule.

use std::time::Duration;

use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Map, Value, json};

use super::{Dialect, Flaw, Schedule, ScheduleFault, ScheduleKind, fields, iso, read_iso};

/// Dialect of a cron expression that is not the stock agent's.
const OURS: &str = "posthouse";

impl Schedule {
    /// The schedule as a stock job record holds it.
    pub fn to_record(&self, zone: &TimeZone) -> Value {
        let mut record = match &self.kind {
            ScheduleKind::Once { run_at } => json!({"kind": "once", "run_at": iso(*run_at, self.zone(zone))}),
            ScheduleKind::Interval { every } if every.as_secs() % 60 == 0 => {
                json!({"kind": "interval", "minutes": every.as_secs() / 60})
            }
            ScheduleKind::Interval { every } => {
                let seconds = every.as_secs();
                json!({"kind": "interval", "minutes": seconds.div_ceil(60), "seconds": seconds})
            }
            ScheduleKind::Cron { expr } => json!({"kind": "cron", "expr": expr}),
        };
        if self.wall.as_ref().is_some_and(|wall| wall.dialect == Dialect::Posthouse) {
            record["dialect"] = Value::from(OURS);
        }
        record["display"] = Value::from(self.display.clone());
        if let Some(name) = self.zone.as_ref().and_then(TimeZone::iana_name) {
            record["tz"] = Value::from(name);
        }
        record
    }

    /// Reads a record of either dialect. Like the stock agent, it accepts older records: a missing display
    /// is generated.
    pub fn from_record(value: &Value, zone: &TimeZone) -> Result<Self, ScheduleFault> {
        let record = value.as_object().ok_or_else(|| bad("it is not an object"))?;
        let own = text(record, "tz")
            .map(TimeZone::get)
            .transpose()
            .map_err(|_| bad("its `tz` is not a known time zone"))?;
        let kind = text(record, "kind").ok_or_else(|| bad("it has no `kind`"))?;
        let mut schedule = match kind {
            "once" => once(record, own.as_ref().unwrap_or(zone))?,
            "interval" => interval(record)?,
            "cron" => {
                let expr = text(record, "expr").ok_or_else(|| bad("it has no `expr`"))?;
                let dialect = match text(record, "dialect") {
                    Some(OURS) => Dialect::Posthouse,
                    _ => Dialect::Hermes019,
                };
                Self::cron(expr, fields::compile(expr, dialect)?, expr)
            }
            _ => return Err(bad("its `kind` is not once, interval or cron")),
        };
        if let Some(display) = text(record, "display") {
            schedule.display = display.to_owned();
        }
        schedule.zone = own;
        Ok(schedule)
    }
}

fn once(record: &Map<String, Value>, zone: &TimeZone) -> Result<Schedule, ScheduleFault> {
    let written = text(record, "run_at").ok_or_else(|| bad("it has no `run_at`"))?;
    let run_at: Timestamp = read_iso(written, zone).ok_or_else(|| bad("its `run_at` is not a valid time"))?;
    Ok(Schedule::once(run_at, format!("once at {written}")))
}

fn interval(record: &Map<String, Value>) -> Result<Schedule, ScheduleFault> {
    let seconds = match record.get("seconds").and_then(Value::as_u64).filter(|seconds| *seconds > 0) {
        Some(seconds) => seconds,
        None => {
            let minutes = record.get("minutes").ok_or_else(|| bad("it has no `minutes`"))?;
            whole_seconds(minutes).ok_or_else(|| bad("its `minutes` are not a valid duration"))?
        }
    };
    let display =
        if seconds % 60 == 0 { format!("every {}m", seconds / 60) } else { format!("every {seconds}s") };
    Ok(Schedule::interval(Duration::from_secs(seconds), display))
}

/// Stock writes whole minutes. An edited file may hold a fraction, which stock respects.
fn whole_seconds(minutes: &Value) -> Option<u64> {
    if let Some(minutes) = minutes.as_u64() {
        return minutes.checked_mul(60);
    }
    let seconds = minutes.as_f64().filter(|minutes| *minutes >= 0.0)? * 60.0;
    Duration::try_from_secs_f64(seconds).ok().map(|length| length.as_secs())
}

fn text<'a>(record: &'a Map<String, Value>, field: &str) -> Option<&'a str> {
    record.get(field).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn bad(why: &str) -> ScheduleFault {
    ScheduleFault::new(Flaw::BadRecord, format!("the record has no valid schedule: {why}"))
}

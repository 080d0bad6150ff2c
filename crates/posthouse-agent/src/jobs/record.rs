//! Job record: the stock agent's fields, and ours in one field of their own.

mod added_fields;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use posthouse_wire::cron::Policy;
use posthouse_wire::id::JobId;
use serde_json::{Map, Value};

use crate::cron::schedule::{Schedule, iso, read_iso};

pub use added_fields::Skipped;
pub(super) use added_fields::{FireClaim, LEASE};

/// One job. Unknown fields are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub(super) fields: Map<String, Value>,
}

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    Scheduled,
    Paused,
    /// A one-shot that ran and has no further run.
    Completed,
    /// A recurring job whose next run could not be computed. It is still enabled.
    Error,
}

/// Number of runs: the limit, and those so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// `None`: no limit.
    pub times: Option<u64>,
    pub completed: u64,
}

impl Job {
    pub fn id(&self) -> JobId {
        JobId::from(self.text("id").unwrap_or_default())
    }

    /// The job's name, or its id if it has no name.
    pub fn name(&self) -> &str {
        self.text("name").or_else(|| self.text("id")).unwrap_or_default()
    }

    pub fn prompt(&self) -> &str {
        self.text("prompt").unwrap_or_default()
    }

    /// The schedule. `None` if the record has none that can be parsed.
    pub fn schedule(&self, zone: &TimeZone) -> Option<Schedule> {
        Schedule::from_record(self.fields.get("schedule")?, zone).ok()
    }

    pub fn schedule_display(&self) -> &str {
        self.text("schedule_display").unwrap_or("?")
    }

    pub fn enabled(&self) -> bool {
        self.fields.get("enabled").is_none_or(truthy)
    }

    pub fn state(&self) -> JobState {
        match self.text("state") {
            Some("paused") => JobState::Paused,
            Some("completed") => JobState::Completed,
            Some("error") => JobState::Error,
            None if !self.enabled() => JobState::Paused,
            _ => JobState::Scheduled,
        }
    }

    pub fn next_run_at(&self) -> Option<Timestamp> {
        self.time("next_run_at")
    }

    /// The next run as it is written. The portal and the agent tell arms apart by this text.
    pub fn next_run_text(&self) -> Option<&str> {
        self.text("next_run_at")
    }

    pub fn last_run_at(&self) -> Option<Timestamp> {
        self.time("last_run_at")
    }

    pub fn last_error(&self) -> Option<&str> {
        self.text("last_error")
    }

    pub fn repeat(&self) -> Repeat {
        let count = |name| self.fields.get("repeat")?.get(name)?.as_u64();
        Repeat {
            times: count("times").filter(|times| *times > 0),
            completed: count("completed").unwrap_or(0),
        }
    }

    /// Policy for late and overlapping fires.
    pub fn policy(&self) -> Policy {
        added_fields::policy(self)
    }

    /// The latest fires that were skipped because a run was in progress, oldest first.
    pub fn skipped(&self) -> Vec<Skipped> {
        added_fields::skipped(self)
    }

    /// Any field of the record, as stored.
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)
    }

    /// Enabled, and not paused by a writer that left it enabled.
    pub(super) fn is_live(&self) -> bool {
        self.enabled() && self.text("state") != Some("paused")
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    /// A stored time without an offset is in this machine's local time.
    pub(super) fn time(&self, name: &str) -> Option<Timestamp> {
        read_iso(self.text(name)?, &TimeZone::system())
    }

    pub(super) fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.fields.insert(name.to_owned(), value.into());
    }

    pub(super) fn set_time(&mut self, name: &str, at: Option<Timestamp>, zone: &TimeZone) {
        self.set(name, at.map(|at| iso(at, zone)));
    }

    /// Sets the number of runs. The rest of `repeat` stays unchanged.
    pub(super) fn set_completed(&mut self, completed: u64) {
        if let Some(Value::Object(repeat)) = self.fields.get_mut("repeat") {
            repeat.insert("completed".to_owned(), completed.into());
        }
    }
}

/// Whether the stock agent (Python) treats the value as true.
pub(super) fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(yes) => *yes,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

//! What a caller asks for when it creates or changes a job.

use posthouse_wire::cron::Policy;
use serde_json::{Map, Value};

/// A job to be.
#[derive(Clone, Debug, Default)]
pub struct NewJob {
    pub(super) schedule: String,
    pub(super) name: Option<String>,
    pub(super) prompt: String,
    pub(super) repeat: Option<i64>,
    pub(super) policy: Policy,
    pub(super) fields: Map<String, Value>,
}

impl NewJob {
    /// `schedule` as a person writes it, such as `every 2h` or `0 9 * * *`.
    pub fn new(schedule: impl Into<String>) -> Self {
        Self { schedule: schedule.into(), ..Self::default() }
    }

    /// What it is called; the beginning of the prompt if nothing is said.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// What the run is told.
    pub fn prompt(mut self, prompt: impl Into<String>) -> Self {
        self.prompt = prompt.into();
        self
    }

    /// After how many runs it ends; zero or less means never. A one-shot ends after one if nothing is said.
    pub fn repeat(mut self, times: i64) -> Self {
        self.repeat = Some(times);
        self
    }

    /// What becomes of late and overlapping fires.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Any other field of the record, such as `deliver`.
    pub fn field(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.fields.insert(name.into(), value.into());
        self
    }
}

/// What is to be different about a job.
#[derive(Clone, Debug, Default)]
pub struct Change {
    pub(super) schedule: Option<String>,
    pub(super) policy: Option<Policy>,
    pub(super) fields: Map<String, Value>,
}

impl Change {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn schedule(mut self, schedule: impl Into<String>) -> Self {
        self.schedule = Some(schedule.into());
        self
    }

    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Any other field of the record, such as `name` or `prompt`.
    pub fn field(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.fields.insert(name.into(), value.into());
        self
    }
}

//! Requests to create or change a job.

use posthouse_wire::cron::Policy;
use serde_json::{Map, Value};

/// A job to create.
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

    /// Sets the name. Default: the beginning of the prompt.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the prompt of the run.
    pub fn prompt(mut self, prompt: impl Into<String>) -> Self {
        self.prompt = prompt.into();
        self
    }

    /// Sets the number of runs after which the job ends; zero or less means never. Default: one for a
    /// one-shot.
    pub fn repeat(mut self, times: i64) -> Self {
        self.repeat = Some(times);
        self
    }

    /// Sets the policy for late and overlapping fires.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets any other field of the record, such as `deliver`.
    pub fn field(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.fields.insert(name.into(), value.into());
        self
    }
}

/// Changes to a job.
#[derive(Clone, Debug, Default)]
pub struct JobChange {
    pub(super) schedule: Option<String>,
    pub(super) policy: Option<Policy>,
    pub(super) fields: Map<String, Value>,
}

impl JobChange {
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

    /// Sets any other field of the record, such as `name` or `prompt`.
    pub fn field(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.fields.insert(name.into(), value.into());
        self
    }
}

//! Run context and run policy: who runs a skill, why, and what the operator allows.

use std::sync::Arc;
use std::time::Duration;

use super::limits::RunLimits;
use super::shared_memory::RunMemory;
use super::value::SkillValue;

/// What the operator allows.
#[derive(Clone, Debug)]
pub struct RunPolicy {
    pub limits: RunLimits,
    /// The budget that this run shares with others. `None`: only the limits of one run count.
    pub memory: Option<Arc<dyn RunMemory>>,
    /// Time limit of an operation that sets none, in a skill that sets none.
    pub default_timeout: Duration,
    /// Longest time of a whole run, whatever its skill says.
    pub max_duration: Option<Duration>,
    /// How deep skills may run skills.
    pub max_depth: usize,
    /// Programs that commands may start, by their exact name. `None` allows none.
    pub shell_programs: Option<Vec<String>>,
    /// Whether commands may be handed to `bash -c`.
    pub allows_unsafe_shell: bool,
    /// Whether effects need a verified approval.
    pub is_secured: bool,
}

impl Default for RunPolicy {
    fn default() -> Self {
        Self {
            limits: RunLimits::default(),
            memory: None,
            default_timeout: Duration::from_secs(300),
            max_duration: None,
            max_depth: 10,
            shell_programs: None,
            allows_unsafe_shell: false,
            is_secured: false,
        }
    }
}

/// Who runs a skill, and why.
#[derive(Clone, Debug, Default)]
pub struct RunContext {
    pub policy: Arc<RunPolicy>,
    /// The owner of the skill. Tools act in this name.
    pub owner: Option<Arc<str>>,
    /// The agent that asked for the run.
    pub caller: Option<Arc<str>>,
    pub trigger: Option<RunTrigger>,
    /// Variables that the trigger sets after the inputs, for example `TRIGGER_TYPE` or the parameters of an event.
    pub variables: Vec<(Arc<str>, SkillValue)>,
    /// The skill with which the run began, for a skill that another one runs.
    pub entry_skill: Option<Arc<str>>,
    /// How many skills are running above this one.
    pub depth: usize,
    /// Whether this is a mechanical run, which only shows what it would do.
    pub is_mechanical: bool,
    /// Whether this text has a verified approval. It matters only in secured mode.
    pub has_authority: bool,
    /// Whether operations are recorded.
    pub is_traced: bool,
}

/// What started a run.
#[derive(Clone, Debug)]
pub struct RunTrigger {
    /// For example `cron`, `event` or `cli`.
    pub source: Arc<str>,
    pub name: Arc<str>,
    pub fired_at_ms: i64,
    pub trigger_id: Option<Arc<str>>,
}

impl RunContext {
    /// The trigger in messages to agents.
    pub fn trigger_kind(&self) -> Arc<str> {
        self.trigger.as_ref().map_or_else(|| "inline".into(), |trigger| Arc::clone(&trigger.source))
    }

    /// Whether an operation with effects may run.
    pub fn allows_effects(&self) -> bool {
        !self.policy.is_secured || self.has_authority
    }
}

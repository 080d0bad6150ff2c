//! The trace of a run: its operations, and the record that is kept of it.

use std::sync::Arc;

use super::context::RunTrigger;
use super::host::millis;
use super::object::SkillObject;
use super::outcome::{SkillOutcome, UncertainEffect};
use super::run_error::ErrorRecord;
use super::value::SkillValue;

/// One operation that has ended. Operations inside a block come before the block.
#[derive(Clone, Debug)]
pub struct TracedOp {
    pub op_kind: &'static str,
    pub target: Arc<str>,
    /// The text as it was written: references are not resolved, and secrets are not in it.
    pub body: Arc<str>,
    pub started_at_ms: i64,
    pub duration_ms: i64,
    pub errored: bool,
    /// The tool connector of a `$` operation.
    pub connector: Option<Arc<str>>,
    /// Whether a command was refused because its program is not allowed.
    pub is_blocked: bool,
}

impl TracedOp {
    pub fn to_value(&self) -> SkillValue {
        let mut record = SkillObject::default();
        record.set("op_kind", self.op_kind);
        record.set("target", &*self.target);
        record.set("body", &*self.body);
        record.set("started_at_ms", millis(self.started_at_ms));
        record.set("duration_ms", millis(self.duration_ms));
        record.set("errored", self.errored);
        record.set_some("connector", self.connector.as_deref());
        record.set_some("blocked_reason", self.is_blocked.then_some("binary-not-allowed"));
        record.into()
    }
}

/// The operations of a skill that another skill ran.
#[derive(Clone, Debug)]
pub struct ChildTrace {
    pub skill_name: Arc<str>,
    /// How many skills were running above it.
    pub depth: usize,
    pub ops: Vec<TracedOp>,
}

/// What a trace says about a run beside its outcome.
#[derive(Clone, Debug)]
pub struct TracedRun {
    pub trace_id: Arc<str>,
    pub skill_name: Arc<str>,
    pub skill_version: Arc<str>,
    pub trigger: RunTrigger,
    /// The owner of the skill.
    pub owner: Option<Arc<str>>,
    pub completed_at_ms: i64,
}

impl TracedRun {
    /// The record, in version 1 of its form.
    pub fn record(&self, outcome: &SkillOutcome) -> SkillValue {
        let fired_at = self.trigger.fired_at_ms;
        let mut trigger = SkillObject::default();
        trigger.set("source", &*self.trigger.source);
        trigger.set("name", &*self.trigger.name);
        trigger.set("fired_at_ms", millis(fired_at));
        trigger.set_some("trigger_id", self.trigger.trigger_id.as_deref());
        let mut identity = SkillObject::default();
        identity.set_some("agent_id", self.owner.as_deref());
        let mut record = SkillObject::default();
        record.set("version", 1.0);
        record.set("trace_id", &*self.trace_id);
        record.set("skill_name", &*self.skill_name);
        record.set("skill_version", &*self.skill_version);
        record.set("trigger", trigger);
        record.set("identity", identity);
        record.set("ops", SkillValue::list(outcome.trace.iter().map(TracedOp::to_value)));
        record.set("emissions", SkillValue::list(outcome.transcript.iter().cloned().map(SkillValue::Text)));
        record.set("outputs", outcome.outputs_value());
        record.set("errors", SkillValue::list(outcome.errors.iter().map(ErrorRecord::to_value)));
        record.set_some("deadline_exceeded", outcome.deadline_exceeded.then_some(true));
        let uncertain = outcome.uncertain_effects.iter().map(UncertainEffect::to_value);
        record.set_some("uncertain_effects", (uncertain.len() > 0).then(|| SkillValue::list(uncertain)));
        #[expect(clippy::cast_precision_loss, reason = "a count of operations is below 2^53")]
        record.set_some("ops_left_out", (outcome.untraced > 0).then_some(outcome.untraced as f64));
        record.set("fired_at_ms", millis(fired_at));
        record.set("completed_at_ms", millis(self.completed_at_ms));
        record.set("duration_ms", millis(self.completed_at_ms - fired_at));
        record.into()
    }
}

//! Outcome of a run, and the value that a skill gets from another skill that it ran.

use std::sync::Arc;

use super::object::SkillObject;
use super::run_error::ErrorRecord;
use super::shared_memory::ReservedMemory;
use super::trace::{ChildTrace, TracedOp};
use super::value::SkillValue;
use super::variables::Variables;

/// The result of a run.
#[derive(Clone, Debug)]
pub struct SkillOutcome {
    pub variables: Variables,
    pub transcript: Vec<Arc<String>>,
    /// One entry for each declared output. An output can have no value.
    pub outputs: Vec<(String, Option<SkillValue>)>,
    pub errors: Vec<ErrorRecord>,
    pub fallbacks: Vec<FallbackRecord>,
    pub target_order: Vec<Arc<str>>,
    pub delivery_receipts: Vec<SkillValue>,
    pub wake_receipts: Vec<SkillValue>,
    /// Outputs that could not be delivered. They do not make a run fail.
    pub failed_deliveries: Vec<UndeliveredOutput>,
    pub deadline_exceeded: bool,
    pub uncertain_effects: Vec<UncertainEffect>,
    /// Operations in the order in which they ended. It is empty if the run is not traced.
    pub trace: Vec<TracedOp>,
    /// Operations of the skills that this one ran, in the order in which those ended.
    pub child_traces: Vec<ChildTrace>,
    /// How many operations the traces left out because there were too many.
    pub untraced: u64,
    /// The share of this outcome in the budget of its runs. It ends with the last clone.
    pub memory: Arc<ReservedMemory>,
}

/// A fallback that replaced the result of an operation.
#[derive(Clone, Debug)]
pub struct FallbackRecord {
    pub target: Arc<str>,
    pub op_kind: &'static str,
    pub value: SkillValue,
    pub reason: String,
}

/// An effect that was under way when the deadline passed, so nobody knows whether it happened.
#[derive(Clone, Debug)]
pub struct UncertainEffect {
    pub target: Option<Arc<str>>,
    pub op_kind: &'static str,
    pub op: String,
}

/// An output that did not reach its agent.
#[derive(Clone, Debug)]
pub struct UndeliveredOutput {
    pub output_kind: &'static str,
    pub agent_id: Arc<String>,
    /// Whether a session was to be woken.
    pub is_wake: bool,
    pub error: String,
}

impl FallbackRecord {
    pub fn to_value(&self) -> SkillValue {
        let mut record = SkillObject::default();
        record.set("target", &*self.target);
        record.set("opKind", self.op_kind);
        record.set("value", self.value.clone());
        record.set("reason", self.reason.as_str());
        record.into()
    }
}

impl UncertainEffect {
    pub fn to_value(&self) -> SkillValue {
        let mut record = SkillObject::default();
        record.set_some("target", self.target.as_deref());
        record.set("opKind", self.op_kind);
        record.set("op", self.op.as_str());
        record.set("reason", "issued, outcome uncertain");
        record.set("retry", false);
        record.into()
    }
}

impl SkillOutcome {
    /// The variables that a skill declares in `# Returns:`, as far as they are set.
    pub fn returned(&self, returns: &[String]) -> SkillObject {
        let found =
            returns.iter().filter_map(|name| Some((name.as_str(), self.variables.get(name)?.clone())));
        found.collect()
    }

    pub fn outputs_value(&self) -> SkillObject {
        let outputs = self.outputs.iter().filter_map(|(name, value)| Some((name.as_str(), value.clone()?)));
        outputs.collect()
    }

    /// The value that `execute_skill` binds: the declared variables, and the record of the run.
    pub fn envelope(&self, skill_name: &str, returns: &[String]) -> SkillObject {
        let returned = self.returned(returns);
        let mut envelope = returned.clone();
        let texts = |texts: &[Arc<str>]| SkillValue::list(texts.iter().map(|text| SkillValue::from(&**text)));
        envelope.set("skill_name", skill_name);
        envelope.set("final_vars", returned);
        envelope.set("transcript", SkillValue::list(self.transcript.iter().cloned().map(SkillValue::Text)));
        envelope.set("outputs", self.outputs_value());
        envelope.set("errors", SkillValue::list(self.errors.iter().map(ErrorRecord::to_value)));
        envelope.set("target_order", texts(&self.target_order));
        envelope.set("fallbacks", SkillValue::list(self.fallbacks.iter().map(FallbackRecord::to_value)));
        envelope.set("agent_wake_receipts", SkillValue::list(self.wake_receipts.iter().cloned()));
        envelope.set("agent_delivery_receipts", SkillValue::list(self.delivery_receipts.iter().cloned()));
        if self.deadline_exceeded {
            envelope.set("deadline_exceeded", true);
        }
        if !self.uncertain_effects.is_empty() {
            let effects = self.uncertain_effects.iter().map(UncertainEffect::to_value);
            envelope.set("uncertain_effects", SkillValue::list(effects));
        }
        envelope
    }
}

//! Reports of runs: the envelope that a caller gets, and the record that is stored.

use std::sync::Arc;

use posthouse_wire::{DispatchId, RunId};
use serde_json::{Value, json};
use skill::tree::SkillTree;
use skill::{
    ChildTrace, ErrorClass, RunError, RunTrigger, SkillObject, SkillOutcome, SkillValue, TracedOp, TracedRun,
    UndeliveredOutput,
};

/// Largest stored record.
const RECORD_BYTES: usize = 32 * 1024;
/// Longest stored error.
const ERROR_CHARS: usize = 500;

/// Why a skill did not run.
#[derive(Clone, Debug)]
pub struct RunRefusal {
    pub class: Arc<str>,
    pub message: String,
    /// The name of the skill, if it is known. A stored skill that does not exist has none.
    pub skill_name: RefusedName,
}

/// What the envelope of a refusal says about the name of the skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusedName {
    Known(String),
    /// There is no such skill.
    Null,
    /// The text was given, so its name means nothing.
    Absent,
}

impl RunRefusal {
    pub fn new(class: &ErrorClass, message: impl Into<String>, skill_name: RefusedName) -> Self {
        Self { class: class.name().into(), message: message.into(), skill_name }
    }

    pub fn of(thrown: &RunError, skill_name: RefusedName) -> Self {
        Self::new(&thrown.class, thrown.message.clone(), skill_name)
    }

    /// The result that a caller gets. A refusal is a result, not an error of the protocol.
    pub fn envelope(&self, is_mechanical: bool) -> Value {
        let error = json!({
            "class": &*self.class,
            "opKind": "execute_skill",
            "target": "(root)",
            "message": self.message,
        });
        let mut envelope = json!({
            "final_vars": {},
            "transcript": [],
            "outputs": {},
            "errors": [error],
            "target_order": [],
            "mechanical": is_mechanical,
        });
        match &self.skill_name {
            RefusedName::Known(name) => envelope["skill_name"] = name.as_str().into(),
            RefusedName::Null => envelope["skill_name"] = Value::Null,
            RefusedName::Absent => {}
        }
        envelope
    }

    pub fn error(&self) -> String {
        short(&format!("{}: {}", self.class, self.message))
    }
}

/// The result of a run that has ended.
pub fn envelope(outcome: &SkillOutcome, tree: &SkillTree, is_mechanical: bool) -> Value {
    let header = &tree.header;
    let mut envelope = outcome.envelope(header.name.as_deref().unwrap_or("(anonymous)"), &header.returns);
    // Only a skill that runs another one sees the returned variables at the top.
    for name in &header.returns {
        envelope.remove(name);
    }
    envelope.set("mechanical", is_mechanical);
    for (field, is_wake) in [("agent_delivery_receipts", false), ("agent_wake_receipts", true)] {
        let failed = outcome.failed_deliveries.iter().filter(|failed| failed.is_wake == is_wake);
        if let Some(SkillValue::List(receipts)) = envelope.get(field) {
            failed.for_each(|failed| receipts.push(undelivered(failed)));
        }
    }
    serde_json::to_value(SkillValue::from(envelope)).unwrap_or_default()
}

fn undelivered(output: &UndeliveredOutput) -> SkillValue {
    let mut record = SkillObject::default();
    record.set("agent_id", Arc::clone(&output.agent_id));
    record.set(if output.is_wake { "source_kind" } else { "output_kind" }, output.output_kind);
    record.set("error", output.error.as_str());
    record.into()
}

/// The first error of a run, as lists show it.
pub fn first_error(outcome: &SkillOutcome) -> Option<String> {
    let first = outcome.errors.first()?;
    Some(short(&format!("{}: {}", first.class.name(), first.message)))
}

fn short(text: &str) -> String {
    text.chars().take(ERROR_CHARS).collect()
}

/// What a record says about a run beside its outcome.
pub struct RecordedRun<'r> {
    pub id: &'r RunId,
    pub skill_name: &'r str,
    pub version: Option<&'r str>,
    pub trigger: &'r RunTrigger,
    pub owner: Option<Arc<str>>,
    pub completed_at_ms: i64,
    pub sent: &'r [DispatchId],
}

/// The record of a run as JSON. One that is too large loses its texts first, then its operations.
pub fn record(run: &RecordedRun<'_>, outcome: &SkillOutcome) -> String {
    let traced = TracedRun {
        trace_id: run.id.as_str().into(),
        skill_name: run.skill_name.into(),
        skill_version: run.version.unwrap_or_default().into(),
        trigger: run.trigger.clone(),
        owner: run.owner.clone(),
        completed_at_ms: run.completed_at_ms,
    };
    let mut record = serde_json::to_value(traced.record(outcome)).unwrap_or_default();
    let children: Vec<Value> = outcome.child_traces.iter().map(child).collect();
    if !children.is_empty() {
        record["skills"] = children.into();
    }
    if !run.sent.is_empty() {
        record["dispatches"] = run.sent.iter().map(|id| Value::String(id.to_string())).collect();
    }
    for (field, empty) in
        [("emissions", json!([])), ("outputs", json!({})), ("skills", json!([])), ("ops", json!([]))]
    {
        let text = record.to_string();
        if text.len() <= RECORD_BYTES {
            return text;
        }
        record[field] = empty;
        record["shortened"] = true.into();
    }
    let text = record.to_string();
    if text.len() <= RECORD_BYTES { text } else { json!({ "version": 1, "shortened": true }).to_string() }
}

fn child(trace: &ChildTrace) -> Value {
    let ops = trace.ops.iter().map(TracedOp::to_value);
    let ops = serde_json::to_value(SkillValue::list(ops)).unwrap_or_default();
    json!({ "skill_name": &*trace.skill_name, "depth": trace.depth, "ops": ops })
}

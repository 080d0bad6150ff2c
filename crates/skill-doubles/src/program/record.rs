//! The outcome of a run in the form and the order of the recordings.

use std::fs;
use std::path::Path;

use serde_json::Value;
use skill::{ErrorRecord, FallbackRecord, SkillObject, SkillOutcome, SkillValue, TracedOp, UncertainEffect};

use crate::standard_host::StandardHost;

/// Ids of deliveries begin with this. Recordings number them in the order of their appearance.
const ID_PREFIX: &str = "00000000-0000-4000-8000-";
const ID_LENGTH: usize = 36;

pub fn outcome(host: &StandardHost, outcome: &SkillOutcome, root: &Path, options: &Value) -> SkillObject {
    let undefined = || SkillValue::from("<undefined>");
    let mut record = SkillObject::default();
    record.set("transcript", SkillValue::list(outcome.transcript.iter().cloned().map(SkillValue::Text)));
    let outputs =
        outcome.outputs.iter().map(|(name, value)| (name.as_str(), value.clone().unwrap_or_else(undefined)));
    record.set("outputs", outputs.collect::<SkillObject>());
    let variables = outcome.variables.iter();
    let variables = variables.map(|(name, value)| (&**name, value.cloned().unwrap_or_else(undefined)));
    record.set("final_vars", variables.collect::<SkillObject>());
    record.set("errors", SkillValue::list(outcome.errors.iter().map(ErrorRecord::to_value)));
    record.set("fallbacks", SkillValue::list(outcome.fallbacks.iter().map(FallbackRecord::to_value)));
    record.set("agent_delivery_receipts", SkillValue::list(outcome.delivery_receipts.iter().cloned()));
    record.set("agent_wake_receipts", SkillValue::list(outcome.wake_receipts.iter().cloned()));
    if outcome.deadline_exceeded {
        record.set("deadline_exceeded", true);
    }
    if !outcome.uncertain_effects.is_empty() {
        let effects = outcome.uncertain_effects.iter().map(UncertainEffect::to_value);
        record.set("uncertain_effects", SkillValue::list(effects));
    }
    let calls = host.tool_calls().into_iter().map(|call| {
        let mut value = SkillObject::default();
        value.set("connector", call.connector);
        value.set("tool", call.tool);
        value.set("args", call.arguments);
        value.set_some("agent_id", call.owner);
        SkillValue::from(value)
    });
    record.set("tool_calls", SkillValue::list(calls));
    record.set("agent_calls", SkillValue::list(host.agents.calls()));
    record.set("trace_ops", SkillValue::list(outcome.trace.iter().map(TracedOp::to_value)));
    let failed = outcome.failed_deliveries.iter().map(|failed| SkillValue::from(failed.error.as_str()));
    record.set("stderr_agent_dispatch", SkillValue::list(failed));
    if options["dump_files"] == true {
        let mut files = SkillObject::default();
        read_files(root, root, &mut files);
        record.set("files", files);
    }
    if options["dump_store"] == true {
        let sources = host.skills.sources().into_iter();
        let sources = sources.map(|(name, source)| (name, SkillValue::from(&*source)));
        record.set("store", sources.collect::<SkillObject>());
    }
    record
}

fn read_files(root: &Path, folder: &Path, files: &mut SkillObject) {
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            read_files(root, &path, files);
        } else {
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            files.set(name, String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned());
        }
    }
}

/// A record in JSON with the names of the folders and numbered ids.
pub fn displaced(record: &SkillObject, root: &Path) -> Value {
    let mut text = with_folder_names(&SkillValue::from(record.clone()).json(), root);
    let mut number = 0;
    while let Some(id) = text.find(ID_PREFIX).and_then(|at| text.get(at..at + ID_LENGTH)).map(str::to_owned) {
        number += 1;
        text = text.replace(&id, &format!("<uuid:{number}>"));
    }
    serde_json::from_str(&text).unwrap_or_default()
}

/// The text with the names of the folders in the place of the real ones.
pub fn with_folder_names(text: &str, root: &Path) -> String {
    let outside = root.parent().unwrap_or(root);
    text.replace(&*root.to_string_lossy(), "@FSROOT@").replace(&*outside.to_string_lossy(), "@OUTSIDE@")
}

//! Headers of every recorded program.

use serde_json::{Value, json};
use skill::{ParseErrorKind, SkillHeader};

use crate::recorded::{programs, text};

/// The fields of `expect.parse` that come from the header. Null, false and empty ones are left out there.
const FIELDS: &[&str] = &[
    "name",
    "description",
    "tags",
    "type",
    "status",
    "approvalToken",
    "autonomous",
    "timeout",
    "deadline",
    "vars",
    "returns",
    "requires",
    "secretRequires",
    "requiredCapabilities",
    "triggers",
    "outputs",
    "eventType",
    "templates",
];

#[test]
fn every_header_is_read_as_recorded() {
    let mut compared = 0;
    for program in programs() {
        let id = text(&program, "id");
        let Some(expected) = program["expect"].get("parse") else { continue };
        let ours = header_as_recorded(source(&program));
        for field in FIELDS {
            let expected = replaced(&program, field).unwrap_or_else(|| expected[*field].clone());
            assert_eq!(ours[*field], expected, "{id}: {field}");
        }
        compared += 1;
    }
    assert!(compared > 0);
}

#[test]
fn every_error_in_a_header_is_found_in_its_order() {
    for program in programs() {
        let Some(expected) = program["expect"].get("parse") else { continue };
        let expected = expected["parseErrors"].as_array().cloned().unwrap_or_default();
        let expected: Vec<String> =
            expected.iter().filter_map(|error| recorded_subject(error.as_str().unwrap())).collect();
        let errors = SkillHeader::parse(source(&program)).errors;
        let ours: Vec<String> = errors
            .iter()
            .map(|error| match error.kind {
                ParseErrorKind::ReservedWord => "reserved".to_owned(),
                _ => key_in(&error.message).unwrap(),
            })
            .collect();
        assert_eq!(ours, expected, "{}", text(&program, "id"));
    }
}

/// The text that was parsed: with its stamp, if the program was signed.
fn source(program: &Value) -> &str {
    program["signed_source"].as_str().unwrap_or_else(|| text(program, "source"))
}

/// Our header in the form of the vectors.
fn header_as_recorded(source: &str) -> Value {
    let header = SkillHeader::parse(source);
    let mut recorded = serde_json::to_value(&header).unwrap();
    for (var, form) in header.vars.iter().zip(recorded["vars"].as_array_mut().unwrap()) {
        form["required"] = json!(var.is_required());
    }
    let fields = recorded.as_object_mut().unwrap();
    fields.retain(|_, value| !matches!(value, Value::Null | Value::Bool(false)) && *value != json!([]));
    recorded
}

/// What holds for us where the recorded value is a defect of the reference.
fn replaced(program: &Value, field: &str) -> Option<Value> {
    // skill-language 2: one matching pair of quotes around a trigger is removed.
    if text(program, "id") == "fm-quoted-cron" && field == "triggers" {
        return Some(
            json!([{"source": "cron", "name": "0 6 * * *"}, {"source": "event", "name": "Door.Open"}]),
        );
    }
    program.get("ours")?.get(format!("parse.{field}")).cloned()
}

/// The header key that a recorded error is about. `None` for errors outside the header. Texts are not compared.
fn recorded_subject(error: &str) -> Option<String> {
    let uses = ["a skill name", "a variable name", "a return name"];
    if error.contains("is a reserved keyword") {
        return uses.iter().any(|name| error.contains(name)).then(|| "reserved".to_owned());
    }
    if error.starts_with("Unsupported output kind") {
        return Some("Output".to_owned());
    }
    if error.starts_with("Unsupported trigger source") {
        return Some("Triggers".to_owned());
    }
    let about_header = error.starts_with("`# ") || error.starts_with("Malformed `# ");
    about_header.then(|| key_in(error)).flatten()
}

/// The key in a message such as "`# Timeout:` is …".
fn key_in(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("`# ")?;
    rest.split_once(':').map(|(key, _)| key.to_owned())
}

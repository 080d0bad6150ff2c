//! The result of a run as `skill run` and `skillfile execute` print it.

use std::io::IsTerminal;

use serde_json::Value;

use crate::cli::Exit;
use crate::cli::output::{Output, cell, without_control_characters};

/// Which text of a result is its output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PrintedText {
    /// The output `text`.
    TextOutput,
    /// The lines that the skill emitted.
    Transcript,
}

/// Prints a result as JSON, or its text; errors go to standard error. Fails if there are errors.
pub fn print(output: &Output, label: &str, envelope: &Value, text: PrintedText) -> anyhow::Result<()> {
    let errors = envelope["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    if output.json {
        output.value(envelope)?;
    } else {
        output.text(&shown(&printed_text(envelope, text), std::io::stdout().is_terminal()))?;
        eprint!("{}", shown(&error_lines(errors), true));
    }
    match errors.len() {
        0 => Ok(()),
        1 => Err(failed(label, "1 error")),
        count => Err(failed(label, &format!("{count} errors"))),
    }
}

fn failed(label: &str, errors: &str) -> anyhow::Error {
    Exit { code: 1, words: format!("{label} failed with {errors}") }.into()
}

/// A skill can print what it got from anywhere. In a terminal, that must not move the cursor.
fn shown(text: &str, is_terminal: bool) -> String {
    if is_terminal { without_control_characters(text) } else { text.to_owned() }
}

fn printed_text(envelope: &Value, text: PrintedText) -> String {
    if let (PrintedText::TextOutput, Some(text)) = (text, envelope["outputs"]["text"].as_str()) {
        return format!("{text}\n");
    }
    let lines = envelope["transcript"].as_array().into_iter().flatten();
    lines.filter_map(Value::as_str).flat_map(|line| [line, "\n"]).collect()
}

fn error_lines(errors: &[Value]) -> String {
    let mut lines = String::new();
    for error in errors {
        let [target, kind, class] = ["target", "opKind", "class"].map(|field| cell(&error[field]));
        let message = error["message"].as_str().unwrap_or_default();
        lines.push_str(&format!("  [{target}/{kind}] ({class}) {message}\n"));
        if let Some(remedy) = error["remediation"].as_str() {
            lines.push_str(&format!("    → {remedy}\n"));
        }
    }
    lines
}

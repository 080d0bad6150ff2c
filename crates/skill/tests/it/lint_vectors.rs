//! Lint tests: the findings of every recorded program, and the list of rules.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use skill::check::LINT_RULES;
use skill_doubles::ProgramCase;

use crate::recorded::{contract, list, programs, test_keys, text};

/// Findings that differ because the recorded ones follow from a defect of the reference.
fn corrected(id: &str, recorded: Vec<Value>) -> Vec<Value> {
    let is_about_syntax = |finding: &Value| {
        ["parse-error", "malformed-op-grammar", "indentation"].iter().any(|rule| finding["rule"] == *rule)
    };
    match id {
        // These texts have no mistake for us.
        "fm-call-over-several-lines" | "fn-arg-splitter-ignores-escapes" => {
            recorded.into_iter().filter(|finding| !is_about_syntax(finding)).collect()
        }
        // A line that is indented by less than four is reported.
        "dc-two-space-target" => {
            let mut ours = vec![json!({"rule": "parse-error", "severity": "error"})];
            ours.extend(recorded);
            ours
        }
        _ => recorded,
    }
}

#[test]
fn vectors_every_program_has_the_recorded_findings() {
    let (mut compared, mut wrong) = (0, Vec::new());
    let keys = test_keys();
    for program in programs() {
        let id = text(&program, "id");
        let Some(recorded) = program["expect"]["lint"].as_array() else { continue };
        let recorded = Value::Array(corrected(id, recorded.clone()));
        let mut program = program.clone();
        program["options"]["parse_only"] = true.into();
        let played = ProgramCase::new(&program, Some(&keys)).play().unwrap();
        let differences = played.lint_differences(&recorded);
        if !differences.is_empty() {
            wrong.push(format!("{id}: {}", differences.join("\n")));
        }
        compared += 1;
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 0);
}

#[test]
fn vectors_the_rules_are_those_of_the_contract_and_our_own() {
    let recorded = list(&contract("lint-rules.json"));
    let recorded: BTreeMap<&str, &str> =
        recorded.iter().map(|rule| (text(rule, "id"), text(rule, "severity"))).collect();
    let severities: Vec<(&str, String)> = LINT_RULES
        .iter()
        .filter(|rule| !rule.is_own())
        .map(|rule| (rule.id, rule.severity.to_string()))
        .collect();
    let ours: BTreeMap<&str, &str> =
        severities.iter().map(|(id, severity)| (*id, severity.as_str())).collect();
    assert_eq!(ours, recorded);
}

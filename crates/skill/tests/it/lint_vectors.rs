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

#[test]
fn a_case_says_what_lint_knows() {
    let source = "# Skill: buy\n# Status: Approved\ngo:\n    $ shop.pay -> R\ndefault: go\n";
    let shop = json!({"allowed_tools": ["levels", "order"]});
    let options = json!({"parse_only": true, "lint_facts": {"connectors": {"shop": shop}}});
    let case = json!({"id": "facts", "source": source, "options": options});
    let played = ProgramCase::new(&case, None).play().unwrap();
    let errors = played.lint.as_array().unwrap().iter().filter(|finding| finding["severity"] == "error");
    let messages: Vec<&str> = errors.map(|finding| text(finding, "message")).collect();
    assert_eq!(messages, ["tool 'pay' is not allowed for connector 'shop'; allowed are levels, order"]);
    assert_eq!(played.parse["targets"][0]["ops"][0]["mcpConnector"], "shop");

    let unknown = json!({"id": "typo", "source": source, "options": {"lint_facts": {"tools": []}}});
    assert!(ProgramCase::new(&unknown, None).play().is_err());
}

//! Comparison of what a case left with what it expects: everything but the wording of messages.

use serde_json::{Map, Value, json};
use skill::check::LintRule;

use super::{PlayedProgram, ProgramCase};

/// Variables that a recording leaves out while they have their default.
const AMBIENT: &[&str] = &["NOW", "USER", "SESSION_CONTEXT", "TRIGGER_TYPE", "TRIGGER_PAYLOAD"];
const CLOCK: &[&str] = &["NOW", "EVENT."];

/// Fields whose words are free. Their presence is compared.
const WORDING: &[&str] = &["message", "reason", "error"];
const DROPPED: &[&str] = &["remediation", "innerCause", "score", "started_at_ms", "duration_ms"];

impl PlayedProgram {
    /// Every difference from what a case expects, one text each. `ours` replaces the expected run where it is given.
    pub fn differences(&self, case: &ProgramCase<'_>) -> Vec<String> {
        let (expected, mut differences) = (&case.case["expect"], Vec::new());
        if expected["lint"].is_array() {
            differences.extend(self.lint_differences(&expected["lint"]));
        }
        if expected["compile"].is_object() {
            differences.extend(self.compile_differences(&expected["compile"]));
        }
        match case.case["ours"].as_object() {
            Some(ours) => {
                let run = json!({ "run": self.run });
                let paths = ours.iter().map(|(path, value)| (path.as_str(), value));
                differences.extend(path_differences(&run, paths));
            }
            None if expected["run"].is_object() => {
                differences.extend(self.run_differences(&expected["run"], case));
            }
            None => {}
        }
        differences
    }

    /// Findings are compared in their order. The blocks of one rule are a set. Rules that the reference runtime lacks
    /// are compared only if the case expects one of their findings.
    pub fn lint_differences(&self, expected: &Value) -> Vec<String> {
        let wanted = ordered(expected);
        let mut found = ordered(&self.lint);
        found.retain(|[_, rule, _]| {
            let is_own = LintRule::named(rule).is_some_and(LintRule::is_own);
            !is_own || wanted.iter().any(|[_, wanted, _]| wanted == rule)
        });
        if found == wanted { Vec::new() } else { vec![difference("lint", &self.lint, expected)] }
    }

    pub fn compile_differences(&self, expected: &Value) -> Vec<String> {
        let parts = expected.as_object().into_iter().flatten();
        let differs = parts.filter_map(|(name, wanted)| {
            let (found, wanted) = match name.as_str() {
                // Its words are free.
                "error" => {
                    let form =
                        |error: &Value| json!({"class": error["class"], "rules": sorted(&error["rules"])});
                    (form(&self.compile["error"]), form(wanted))
                }
                name => (self.compile[name].clone(), wanted.clone()),
            };
            (found != wanted).then(|| difference(&format!("compile.{name}"), &found, &wanted))
        });
        differs.collect()
    }

    pub fn run_differences(&self, expected: &Value, case: &ProgramCase<'_>) -> Vec<String> {
        let options = &case.case["options"];
        let (mut found, mut expected) = (self.run.clone(), expected.clone());
        if let Some(variables) = found["final_vars"].as_object_mut() {
            let keeps = options["keep_ambient"] == true;
            variables.retain(|name, _| {
                let is_ambient = AMBIENT.contains(&name.as_str()) || name.starts_with("EVENT.");
                keeps || !is_ambient || expected["final_vars"].get(name).is_some()
            });
        }
        let failed = |record: &Value| record["stderr_agent_dispatch"].as_array().map_or(0, Vec::len);
        let failures = (failed(&found), failed(&expected));
        for record in [&mut found, &mut expected] {
            if let Some(variables) = record["final_vars"].as_object_mut()
                && options["realtime"] == true
            {
                variables.retain(|name, _| !CLOCK.iter().any(|clock| name.starts_with(clock)));
            }
            if let Some(record) = record.as_object_mut() {
                record.remove("stderr_agent_dispatch");
                let is_empty = |value: &Value| value.is_null() || *value == json!([]);
                record.retain(|name, value| {
                    !(matches!(name.as_str(), "tool_calls" | "agent_calls") && is_empty(value))
                });
            }
            simplify(record);
        }
        let mut differences = part_differences(&found, &expected);
        if failures.0 != failures.1 {
            differences.push(format!("failed deliveries: {failures:?}"));
        }
        differences
    }
}

fn part_differences(found: &Value, expected: &Value) -> Vec<String> {
    let empty = Map::new();
    let (left, right) = (found.as_object().unwrap_or(&empty), expected.as_object().unwrap_or(&empty));
    let names = left.keys().chain(right.keys().filter(|name| !left.contains_key(*name)));
    let differs = names.filter_map(|name| {
        let part = |parts: &Map<String, Value>| parts.get(name).cloned().unwrap_or_default();
        let (found, expected) = (part(left), part(right));
        (found != expected).then(|| difference(&format!("run.{name}"), &found, &expected))
    });
    differs.collect()
}

/// Compares single places of a result, named by paths such as `run.errors.0.class`.
pub fn path_differences<'p>(
    found: &Value,
    wanted: impl IntoIterator<Item = (&'p str, &'p Value)>,
) -> Vec<String> {
    let paths = wanted.into_iter().filter(|(path, _)| path.starts_with("run."));
    let differs = paths.filter_map(|(path, wanted)| {
        let value = found.pointer(&format!("/{}", path.replace('.', "/"))).unwrap_or(&Value::Null);
        (value != wanted).then(|| difference(path, value, wanted))
    });
    differs.collect()
}

fn difference(path: &str, found: &Value, expected: &Value) -> String {
    format!("{path}\n    found    {found}\n    expected {expected}")
}

fn sorted(list: &Value) -> Vec<String> {
    let mut texts: Vec<String> = list.as_array().into_iter().flatten().map(ToString::to_string).collect();
    texts.sort();
    texts
}

fn ordered(findings: &Value) -> Vec<[String; 3]> {
    let part = |finding: &Value, name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    let findings = findings.as_array().into_iter().flatten();
    let mut findings: Vec<_> =
        findings.map(|found| ["severity", "rule", "block"].map(|name| part(found, name))).collect();
    for chunk in findings.chunk_by_mut(|a, b| a[..2] == b[..2]) {
        chunk.sort();
    }
    findings
}

/// Removes what is not compared: digits of scores, times, and the words of errors, fallbacks and receipts.
fn simplify(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(simplify),
        Value::Object(fields) => {
            fields.retain(|name, _| !DROPPED.contains(&name.as_str()));
            let has_words =
                ["opKind", "class", "receipt", "ok"].iter().any(|name| fields.contains_key(*name));
            for (name, value) in fields.iter_mut() {
                // The reason of an uncertain effect is fixed.
                if has_words && WORDING.contains(&name.as_str()) && value != "issued, outcome uncertain" {
                    *value = Value::from("(words)");
                }
                simplify(value);
            }
        }
        _ => {}
    }
}

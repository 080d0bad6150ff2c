//! Run tests: each recorded program runs in the standard environment and must have the results of the reference.

use serde_json::{Value, json};
use skill_doubles::{ProgramCase, path_differences};

use crate::recorded::{is_own_folder, program_files, test_keys, text};

/// Programs whose recording shows a defect of the reference and has no `ours`: what holds instead, by path.
const FIXED: &[(&str, &str, &str)] = &[
    (
        "dp-triple-quoted-kwarg",
        "run.transcript",
        r#"["bound {\"body\":\"line one\\n      line \\\"two\\\"\\n    \"}"]"#,
    ),
    // Escapes are not processed in data (`dp-escapes-run-over-data` is marked, this one is not): see the value of `s`.
    (
        "dp-kwarg-coercion",
        "run.tool_calls.0.args",
        r#"{"i":5,"neg":-3,"f":1.25,"exp":"1e3","t":true,"fl":false,"nu":null,"q":"5","qt":"true","bare":"word",
            "lst":[1,"two"],"obj":{"a":{"b":2}},"badj":"[x,y]","sng":"it\\n","esc":"l1\nl2\t\"z\"","n":7,"b":true,
            "s":"a \\\"q\\\" b","us":"a \\\"q\\\" b","sp":"two words","arr":["a \\\"q\\\" b","two words"],"o2":{"k":"7"}}"#,
    ),
    (
        "cp-execute-kwarg-with-space",
        "run.transcript",
        r#"["[two words] [three more words] [two words] [two words] [json form]"]"#,
    ),
    ("fm-call-over-several-lines", "run.transcript", r#"["hello"]"#),
    ("fn-arg-splitter-ignores-escapes", "run.transcript", r#"["he said \"hi, there\" twice"]"#),
];

/// The program files of this project, each with a test of its own.
const OWN_FILES: &[&str] = &[
    "01-frontmatter",
    "02-targets",
    "03-substitution",
    "04-filters",
    "05-conditions",
    "06-foreach",
    "07-set-append",
    "08-dispatch",
    "09-shell-files",
    "10-composition",
    "11-outputs",
    "12-notify",
    "13-errors",
    "14-mechanical-deadline",
    "15-lint",
    "16-examples",
];

macro_rules! program_file_tests {
    ($($test:ident: $file:literal,)*) => {
        $(#[test]
        fn $test() {
            run_files(|name| name == $file);
        })*
    };
}

program_file_tests! {
    vectors_run_01_frontmatter: "01-frontmatter",
    vectors_run_02_targets: "02-targets",
    vectors_run_03_substitution: "03-substitution",
    vectors_run_04_filters: "04-filters",
    vectors_run_05_conditions: "05-conditions",
    vectors_run_06_foreach: "06-foreach",
    vectors_run_07_set_append: "07-set-append",
    vectors_run_08_dispatch: "08-dispatch",
    vectors_run_09_shell_files: "09-shell-files",
    vectors_run_10_composition: "10-composition",
    vectors_run_11_outputs: "11-outputs",
    vectors_run_12_notify: "12-notify",
    vectors_run_13_errors: "13-errors",
    vectors_run_14_mechanical_deadline: "14-mechanical-deadline",
    vectors_run_15_lint: "15-lint",
    vectors_run_16_examples: "16-examples",
}

#[test]
fn vectors_run_files_of_other_names() {
    run_files(|name| !OWN_FILES.contains(&name));
}

#[test]
fn vectors_run_compares_every_program_of_this_project_that_the_reference_ran() {
    if is_own_folder() {
        let programs = program_files().into_iter().flat_map(|(_, programs)| programs);
        let (ran, all) = programs.fold((0, 0), |(ran, all), program| {
            (ran + usize::from(program["expect"]["run"].is_object()), all + 1)
        });
        assert_eq!((ran, all), (242, 318));
    }
}

fn run_files(is_wanted: impl Fn(&str) -> bool) {
    let files = program_files().into_iter().filter(|(name, _)| is_wanted(name));
    let mut wrong = Vec::new();
    for program in files.flat_map(|(_, programs)| programs) {
        let differences = differences(&program);
        if !differences.is_empty() {
            wrong.push(format!("{}:\n  {}", text(&program, "id"), differences.join("\n  ")));
        }
    }
    assert!(wrong.is_empty(), "{} programs differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn differences(program: &Value) -> Vec<String> {
    let id = text(program, "id").to_owned();
    let keys = test_keys();
    let mut program = program.clone();
    if FIXED.iter().any(|(known, ..)| *known == id) {
        // The reference could only parse some of them.
        program["options"]["parse_only"] = false.into();
    }
    let case = ProgramCase::new(&program, Some(&keys));
    let played = case.play().unwrap();
    let run = json!({"run": played.run});
    if let Some(ours) = program["ours"].as_object() {
        return path_differences(&run, ours.iter().map(|(path, value)| (path.as_str(), value)));
    }
    let fixes: Vec<(&str, Value)> = FIXED
        .iter()
        .filter(|(known, ..)| **known == *id)
        .map(|(_, path, json)| (*path, serde_json::from_str(json).unwrap()))
        .collect();
    if !fixes.is_empty() {
        return path_differences(&run, fixes.iter().map(|(path, value)| (*path, value)));
    }
    let expected = &program["expect"]["run"];
    if expected.is_null() { Vec::new() } else { played.run_differences(expected, &case) }
}

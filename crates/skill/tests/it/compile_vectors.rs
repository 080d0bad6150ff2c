//! Compile tests: the rendering of every recorded program, its variables, outputs and errors.

use skill_doubles::ProgramCase;

use crate::recorded::{is_own_folder, programs, test_keys, text};

/// Programs whose recorded result follows from a defect of the reference. Their texts have no mistake for us, or one
/// that the reference does not see.
const FIXED: &[&str] = &[
    "fm-call-over-several-lines",
    "fn-arg-splitter-ignores-escapes",
    "dc-two-space-target",
    // A `$` over several lines binds its result, and a text argument of `execute_skill(…)` keeps its quotes.
    "dp-triple-quoted-kwarg",
    "dp-multi-line-argument",
    "cp-execute-kwarg-with-space",
];

#[test]
fn vectors_every_program_compiles_to_the_recorded_text() {
    let (mut compared, mut rendered, mut wrong) = (0, 0, Vec::new());
    let keys = test_keys();
    for program in programs() {
        let (id, expected) = (text(&program, "id"), &program["expect"]["compile"]);
        if !expected.is_object() || FIXED.contains(&id) {
            continue;
        }
        let case = ProgramCase::new(&program, Some(&keys));
        let differences = case.play().unwrap().compile_differences(expected);
        if !differences.is_empty() {
            wrong.push(format!("{id}:\n  {}", differences.join("\n  ")));
        }
        compared += 1;
        rendered += usize::from(expected["rendered"].is_string());
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    if is_own_folder() {
        assert_eq!((rendered, compared), (238, 269));
    }
}

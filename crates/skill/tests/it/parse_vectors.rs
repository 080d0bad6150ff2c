//! Parser tests: the tree of every recorded program, compared with the vectors.

use serde_json::{Value, json};
use skill::ParseErrorKind;
use skill::tree::SkillTree;
use skill_doubles::tree_form;

use crate::recorded::{is_own_folder, programs, text};

/// What our parser reads where the recorded text shows a defect of the reference.
fn corrected(id: &str, recorded: &Value) -> Value {
    let mut ours = recorded.clone();
    let op = |ours: &mut Value, op: usize, field: &str, value: Value| ours[0]["ops"][op][field] = value;
    match id {
        // A call over several lines is one operation.
        "fm-call-over-several-lines" => {
            ours = json!([{"name": "go", "deps": [], "ops": [{"kind": "emit", "body": "hello"}]}]);
        }
        // A `$` line over several lines binds its result.
        "dp-triple-quoted-kwarg" | "dp-multi-line-argument" => {
            let body = ours[0]["ops"][0]["body"].as_str().unwrap().to_owned();
            let (arguments, variable) = body.rsplit_once(" -> ").unwrap();
            op(&mut ours, 0, "body", json!(arguments));
            op(&mut ours, 0, "outputVar", json!(variable));
        }
        // A text with blanks stays one argument.
        "cp-execute-kwarg-with-space" => {
            let body = ours[0]["ops"][0]["body"].as_str().unwrap();
            let body = body.replace("WHO=two words", "WHO=\"two words\"");
            op(&mut ours, 0, "body", json!(body));
        }
        // A comma after an escaped quote does not separate arguments.
        "fn-arg-splitter-ignores-escapes" => {
            ours[0]["ops"] = json!([{"kind": "emit", "body": "he said \"hi, there\" twice"}]);
        }
        _ => {}
    }
    ours
}

#[test]
fn vectors_every_program_has_the_recorded_targets_and_template() {
    let (mut compared, mut wrong) = (0, Vec::new());
    for program in programs() {
        let id = text(&program, "id");
        let Some(expected) = program["expect"].get("parse") else { continue };
        let tree = SkillTree::parse(source(&program));
        let mut ours = tree_form(&tree);
        if !tree.ambiguous_template_lines.is_empty() || !expected["templateAmbiguousLines"].is_null() {
            ours["templateAmbiguousLines"] = json!(tree.ambiguous_template_lines);
        }
        for (field, found) in ours.as_object().unwrap() {
            let recorded = replaced(&program, field).unwrap_or_else(|| expected[field].clone());
            let recorded = if field == "targets" { corrected(id, &recorded) } else { recorded };
            if *found != recorded {
                wrong.push(format!("{id}: {field}\n  found    {found}\n  recorded {recorded}"));
            }
        }
        compared += 1;
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 0);
    if is_own_folder() {
        assert_eq!(compared, 318);
    }
}

#[test]
fn vectors_every_program_has_the_recorded_parse_errors() {
    let (mut errors, mut wrong) = (0, Vec::new());
    for program in programs() {
        let id = text(&program, "id");
        let Some(expected) = program["expect"].get("parse") else { continue };
        let recorded = expected["parseErrors"].as_array().cloned().unwrap_or_default();
        let recorded: Vec<ParseErrorKind> =
            recorded.iter().map(|error| recorded_kind(error.as_str().unwrap())).collect();
        let tree = SkillTree::parse(source(&program));
        let found: Vec<ParseErrorKind> = tree.errors.iter().map(|error| error.kind).collect();
        errors += found.len();
        let is_right = match program.get("ours").and_then(|ours| ours.get("parse.parseErrors.length")) {
            Some(length) => json!(found.len()) == *length,
            // These are mistakes in the reference only.
            None if matches!(id, "fm-call-over-several-lines" | "fn-arg-splitter-ignores-escapes") => {
                found.is_empty()
            }
            None => found == recorded,
        };
        if !is_right {
            wrong.push(format!(
                "{id}:\n  found    {:?}\n  recorded {:?}",
                tree.errors, expected["parseErrors"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(errors > 0);
}

/// The text that was parsed: with its stamp, if the program was signed.
fn source(program: &Value) -> &str {
    program["signed_source"].as_str().unwrap_or_else(|| text(program, "source"))
}

fn replaced(program: &Value, field: &str) -> Option<Value> {
    program.get("ours")?.get(format!("parse.{field}")).cloned()
}

fn recorded_kind(error: &str) -> ParseErrorKind {
    let begins = |words: &[&str]| words.iter().any(|word| error.starts_with(word));
    if error.contains(" is a reserved keyword") {
        ParseErrorKind::ReservedWord
    } else if begins(&["Tab characters", "Mid-block"]) {
        ParseErrorKind::Indentation
    } else if begins(&["Malformed `$"]) {
        ParseErrorKind::MalformedOp
    } else if begins(&["Malformed function-call"]) {
        ParseErrorKind::MalformedCall
    } else if begins(&["Malformed `if", "Malformed `elif", "Malformed `foreach"]) {
        ParseErrorKind::MalformedBlock
    } else if begins(&["Legacy `"]) {
        ParseErrorKind::LegacyOp
    } else if begins(&["Unsupported condition"]) {
        ParseErrorKind::UnsupportedCondition
    } else if error.contains("`=` is not valid in a condition") {
        ParseErrorKind::SingleEquals
    } else if begins(&["`# ", "Malformed `# ", "Unsupported output kind", "Unsupported trigger source"]) {
        ParseErrorKind::InvalidHeader
    } else {
        ParseErrorKind::Structure
    }
}

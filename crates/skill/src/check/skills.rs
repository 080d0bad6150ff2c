//! Lint rules about other skills that a skill calls, inlines or names as a template.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::walk::{every_main_op, every_op_with_errors, has_dollar_bracket, texts};
use super::{Check, FindingPlace};
use crate::status::Status;
use crate::syntax::blanks::is_word;
use crate::syntax::tree::{ArgumentValue, DispatchOp, OpKind, Reference, SkillOp, SkillTree};

/// Fields that every result of a skill has.
const RESULT_FIELDS: [&str; 8] = [
    "skill_name",
    "outputs",
    "transcript",
    "errors",
    "target_order",
    "fallbacks",
    "agent_delivery_receipts",
    "final_vars",
];

/// The stored skills that a check asks about: those that a skill names, and its own name.
pub fn skills_to_look_up(tree: &SkillTree) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = called_skills(tree);
    names.extend(tree.header.templates.iter().cloned());
    names.extend(tree.header.name.clone());
    names
}

/// The skills that the operations of a tree call or inline, those of error blocks included.
pub fn called_skills(tree: &SkillTree) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    every_op_with_errors(tree, &mut |_, op, _| names.extend(called_skill(op).map(str::to_owned)));
    names
}

/// Whether a skill calls another one whose name is not written out, so that it is known only when it runs.
pub fn calls_computed_skill(tree: &SkillTree) -> bool {
    let mut found = false;
    every_op_with_errors(tree, &mut |_, op, _| {
        found |= matches!(&op.kind, OpKind::Dispatch(op) if is_computed_call(op));
    });
    found
}

fn is_computed_call(op: &DispatchOp) -> bool {
    let Some(call) = op.call.as_ref().filter(|call| &*call.tool == "execute_skill") else { return false };
    let mut names =
        call.arguments.iter().filter(|argument| matches!(&*argument.name, "name" | "skill_name")).peekable();
    let is_written_out = |value: &ArgumentValue| match value {
        ArgumentValue::Quoted(text) => !has_dollar_bracket(text.text()),
        ArgumentValue::Bare(text) => text.text().chars().all(|c| is_word(c) || c == '-'),
        ArgumentValue::Json(_) => false,
    };
    names.peek().is_none() || names.any(|argument| !is_written_out(&argument.value))
}

/// The skill that an operation calls or inlines.
fn called_skill(op: &SkillOp) -> Option<&str> {
    match &op.kind {
        OpKind::Inline(op) => Some(&op.skill),
        OpKind::Dispatch(op) => executed_skill(op),
        _ => None,
    }
}

fn executed_skill(op: &DispatchOp) -> Option<&str> {
    let call = op.call.as_ref().filter(|call| &*call.tool == "execute_skill")?;
    let names = call.arguments.iter().filter(|argument| matches!(&*argument.name, "name" | "skill_name"));
    let written = names.filter_map(|argument| match &argument.value {
        ArgumentValue::Quoted(text) => Some(text.text()),
        ArgumentValue::Bare(text) => {
            let text = text.text();
            let end = text.find(|c| !is_word(c) && c != '-').unwrap_or(text.len());
            Some(&text[..end]).filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
        }
        ArgumentValue::Json(_) => None,
    });
    written.into_iter().find(|name| !name.is_empty())
}

pub fn check(check: &mut Check<'_>) {
    let tree = check.tree;
    let Some(store) = &check.context.store else {
        return inlines_without_store(check);
    };
    let mut asked = HashSet::new();
    let mut found = Vec::new();
    every_main_op(tree, &mut |target, op| {
        let Some(name) = called_skill(op).filter(|name| asked.insert(*name)) else { return };
        let place = FindingPlace::op(&target.name, op);
        match store.skills.get(name) {
            None => found.push((
                "unknown-skill-reference",
                place,
                format!("no stored skill has the name '{name}'"),
            )),
            Some(stored) if stored.status == Some(Status::Disabled) => {
                for rule in ["disabled-skill-reference", "reference-to-disabled-skill"] {
                    found.push((rule, place, format!("skill '{name}' is disabled")));
                }
            }
            Some(_) => {}
        }
    });
    for name in tree.header.templates.iter().filter(|name| !store.skills.contains_key(*name)) {
        let message = format!("`# Templates:` names '{name}', and no stored skill has that name");
        found.push(("unknown-template-reference", FindingPlace::SKILL, message));
    }
    for (rule, place, message) in found {
        check.report(rule, place, message);
    }
    results_of_skills(check);
}

/// Without a store nothing can be inlined. One finding is enough.
fn inlines_without_store(check: &mut Check<'_>) {
    for target in &check.tree.targets {
        let inline = target.ops.iter().find_map(|op| match &op.kind {
            OpKind::Inline(inline) => Some((op, inline)),
            _ => None,
        });
        if let Some((op, inline)) = inline {
            let message =
                format!("skill '{}' is inlined, but there is no store to take it from", inline.skill);
            return check.report(
                "missing-skillstore-for-data-ref",
                FindingPlace::op(&target.name, op),
                message,
            );
        }
    }
}

/// Fields of the result of a skill that this skill does not return.
fn results_of_skills(check: &mut Check<'_>) {
    let (tree, Some(store)) = (check.tree, &check.context.store) else { return };
    let mut results: HashMap<&str, &str> = HashMap::new();
    every_main_op(tree, &mut |_, op| {
        if let OpKind::Dispatch(dispatch) = &op.kind
            && let (Some(variable), Some(skill)) = (&dispatch.binding.variable, executed_skill(dispatch))
        {
            results.insert(variable, skill);
        }
    });
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    every_op_with_errors(tree, &mut |target, op, _| {
        texts(tree, op, &mut |text| {
            for (reference, place) in text.located_references() {
                let Some(field) = returned_field(reference) else { continue };
                let Some(skill) = results.get(reference.root()) else { continue };
                let Some(stored) = store.skills.get(*skill) else { continue };
                let mut is_new = || seen.insert((&target.name, reference.form as u8, reference.name.clone()));
                if !stored.returns.iter().any(|name| name == field) && is_new() {
                    let returns = match stored.returns.as_slice() {
                        [] => "nothing: it has no `# Returns:` line".to_owned(),
                        names => names.join(", "),
                    };
                    let message = format!("skill '{skill}' does not return '{field}'; it returns {returns}");
                    found.push((
                        "unexported-final-var-access",
                        FindingPlace::op(&target.name, op).at(place),
                        message,
                    ));
                }
            }
        });
    });
    for (rule, place, message) in found {
        check.report(rule, place, message);
    }
}

/// The name that `${R.NAME}` or `${R.final_vars.NAME}` takes from a result. A number is no name.
fn returned_field(reference: &Reference) -> Option<&str> {
    let field = match reference.steps() {
        [first, field, ..] if &**first == "final_vars" => field,
        [field, ..] if !RESULT_FIELDS.contains(&&**field) => field,
        _ => return None,
    };
    (!field.starts_with(|c: char| c.is_ascii_digit())).then_some(field)
}

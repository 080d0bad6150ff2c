//! Lint rules about the body template.

use std::collections::{HashMap, HashSet};

use super::walk::every_op_with_errors;
use super::{Check, FindingPlace};
use crate::syntax::OutputKind;
use crate::syntax::blanks::is_word;
use crate::syntax::tree::{LineTable, OpKind};

pub fn check(check: &mut Check<'_>) {
    let tree = check.tree;
    if !tree.ambiguous_template_lines.is_empty() {
        let table = LineTable::of(tree.source());
        for line in &tree.ambiguous_template_lines {
            let message = format!("line {line} looks like a target, but it has no body and is template text");
            check.report("template-looks-like-target", FindingPlace::range(table.line(*line)), message);
        }
    }
    let Some(template) = &tree.template else { return };
    let mut places = HashMap::new();
    for (reference, place) in template.located_references() {
        places.entry(reference.root()).or_insert(place);
    }
    let mut seen = HashSet::new();
    for name in referenced(template.text()) {
        if !check.names.knows(name) && seen.insert(name) {
            let message = format!("the template refers to '{name}', which nothing sets");
            let place = places.get(name).copied().flatten();
            check.report("unset-template-var", FindingPlace::SKILL.at(place), message);
        }
    }
    let outputs = &tree.header.outputs;
    let takes_text = outputs.iter().any(|output| output.kind != OutputKind::None);
    if referenced(template.text()).next().is_none() && !takes_text {
        let message = "text outside of targets is the output of the skill".to_owned();
        check.report("body-template-detected", FindingPlace::SKILL, message);
    }
    let mut emits = false;
    every_op_with_errors(tree, &mut |_, op, _| emits |= matches!(op.kind, OpKind::Emit(_)));
    if emits && (outputs.is_empty() || takes_text) {
        let message = "the template is the output, and `emit` only adds to the transcript".to_owned();
        check.report("emit-with-template", FindingPlace::SKILL, message);
    }
}

/// The names after every `$(` and `${`.
fn referenced(text: &str) -> impl Iterator<Item = &str> {
    let bracketed = text.match_indices('$').filter_map(|(at, _)| text[at + 1..].strip_prefix(['(', '{']));
    bracketed.filter_map(|rest| {
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let begins = rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        begins.then(|| &rest[..length])
    })
}

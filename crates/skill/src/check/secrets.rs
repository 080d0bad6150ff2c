//! Lint rules about secret markers: where they are allowed, and that they are declared.

use std::collections::HashSet;

use memchr::memmem;

use super::connectors::BUILT_IN;
use super::walk::{every_main_op, set_value};
use super::{Check, FindingPlace};
use crate::syntax::blanks::is_blank;
use crate::syntax::tree::{OpKind, SecretMarker, ShellCommand, SkillOp, SkillTree, TextTemplate};

const FRONT: &str = "{{";

pub fn check(check: &mut Check<'_>) {
    // Most skills have no marker at all.
    if memmem::find(check.tree.source().as_bytes(), FRONT.as_bytes()).is_none() {
        return;
    }
    use_only(check);
    declared(check);
}

/// The markers of a text: their names, and the text of those without a plain name.
struct Markers {
    names: Vec<String>,
    malformed: Vec<String>,
}

impl Markers {
    fn of(text: &str) -> Self {
        let mut markers = Self { names: Vec::new(), malformed: Vec::new() };
        if !text.contains(FRONT) {
            return markers;
        }
        for (marker, written) in SecretMarker::in_text(text) {
            match marker.name {
                Some(name) => markers.names.push(name.into()),
                None => markers.malformed.push(written.to_owned()),
            }
        }
        markers
    }

    fn distinct(&self) -> impl Iterator<Item = &str> {
        let mut seen = HashSet::new();
        self.names.iter().map(String::as_str).filter(move |name| seen.insert(*name))
    }
}

/// The texts of an operation in which a marker is filled in, and those in which it would be shown or kept.
fn positions(tree: &SkillTree, op: &SkillOp) -> (String, String) {
    let (mut sink, mut elsewhere) = (String::new(), Vec::new());
    let is_sink = match &op.kind {
        OpKind::Shell(shell) => {
            sink.push_str(tree.body(op));
            if let ShellCommand::Argv(words) = &shell.command {
                let words: Vec<&str> = words.iter().map(TextTemplate::text).collect();
                sink.push(' ');
                sink.push_str(&words.join(" "));
            }
            true
        }
        OpKind::Dispatch(dispatch) => {
            let tool = dispatch.call.as_ref().map(|call| &*call.tool);
            let is_built_in =
                dispatch.connector.is_none() && tool.is_some_and(|tool| BUILT_IN.contains(&tool));
            if !is_built_in {
                sink.push_str(&dispatch.body);
            }
            !is_built_in
        }
        _ => false,
    };
    if !is_sink {
        elsewhere.push(tree.body(op));
    }
    elsewhere.extend(set_value(op).map(|value| value.text()));
    elsewhere.extend(op.binding().and_then(|binding| binding.fallback.as_deref()));
    match &op.kind {
        OpKind::Foreach(op) => elsewhere.push(&op.list),
        OpKind::If(op) => elsewhere.extend(op.branches.iter().map(|branch| &*branch.text)),
        _ => {}
    }
    (sink, elsewhere.join(" "))
}

/// A marker outside of commands and tool calls.
fn use_only(check: &mut Check<'_>) {
    let tree = check.tree;
    let (mut found, mut accounted) = (Vec::new(), 0);
    every_main_op(tree, &mut |target, op| {
        let (sink, elsewhere) = positions(tree, op);
        let markers = Markers::of(&elsewhere);
        accounted += Markers::of(&sink).names.len() + markers.names.len();
        for name in markers.distinct() {
            let word = op.kind.word();
            let message =
                format!("secret '{name}' stands in a `{word}` operation, where it would be shown or kept");
            found.push((FindingPlace::op(&target.name, op), message));
        }
    });
    if let Some(template) = &tree.template {
        let markers = Markers::of(template.text());
        accounted += markers.names.len();
        for name in markers.distinct() {
            found.push((FindingPlace::SKILL, format!("secret '{name}' stands in the body template")));
        }
    }
    // Header lines and comments may mention a marker.
    let lines = tree.source().split('\n').filter(|line| !line.trim_start_matches(is_blank).starts_with('#'));
    let written: usize = lines.map(|line| Markers::of(line).names.len()).sum();
    if written > accounted {
        let message = "a secret marker stands in a line that is no operation of a main body".to_owned();
        found.push((FindingPlace::SKILL, message));
    }
    for (place, message) in found {
        check.report("secret-use-only", place, message);
    }
}

/// Markers whose name is not declared or not valid.
fn declared(check: &mut Check<'_>) {
    let tree = check.tree;
    let mut texts = Vec::new();
    every_main_op(tree, &mut |target, op| {
        let (sink, elsewhere) = positions(tree, op);
        texts.push((sink, FindingPlace::op(&target.name, op)));
        texts.push((elsewhere, FindingPlace::op(&target.name, op)));
    });
    texts.extend(tree.template.as_ref().map(|template| (template.text().to_owned(), FindingPlace::SKILL)));
    let declared: HashSet<&str> = tree.header.secret_requires.iter().map(String::as_str).collect();
    let (mut undeclared, mut malformed) = (HashSet::new(), HashSet::new());
    for (text, place) in texts {
        let markers = Markers::of(&text);
        for name in markers.distinct() {
            if !declared.contains(name) && undeclared.insert(name.to_owned()) {
                let message = format!("secret '{name}' is not declared; add `# Requires: secret.{name}`");
                check.report("secret-undeclared", place, message);
            }
        }
        for written in markers.malformed {
            if malformed.insert(written.clone()) {
                check.report("secret-dynamic-name", place, format!("'{written}' does not name a secret"));
            }
        }
    }
}

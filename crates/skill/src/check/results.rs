//! Lint rules about values: results of tools, loops over them, their length, texts that look like JSON, and time
//! limits.

use std::sync::LazyLock;

use foldhash::fast::RandomState;
use foldhash::{HashMap, HashSet};
use memchr::memmem;
use regex::Regex;

use super::tool_arguments::compiled;
use super::variables::Names;
use super::walk::{every_main_op, every_op_with_errors, has_dollar_bracket, set_value};
use super::{Check, FindingPlace};
use crate::syntax::blanks::is_blank;
use crate::syntax::tree::{LoopOver, OpKind, SkillOp, SkillTree, TextPart};

static LENGTH: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"\$[({]([A-Za-z_][A-Za-z0-9_]*)\|length(?-u:\b)"));
static PARSED_FIELD: LazyLock<Regex> = LazyLock::new(|| {
    compiled(r"\$(?:\([^)]*\|\s*json_parse\s*\)|\{[^}]*\|\s*json_parse\s*\})\.([A-Za-z_][A-Za-z0-9_]*)")
});

/// What set a variable last.
pub enum VarOrigin<'t> {
    Input(Option<&'t str>),
    Literal(&'t str),
    /// A value with a reference.
    Resolved,
    Tool(Option<&'t str>),
    Command,
    LoopVariable,
}

impl VarOrigin<'_> {
    /// Whether the value may hold blanks.
    pub fn may_have_blanks(&self) -> bool {
        match self {
            Self::Input(default) => default.is_some_and(|text| text.contains(is_blank)),
            Self::Literal(text) => text.contains(is_blank),
            _ => true,
        }
    }
}

/// The origins of all variables, from main bodies.
pub fn origins<'t>(tree: &'t SkillTree, names: &Names<'t>) -> HashMap<&'t str, VarOrigin<'t>> {
    let inputs = tree.header.vars.iter();
    let mut origins =
        HashMap::with_capacity_and_hasher(names.inputs.len() + names.bound.len(), RandomState::default());
    origins.extend(inputs.map(|var| (var.name.as_str(), VarOrigin::Input(var.default.as_deref()))));
    every_main_op(tree, &mut |_, op| {
        let bound = op.binding().and_then(|binding| binding.variable.as_deref());
        let found = match &op.kind {
            OpKind::Set(set) if has_dollar_bracket(set.value.text()) => {
                (Some(&*set.variable), VarOrigin::Resolved)
            }
            OpKind::Set(set) => (Some(&*set.variable), VarOrigin::Literal(set.value.text())),
            OpKind::Dispatch(op) => (bound, VarOrigin::Tool(op.call.as_ref().map(|call| &*call.tool))),
            OpKind::Shell(_) => (bound, VarOrigin::Command),
            OpKind::Foreach(op) => (Some(&*op.variable), VarOrigin::LoopVariable),
            _ => return,
        };
        if let (Some(variable), origin) = found {
            origins.insert(variable, origin);
        }
    });
    origins
}

pub fn check(check: &mut Check<'_>) {
    loops(check);
    lengths(check);
    literals(check);
    time_limits(check);
}

/// `foreach I in ${R}` over the whole result of a tool.
fn loops(check: &mut Check<'_>) {
    let tree = check.tree;
    let origins = check.origins();
    let mut found = Vec::new();
    every_main_op(tree, &mut |target, op| {
        let OpKind::Foreach(foreach) = &op.kind else { return };
        let name = match &foreach.over {
            LoopOver::Value(reference) => &*reference.name,
            LoopOver::Text(text) => match text.parts().collect::<Vec<_>>().as_slice() {
                [TextPart::Reference(reference)] if reference.filters.is_empty() => &*reference.name,
                _ => return,
            },
            LoopOver::Elements(_) => return,
        };
        let Some(VarOrigin::Tool(tool)) = origins.get(name) else { return };
        if !tool.is_some_and(|tool| check.context.list_tools.contains(tool)) {
            let message =
                format!("the loop goes over the whole result '{name}', which may be an object around a list");
            found.push((FindingPlace::op(&target.name, op), message));
        }
    });
    for (place, message) in found {
        check.report("object-iteration-advisory", place, message);
    }
}

/// `${R|length}` of a result that may be text.
fn lengths(check: &mut Check<'_>) {
    let tree = check.tree;
    if !tree.source().contains("|length") {
        return;
    }
    let (mut results, mut parsed) = (HashSet::default(), HashSet::default());
    every_main_op(tree, &mut |_, op| {
        let OpKind::Dispatch(dispatch) = &op.kind else { return };
        let is_parse = dispatch.call.as_ref().is_some_and(|call| &*call.tool == "json_parse");
        if is_parse {
            let first = dispatch.call.as_ref().and_then(|call| call.rest.references().next());
            parsed.extend(first.map(|reference| reference.root()));
        } else if !dispatch.body.contains(".json_parse") {
            results.extend(dispatch.binding.variable.as_deref());
        }
    });
    let (mut found, mut seen) = (Vec::new(), HashSet::default());
    every_op_with_errors(tree, &mut |target, op, _| {
        let value = set_value(op).map_or("", |value| value.text());
        for text in [tree.body(op), value].into_iter().filter(|text| text.contains("|length")) {
            for name in LENGTH.captures_iter(text).filter_map(|captures| captures.get(1)) {
                let name = name.as_str();
                if results.contains(name) && !parsed.contains(name) && seen.insert((&target.name, name)) {
                    let message = format!("if the result '{name}' is text, `length` counts its characters");
                    found.push((FindingPlace::op(&target.name, op), message));
                }
            }
        }
    });
    for (place, message) in found {
        check.report("remote-result-needs-parse", place, message);
    }
}

/// Checks JSON written as text, fields of text that was not parsed, encodings, and `?`.
fn literals(check: &mut Check<'_>) {
    let tree = check.tree;
    // Most skills use `json_parse` only as a tool.
    let is_filter = |at: usize| tree.source()[..at].trim_end().ends_with('|');
    let has_parsed_field = memmem::find_iter(tree.source().as_bytes(), "json_parse").any(is_filter);
    let (mut found, mut seen) = (Vec::new(), HashSet::default());
    every_main_op(tree, &mut |target, op| {
        let place = FindingPlace::op(&target.name, op);
        if let OpKind::Set(set) = &op.kind
            && is_list_of_objects(set.value.text())
            && seen.insert((&target.name, &set.variable))
        {
            let message =
                format!("'{}' becomes a list of texts, because `$set` does not parse JSON", set.variable);
            found.push(("set-json-literal-advisory", place, message));
        }
        let parsed = if has_parsed_field { parsed_texts(tree, op) } else { Vec::new() };
        for _ in parsed.into_iter().filter(|text| PARSED_FIELD.is_match(text)) {
            let message = "`json_parse` is a tool and no filter".to_owned();
            found.push(("unparsed-json-field-access", place, message));
        }
        if let OpKind::FileRead(read) = &op.kind
            && let Some(encoding) = read.encoding.as_deref().filter(|encoding| is_unknown_encoding(encoding))
        {
            found.push((
                "unknown-file-encoding",
                place,
                format!("'{encoding}' is no encoding of `file_read`"),
            ));
        }
        if matches!(op.kind, OpKind::Reason(_)) {
            found.push((
                "deprecated-question",
                place,
                "`?` is deprecated; use `emit(text=\"…\")`".to_owned(),
            ));
        }
    });
    for (rule, place, message) in found {
        check.report(rule, place, message);
    }
}

fn parsed_texts<'t>(tree: &'t SkillTree, op: &'t SkillOp) -> Vec<&'t str> {
    let mut texts = vec![tree.body(op)];
    match &op.kind {
        OpKind::Foreach(op) => texts.push(&op.list),
        OpKind::If(op) => texts.extend(op.branches.iter().map(|branch| &*branch.text)),
        _ => {}
    }
    texts
}

/// An encoding with a reference in it is known only in a run.
fn is_unknown_encoding(encoding: &str) -> bool {
    !matches!(encoding, "utf8" | "base64") && !has_dollar_bracket(encoding)
}

fn is_list_of_objects(text: &str) -> bool {
    let inside = text.trim_start_matches(is_blank).strip_prefix('[');
    inside.is_some_and(|inside| inside.trim_start_matches(is_blank).starts_with('{'))
}

/// Reports the first operation that has no time limit.
fn time_limits(check: &mut Check<'_>) {
    let tree = check.tree;
    if tree.header.timeout.is_some() || tree.header.deadline.is_some() {
        return;
    }
    let mut first = None;
    every_op_with_errors(tree, &mut |target, op, _| {
        let is_unbounded = || match &op.kind {
            OpKind::Dispatch(op) => !has_timeout(&op.body),
            OpKind::Shell(_) | OpKind::Notify(_) => true,
            _ => false,
        };
        if first.is_none() && is_unbounded() {
            first = Some(FindingPlace::op(&target.name, op));
        }
    });
    if let Some(place) = first {
        check.report("unbounded-no-deadline", place, "this operation has no time limit".to_owned());
    }
}

fn has_timeout(body: &str) -> bool {
    body.match_indices("timeout").any(|(at, word)| {
        let before = &body[..at];
        let begins = before.is_empty() || before.ends_with(is_blank);
        begins && body[at + word.len()..].trim_start_matches(is_blank).starts_with('=')
    })
}

//! Lint rules about variables: names that nothing declares, unknown filters, and old forms of references.

use foldhash::HashSet;
use memchr::memchr_iter;

use super::walk::{every_main_op, every_op_with_errors, set_value, texts};
use super::{Check, FindingPlace};
use crate::syntax::blanks::{is_blank, is_word};
use crate::syntax::tree::{
    FilterName, OpKind, Reference, ReferenceForm, ShellCommand, SkillOp, SkillTree, TextTemplate,
};

/// Variables that every run has.
const AMBIENT: [&str; 6] =
    ["NOW", "USER", "SESSION_CONTEXT", "TRIGGER_TYPE", "TRIGGER_PAYLOAD", "ERROR_CONTEXT"];

/// The variables of a skill.
pub struct Names<'t> {
    /// Inputs, and variables that the host fills in.
    pub inputs: HashSet<&'t str>,
    /// Variables that an operation sets, anywhere.
    pub bound: HashSet<&'t str>,
}

impl<'t> Names<'t> {
    pub fn of(tree: &'t SkillTree) -> Self {
        let header = &tree.header;
        let inputs = header.vars.iter().map(|var| var.name.as_str());
        let inputs = inputs.chain(header.requires.iter().map(|required| required.target.as_str())).collect();
        let mut bound = HashSet::default();
        every_op_with_errors(tree, &mut |_, op, _| bound.extend(bound_by(op)));
        Self { inputs, bound }
    }

    /// Whether the skill declares or sets a variable.
    pub fn declares(&self, name: &str) -> bool {
        self.inputs.contains(name) || self.bound.contains(name)
    }

    /// Whether a variable exists in a run.
    pub fn knows(&self, name: &str) -> bool {
        is_ambient(name) || self.declares(name)
    }
}

pub fn is_ambient(name: &str) -> bool {
    AMBIENT.contains(&name)
}

/// The variable that an operation sets.
pub fn bound_by(op: &SkillOp) -> Option<&str> {
    match &op.kind {
        OpKind::Set(op) => Some(&op.variable),
        OpKind::Append(op) => Some(&op.variable),
        OpKind::Foreach(op) => Some(&op.variable),
        _ => op.binding().and_then(|binding| binding.variable.as_deref()),
    }
}

pub fn check(check: &mut Check<'_>) {
    top_level_references(check);
    let tree = check.tree;
    for name in tree.header.returns.iter().filter(|name| !check.names.declares(name)).collect::<Vec<_>>() {
        let message = format!("`# Returns:` names '{name}', which nothing sets");
        check.report("unknown-returns-ref", FindingPlace::block("(frontmatter)"), message);
    }
    steps(check);
    old_forms(check);
}

/// References in operations that are in no block.
fn top_level_references(check: &mut Check<'_>) {
    let tree = check.tree;
    for target in &tree.targets {
        let (mut unknown_names, mut unknown_filters) = (HashSet::default(), HashSet::default());
        let mut found = Vec::new();
        for op in &target.ops {
            // In an unsafe command `$(…)` may be the shell's own form.
            let is_unsafe =
                matches!(&op.kind, OpKind::Shell(op) if matches!(op.command, ShellCommand::Unsafe(_)));
            texts(tree, op, &mut |text| {
                for (reference, place) in text.located_references() {
                    let name = &reference.name;
                    let place = FindingPlace::op(&target.name, op).at(place);
                    if !is_unsafe && is_unknown(check, reference) && unknown_names.insert(name.clone()) {
                        let message = format!("variable '{name}' is not declared and nothing sets it");
                        found.push(("undeclared-var", place, message));
                    }
                    for filter in unknown(reference) {
                        if unknown_filters.insert((name.clone(), filter.to_owned())) {
                            let message = format!("'{filter}' in the reference to '{name}' is no filter");
                            found.push(("unknown-filter", place, message));
                        }
                    }
                }
            });
        }
        for (rule, place, message) in found {
            check.report(rule, place, message);
        }
    }
}

/// Whether nothing sets the variable of a reference. A name with dots may refer to a part of a value that the host
/// sets.
fn is_unknown(check: &Check<'_>, reference: &Reference) -> bool {
    !reference.name.contains('.') && !is_exempt(reference) && !check.names.knows(&reference.name)
}

/// Whether a fallback with an argument, or with a filter after it, shows that the variable may be absent.
fn is_exempt(reference: &Reference) -> bool {
    let last = reference.filters.len().saturating_sub(1);
    let mut filters = reference.filters.iter().enumerate();
    filters.any(|(at, call)| call.filter == FilterName::Fallback && (call.argument.is_some() || at < last))
}

fn unknown(reference: &Reference) -> impl Iterator<Item = &str> {
    reference.filters.iter().filter_map(|call| match &call.filter {
        FilterName::Unknown(name) => Some(&**name),
        _ => None,
    })
}

/// `${NAME.0}` and `${NAME.transcript}`.
fn steps(check: &mut Check<'_>) {
    let tree = check.tree;
    // Most skills have neither.
    let source = tree.source().as_bytes();
    let is_step = |at: usize| {
        source[at..].starts_with(b".transcript") || source.get(at + 1).is_some_and(u8::is_ascii_digit)
    };
    if !memchr_iter(b'.', source).any(is_step) {
        return;
    }
    let mut found = Vec::new();
    let (mut numbers, mut transcripts) = (HashSet::default(), HashSet::default());
    every_main_op(tree, &mut |target, op| {
        let value = set_value(op).map_or("", TextTemplate::text);
        for name in [tree.body(op), value].into_iter().flat_map(numeric_paths) {
            if numbers.insert((&target.name, name)) {
                let message = format!("`${{{name}}}` takes one element of a list by its number");
                found.push(("numeric-subscript", FindingPlace::op(&target.name, op), message));
            }
        }
        texts(tree, op, &mut |text| {
            for (reference, place) in text.located_references() {
                let place = FindingPlace::op(&target.name, op).at(place);
                let shown =
                    transcript(reference).filter(|shown| transcripts.insert((&target.name, shown.clone())));
                if let Some(shown) = shown {
                    let message = format!("`{shown}` is a list of texts, not one text");
                    found.push(("transcript-footgun", place, message));
                }
            }
        });
    });
    for (rule, place, message) in found {
        check.report(rule, place, message);
    }
}

/// `$(NAME)`.
fn old_forms(check: &mut Check<'_>) {
    let tree = check.tree;
    if !tree.source().contains("$(") {
        return;
    }
    let (mut found, mut seen) = (Vec::new(), HashSet::default());
    every_op_with_errors(tree, &mut |target, op, is_error_block| {
        let mut scan = |text: &str| {
            for name in old_references(text) {
                if seen.insert((&target.name, is_error_block, name.to_owned())) {
                    let message = format!("`$({name})` is the old form of a reference; write `${{{name}}}`");
                    found.push((FindingPlace::op(&target.name, op), message));
                }
            }
        };
        if let OpKind::Shell(shell) = &op.kind
            && let ShellCommand::Argv(words) = &shell.command
        {
            words.iter().map(TextTemplate::text).for_each(&mut scan);
        } else {
            scan(tree.body(op));
        }
    });
    for (place, message) in found {
        check.report("deprecated-substitution-shape", place, message);
    }
}

/// The names after every `${` that have a number between dots.
fn numeric_paths(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("${").filter_map(|(at, bracket)| {
        let rest = &text[at + bracket.len()..];
        let begins = rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let end = rest.find(|c| !is_word(c) && c != '.').unwrap_or(rest.len());
        // A name ends before an empty step.
        let end = rest[..end].find("..").unwrap_or(end);
        let name = rest[..end].trim_end_matches('.');
        let is_number = |step: &str| !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit());
        (begins && name.split('.').skip(1).any(is_number)).then_some(name)
    })
}

fn transcript(reference: &Reference) -> Option<String> {
    let is_transcript = matches!(reference.steps(), [step] if &**step == "transcript");
    (is_transcript && reference.filters.is_empty()).then(|| match reference.form {
        ReferenceForm::Parentheses => format!("$({})", reference.name),
        ReferenceForm::Braces => format!("${{{}}}", reference.name),
    })
}

/// The names after every `$(` that is not escaped as `$$(`.
fn old_references(text: &str) -> impl Iterator<Item = &str> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at + text[at..].find("$(")?;
            at = start + 2;
            let rest = &text[at..];
            let length = rest.find(|c| c == '|' || c == ')' || is_blank(c)).unwrap_or(rest.len());
            if length > 0 && !text[..start].ends_with('$') {
                at += length;
                return Some(&rest[..length]);
            }
        }
    })
}

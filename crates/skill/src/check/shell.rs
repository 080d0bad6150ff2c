//! Lint rules about shell commands.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;

use super::tool_arguments::compiled;
use super::variables::is_ambient;
use super::walk::every_main_op;
use super::{Check, FindingPlace};
use crate::syntax::argument_words;
use crate::syntax::blanks::{first_word, is_blank, is_word, trim};
use crate::syntax::tree::{FilterName, OpKind, ShellCommand, ShellOp, SkillOp, SkillTarget, TextTemplate};

/// The program that runs unsafe commands.
pub const UNSAFE_PROGRAM: &str = "bash";

/// A reference with quotes of one kind around it.
static QUOTED: LazyLock<Regex> = LazyLock::new(|| {
    let reference = r"\$[({][A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+|\|[a-z_]+)*[)}]";
    compiled(&format!("'{reference}'|\"{reference}\""))
});

/// A command with its place.
struct ShellUse<'t> {
    target: &'t SkillTarget,
    op: &'t SkillOp,
    shell: &'t ShellOp,
}

impl<'t> ShellUse<'t> {
    fn place(&self) -> FindingPlace<'t> {
        FindingPlace::op(&self.target.name, self.op)
    }
}

pub fn check(check: &mut Check<'_>) {
    let mut commands = Vec::new();
    every_main_op(check.tree, &mut |target, op| {
        if let OpKind::Shell(shell) = &op.kind {
            commands.push(ShellUse { target, op, shell });
        }
    });
    if commands.is_empty() {
        return;
    }
    unquoted(check, &commands);
    let mut seen = HashSet::new();
    for command in &commands {
        match &command.shell.command {
            ShellCommand::Words(text) => quoted(check, command, text, &mut seen),
            ShellCommand::Unsafe(text) => is_unsafe(check, command, text, &mut seen),
            ShellCommand::Argv(_) => {}
        }
        program(check, command);
    }
}

type SeenTexts<'t> = HashSet<(&'static str, &'t str, String)>;

fn quoted<'t>(check: &mut Check<'_>, command: &ShellUse<'t>, text: &TextTemplate, seen: &mut SeenTexts<'t>) {
    if text.constant().is_some() {
        return;
    }
    for found in QUOTED.find_iter(text.text()) {
        let written = found.as_str();
        if seen.insert(("shell-quoted-var-in-command", &command.target.name, written.to_owned())) {
            let message = format!("the quotes around {written} do not protect quotes in its value");
            check.report("shell-quoted-var-in-command", command.place(), message);
        }
    }
}

fn is_unsafe<'t>(
    check: &mut Check<'_>,
    command: &ShellUse<'t>,
    text: &TextTemplate,
    seen: &mut SeenTexts<'t>,
) {
    let place = command.place();
    check.report("unsafe-shell-op", place, "this command is run by a shell".to_owned());
    if check.context.allows_unsafe_shell == Some(false) {
        check.report(
            "unsafe-shell-disabled",
            place,
            "the operator does not allow unsafe commands".to_owned(),
        );
    }
    for inside in shell_substitutions(text.text()) {
        let name = trim(inside);
        let is_known =
            (is_identifier(name) && check.names.declares(name)) || name.contains('.') || is_ambient(name);
        if !is_known && seen.insert(("unsafe-shell-ambiguous-subst", &command.target.name, inside.to_owned()))
        {
            let message =
                format!("`$({inside})` is no variable of the skill; write `$$({inside})` for the shell");
            check.report("unsafe-shell-ambiguous-subst", place, message);
        }
    }
    for (reference, range) in text.located_references() {
        let name = &*reference.name;
        let is_escaped = reference.filters.iter().any(|call| call.filter == FilterName::Shell);
        let is_plain = !name.contains('.') && !is_ambient(name) && check.names.declares(name);
        if is_plain
            && !is_escaped
            && seen.insert(("unsafe-shell-unescaped-subst", &command.target.name, name.to_owned()))
        {
            let message =
                format!("the value of '{name}' is run as part of the command; write `${{{name}|shell}}`");
            check.report("unsafe-shell-unescaped-subst", place.at(range), message);
        }
    }
}

/// The texts in every `$(…)` that is not escaped as `$$(…)`.
fn shell_substitutions(text: &str) -> Vec<&str> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(distance) = text[at..].find("$(") {
        let start = at + distance;
        at = start + 2;
        // Without a closing parenthesis there is no further match.
        let Some(length) = text[at..].find(')') else { break };
        if length > 0 && !text[..start].ends_with('$') {
            found.push(&text[at..at + length]);
            at += length + 1;
        }
    }
    found
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && !text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(is_word)
}

/// The program of a command is not one that the operator allows.
fn program(check: &mut Check<'_>, command: &ShellUse<'_>) {
    let Some(allowed) = &check.context.shell_programs else { return };
    let begins_with_reference = |text: &str| text.starts_with("$(") || text.starts_with("${");
    let program = match &command.shell.command {
        ShellCommand::Unsafe(_) => UNSAFE_PROGRAM,
        ShellCommand::Argv(words) => words.first().map_or("", TextTemplate::text),
        ShellCommand::Words(text) => first_word(text.text()).0,
    };
    let is_literal = !begins_with_reference(program)
        && (!program.is_empty() || matches!(command.shell.command, ShellCommand::Argv(_)));
    if is_literal && !allowed.contains(program) {
        let message = format!("program '{program}' is not on the operator's list");
        check.report("shell-binary-not-allowed", command.place(), message);
    }
}

/// A word of a command that begins with a reference to a value that may hold blanks.
fn unquoted(check: &mut Check<'_>, commands: &[ShellUse<'_>]) {
    let origins = check.origins();
    let mut seen = HashSet::new();
    for command in commands {
        let (ShellCommand::Words(text) | ShellCommand::Unsafe(text)) = &command.shell.command else {
            continue;
        };
        if !text.text().contains('$') {
            continue;
        }
        for (_, word) in argument_words(text.text()) {
            let Some(name) = leading_reference(word) else { continue };
            let root = name.split('.').next().unwrap_or(name);
            let may_split = origins.get(root).is_some_and(|origin| origin.may_have_blanks());
            if may_split && seen.insert((&command.target.name, name.to_owned())) {
                let message = format!("the value of '{name}' is split at whitespace");
                check.report("unquoted-substitution-in-kwarg-value", command.place(), message);
            }
        }
    }
}

/// The name of the reference with which a word begins.
fn leading_reference(word: &str) -> Option<&str> {
    let (rest, close) = match (word.strip_prefix("$("), word.strip_prefix("${")) {
        (Some(rest), _) => (rest, ')'),
        (_, Some(rest)) => (rest, '}'),
        _ => return None,
    };
    let length = rest.find(|c| c == '|' || c == close || is_blank(c)).unwrap_or(rest.len());
    Some(&rest[..length]).filter(|name| !name.is_empty())
}

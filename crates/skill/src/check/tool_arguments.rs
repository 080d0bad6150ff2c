//! Lint rules about the arguments of `$` operations: of models, of the data store, and their form.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;

use super::Check;
use super::connectors::{Dispatched, dispatches};
use super::walk::has_dollar_bracket;
use crate::syntax::blanks::{is_blank, is_word};

const MODEL_ARGUMENTS: [&str; 6] = ["prompt", "maxTokens", "model", "timeout", "approved", "fallback"];
const DATA_READ_ARGUMENTS: [&str; 8] =
    ["mode", "query", "limit", "connector", "fallback", "domain_tags", "filters", "min_confidence"];

/// Quoted text and brackets, in the order in which they are emptied.
static ENCLOSED: LazyLock<[(Regex, &str); 4]> = LazyLock::new(|| {
    [("\"[^\"]*\"", "\"\""), ("'[^']*'", "''"), (r"\[[^\]]*\]", "[]"), (r"\{[^}]*\}", "{}")]
        .map(|(pattern, emptied)| (compiled(pattern), emptied))
});
/// A name, a colon, and something that is neither a blank nor a colon.
static COLON_ARGUMENT: LazyLock<Regex> =
    LazyLock::new(|| compiled(r"(?:^|\s)([A-Za-z_][A-Za-z0-9_]*)\s*:\s*[^\s:]\S*"));

/// A pattern of this crate.
pub fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns of this crate are valid, as every check shows")
}

pub fn check(check: &mut Check<'_>) {
    let mut seen = HashSet::new();
    for found in dispatches(check.tree) {
        if serves(&found, "llm") {
            models(check, &found, &mut seen);
            unknown_arguments(check, "unknown-llm-arg", &MODEL_ARGUMENTS, &found, &mut seen);
        }
        if serves(&found, "data_read") {
            unknown_arguments(check, "unknown-data-read-arg", &DATA_READ_ARGUMENTS, &found, &mut seen);
        }
        colons(check, &found, &mut seen);
        addressed_to(check, &found, &mut seen);
    }
}

type SeenArguments<'t> = HashSet<(&'static str, &'t str, String)>;

/// Whether an operation goes to a connector, by its name or as a tool of that name.
fn serves(found: &Dispatched<'_>, name: &str) -> bool {
    match &found.dispatch.connector {
        Some(connector) => &**connector == name,
        None => found.tool() == Some(name),
    }
}

fn models<'t>(check: &mut Check<'_>, found: &Dispatched<'t>, seen: &mut SeenArguments<'t>) {
    let Some(known) = &check.context.models else { return };
    let argument = found.dispatch.call.as_ref().and_then(|call| call.argument("model"));
    let Some((argument, text)) =
        argument.and_then(|argument| Some((argument, argument.value.text()?.text())))
    else {
        return;
    };
    let is_literal = !text.is_empty() && !has_dollar_bracket(text);
    if is_literal
        && !known.contains(text)
        && seen.insert(("unknown-llm-model", &found.target.name, text.to_owned()))
    {
        let names: Vec<&str> = known.iter().map(String::as_str).collect();
        let others = match names.as_slice() {
            [] => "there are no models".to_owned(),
            names => format!("there are {}", names.join(", ")),
        };
        let message = format!("no model has the name '{text}'; {others}");
        check.report("unknown-llm-model", found.place().at(Some(argument.range)), message);
    }
}

fn unknown_arguments<'t>(
    check: &mut Check<'_>,
    rule: &'static str,
    known: &[&str],
    found: &Dispatched<'t>,
    seen: &mut SeenArguments<'t>,
) {
    for argument in found.dispatch.call.iter().flat_map(|call| &call.arguments) {
        let name = &*argument.name;
        if !known.contains(&name) && seen.insert((rule, &found.target.name, name.to_owned())) {
            let message = format!("'{name}' is no argument here; there are {}", known.join(", "));
            check.report(rule, found.place().at(Some(argument.range)), message);
        }
    }
}

/// `key:value` outside of quotes and brackets.
fn colons<'t>(check: &mut Check<'_>, found: &Dispatched<'t>, seen: &mut SeenArguments<'t>) {
    let body = &found.dispatch.body;
    // Most colons follow a quote or a bracket.
    let is_behind_name = |(at, _)| body[..at].trim_end_matches(is_blank).ends_with(is_word);
    if !body.match_indices(':').any(is_behind_name) {
        return;
    }
    // The same text has the same names.
    if !seen.insert(("colon-kwarg-syntax", &found.target.name, body.to_string())) {
        return;
    }
    let mut text = body.to_string();
    for (enclosed, emptied) in &*ENCLOSED {
        text = enclosed.replace_all(&text, *emptied).into_owned();
    }
    let mut names = HashSet::new();
    for name in COLON_ARGUMENT.captures_iter(&text).filter_map(|captures| captures.get(1)) {
        let name = name.as_str();
        if name != "fallback" && names.insert(name) {
            let message = format!("arguments are written `{name}=value`, not `{name}:value`");
            check.report("colon-kwarg-syntax", found.place(), message);
        }
    }
}

fn addressed_to<'t>(check: &mut Check<'_>, found: &Dispatched<'t>, seen: &mut SeenArguments<'t>) {
    let body = &*found.dispatch.body;
    let is_named = |(at, word): (usize, &str)| {
        let behind = body[at + word.len()..].trim_start_matches(is_blank);
        !body[..at].ends_with(is_word) && behind.starts_with('=')
    };
    let has_it = found.tool() == Some("data_write") && body.match_indices("addressed_to").any(is_named);
    if has_it && seen.insert(("deprecated-addressed-to", &found.target.name, body.to_owned())) {
        let message = "`data_write` has no argument `addressed_to`; use `recipients=[…]`".to_owned();
        check.report("deprecated-addressed-to", found.place(), message);
    }
}

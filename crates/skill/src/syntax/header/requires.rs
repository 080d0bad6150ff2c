//! The `# Requires:` line: variables of the user or the system, secrets, and features of connectors.

use serde::Serialize;

use crate::syntax::blanks::{is_blank, is_word, trim, words};
use crate::syntax::literal::Literal;

/// A variable that the host fills in: `user-var:KEY -> VAR (fallback: X)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VarRequirement {
    pub namespace: VarNamespace,
    pub key: String,
    /// The variable of the skill that gets the value.
    pub target: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// The whole value of the line.
    pub raw: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VarNamespace {
    UserVar,
    SystemVar,
}

pub enum Required {
    Var(VarRequirement),
    Secret(String),
    Capability(String),
}

/// What a line asks for. What is neither form is dropped without an error, as the language demands.
pub fn read(value: &str) -> Vec<Required> {
    match variable(value) {
        Some(var) => vec![Required::Var(var)],
        // One word of another form drops the whole line.
        None => words(value).map(token).collect::<Option<_>>().unwrap_or_default(),
    }
}

fn variable(value: &str) -> Option<VarRequirement> {
    let namespaces = [("user-var:", VarNamespace::UserVar), ("system-var:", VarNamespace::SystemVar)];
    let (rest, namespace) = namespaces
        .into_iter()
        .find_map(|(prefix, namespace)| Some((value.strip_prefix(prefix)?, namespace)))?;
    let (key, rest) = rest.split_once("->").or_else(|| rest.split_once('→'))?;
    let (key, rest) = (trim(key), trim(rest));
    let end = rest.find(|c| !is_word(c) && c != '-').unwrap_or(rest.len());
    let (target, rest) = rest.split_at(end);
    let fallback = match trim(rest) {
        "" => None,
        trailer => {
            let inside = trailer.strip_prefix('(')?.strip_suffix(')')?.trim_start_matches(is_blank);
            let text = inside.strip_prefix("fallback")?.trim_start_matches(is_blank).strip_prefix(':')?;
            Some(trim(text)).filter(|text| !text.is_empty()).map(|text| Literal::read(text).text.into_owned())
        }
    };
    let is_key = !key.is_empty() && key.chars().all(|c| is_word(c) || c == '-');
    let named = is_key && target.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    named.then(|| VarRequirement {
        namespace,
        key: key.to_owned(),
        target: target.to_owned(),
        fallback,
        raw: value.to_owned(),
    })
}

fn token(word: &str) -> Option<Required> {
    let (kind, name) = word.split_once('.')?;
    let begins = |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let is_name = |text: &str| begins(text) && text.chars().all(is_word);
    let is_lower = |text: &str| is_name(text) && !text.contains(|c: char| c.is_ascii_uppercase());
    if kind == "secret" && is_name(name) {
        return Some(Required::Secret(name.to_owned()));
    }
    (is_lower(kind) && is_lower(name)).then(|| Required::Capability(word.to_owned()))
}

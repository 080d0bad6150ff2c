//! The `# Requires:` line: variables of the user or the system, secrets, and features of connectors.

use serde::Serialize;

use crate::syntax::blanks::{is_blank, is_word, trim, unquoted, words};

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
        None => words(value).filter_map(token).collect(),
    }
}

fn variable(value: &str) -> Option<VarRequirement> {
    let namespaces = [("user-var:", VarNamespace::UserVar), ("system-var:", VarNamespace::SystemVar)];
    let (rest, namespace) = namespaces
        .into_iter()
        .find_map(|(prefix, namespace)| Some((value.strip_prefix(prefix)?, namespace)))?;
    let (key, rest) = rest.split_once("->").or_else(|| rest.split_once('→'))?;
    let (key, rest) = (trim(key), trim(rest));
    let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
    let (target, rest) = rest.split_at(end);
    let fallback = match trim(rest) {
        "" => None,
        trailer => {
            let inside = trailer.strip_prefix('(')?.strip_suffix(')')?.trim_start_matches(is_blank);
            let text = inside.strip_prefix("fallback")?.trim_start_matches(is_blank).strip_prefix(':')?;
            Some(unquoted(trim(text)).to_owned())
        }
    };
    let named = !key.is_empty() && !key.contains(is_blank) && !target.is_empty();
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
    let is_name = |text: &str| !text.is_empty() && text.chars().all(is_word);
    if !is_name(kind) || !is_name(name) {
        return None;
    }
    Some(if kind == "secret" {
        Required::Secret(name.to_owned())
    } else {
        Required::Capability(word.to_owned())
    })
}

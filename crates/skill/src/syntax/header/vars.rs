//! The `# Vars:` line: inputs of a skill with their defaults, and the rule that splits such a line.

use serde::Serialize;

use super::Mistakes;
use super::names::{NameUse, refuse_reserved};
use crate::syntax::blanks::{is_blank, is_word, trim, unquoted};

/// An input of a skill. Without a default it is required.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkillVar {
    pub name: String,
    /// The text as it stands in the header. References in it are not resolved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

impl SkillVar {
    pub fn is_required(&self) -> bool {
        self.default.is_none()
    }
}

pub fn read(value: &str, wrong: &mut Mistakes<'_>) -> Vec<SkillVar> {
    let vars: Vec<SkillVar> = split_entries(value)
        .into_iter()
        .map(|entry| match entry.split_once('=') {
            Some((name, default)) => {
                SkillVar { name: trim(name).to_owned(), default: Some(unquoted(trim(default)).to_owned()) }
            }
            None => SkillVar { name: entry.to_owned(), default: None },
        })
        .collect();
    for var in &vars {
        refuse_reserved(&var.name, NameUse::Variable, wrong);
    }
    vars
}

/// Splits at the commas that separate entries. Commas in quotes, brackets and defaults are part of an entry, so
/// `A=1,2,3` is one. Since a default may contain commas, `A=1, B` is one entry too: required names come first.
pub fn split_entries(value: &str) -> Vec<&str> {
    let mut entries = Vec::new();
    let (mut start, mut depth, mut quote, mut has_default) = (0, 0_usize, None, false);
    for (at, c) in value.char_indices() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, '=') => has_default = true,
            (None, ',') if depth == 0 && begins_entry(&value[at + 1..], has_default) => {
                entries.push(&value[start..at]);
                (start, has_default) = (at + 1, false);
            }
            _ => {}
        }
    }
    entries.push(&value[start..]);
    entries.into_iter().map(trim).filter(|entry| !entry.is_empty()).collect()
}

/// Whether the text behind a comma begins a new entry: a name, and then `=`, `,`, `:` or the end. Behind a default only
/// `=` and `:` count. The colon of `https://` does not.
fn begins_entry(rest: &str, after_default: bool) -> bool {
    let rest = rest.trim_start_matches(is_blank);
    if !rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return false;
    }
    let behind = rest.trim_start_matches(|c: char| is_word(c) || c == '-').trim_start_matches(is_blank);
    match behind.chars().next() {
        Some('=') => true,
        Some(':') => !behind.starts_with("://"),
        Some(',') | None => !after_default,
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_inside_a_default_do_not_split() {
        assert_eq!(
            split_entries("A=1,2,3, B=http://h/x,https://k/y"),
            ["A=1,2,3", "B=http://h/x,https://k/y"]
        );
        assert_eq!(
            split_entries("A=\"p, q=1\", B={\"a\":1,\"b\":2}, C='x, y'"),
            ["A=\"p, q=1\"", "B={\"a\":1,\"b\":2}", "C='x, y'"]
        );
    }

    #[test]
    fn a_required_name_behind_a_default_is_part_of_the_default() {
        assert_eq!(split_entries("A, B=1, C"), ["A", "B=1, C"]);
    }

    #[test]
    fn a_colon_begins_an_entry_unless_a_url_follows() {
        assert_eq!(split_entries("agent: desk, file: /a,b"), ["agent: desk", "file: /a", "b"]);
        assert_eq!(split_entries("A=x,http://h"), ["A=x,http://h"]);
    }

    #[test]
    fn a_quote_that_is_never_closed_protects_the_rest() {
        assert_eq!(split_entries("A=\"x, B=1"), ["A=\"x, B=1"]);
    }

    #[test]
    fn a_bracket_that_was_never_opened_changes_nothing() {
        assert_eq!(split_entries("A=1}, B=2"), ["A=1}", "B=2"]);
    }

    #[test]
    fn a_comma_before_nothing_does_not_split() {
        assert_eq!(split_entries(" ,A,"), ["A,"]);
        assert_eq!(split_entries(" "), [""; 0]);
    }
}

//! Lint rule about credentials that are written into a skill.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;

use super::tool_arguments::compiled;
use super::walk::{every_main_op, first_units, set_value};
use super::{Check, FindingPlace};

/// Number of UTF-16 units to compare. Texts that are equal up to there are reported once.
const COMPARED_UNITS: usize = 60;

/// Matches every text that the patterns below match. It is quick, so it is tried first.
static HINT: LazyLock<Regex> =
    LazyLock::new(|| compiled("(?i)key|token|secret|passw|pwd|auth|bearer|string|sk-|ghp_|eyj"));
/// Names that usually hold a credential, followed by `:` or `=`.
static KEY: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"(?i)(?-u:\b)(?:api[_-]?key|token|secret|password|passwd|pwd|auth(?:[_-]?token)?|access[_-]?token|bearer|client[_-]?secret|private[_-]?key|signing[_-]?key|refresh[_-]?token|connection[_-]?string|vault[_-]?token|db[_-]?password)\s*[:=]",
    )
});
/// Values that look like a token of a known kind.
static VALUE: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"Bearer\s+[A-Za-z0-9_.~+/=-]{20,}|(?-u:\b)sk-[A-Za-z0-9_-]{20,}|(?-u:\b)ghp_[A-Za-z0-9]{20,}|(?-u:\b)eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+",
    )
});

pub fn check(check: &mut Check<'_>) {
    let tree = check.tree;
    // Escapes do not change letters, so a search in the unparsed text rules out most skills.
    if !HINT.is_match(tree.source()) {
        return;
    }
    let mut found = Vec::new();
    for var in &tree.header.vars {
        if var.default.as_deref().is_some_and(looks_like_credential) {
            found.push((
                FindingPlace::SKILL,
                format!("the default of '{}' looks like a credential", var.name),
            ));
        }
    }
    let mut seen = HashSet::new();
    every_main_op(tree, &mut |target, op| {
        let texts = [("", Some(tree.body(op))), ("value of ", set_value(op).map(|value| value.text()))];
        for (part, text) in texts {
            let Some(text) = text.filter(|text| looks_like_credential(text)) else { continue };
            let word = op.kind.word();
            if seen.insert((&target.name, part, word, first_units(text, COMPARED_UNITS))) {
                let message = format!("the {part}`{word}` operation looks as if it held a credential");
                found.push((FindingPlace::op(&target.name, op), message));
            }
        }
    });
    for (place, message) in found {
        check.report("credential-in-args", place, message);
    }
}

fn looks_like_credential(text: &str) -> bool {
    KEY.is_match(text) || VALUE.is_match(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_of_credentials_are_recognised() {
        let jwt = format!("eyJ{}.a.b", "x".repeat(10));
        for text in ["token=1", "API-KEY : x", "my secret:", "x Bearer abcdefghijklmnopqrst", &jwt] {
            assert!(looks_like_credential(text), "{text}");
        }
        for text in ["tokens=1", "mytoken=1", "token 1", "Bearer abc", "ask-abcdefghijklmnopqrstuvw"] {
            assert!(!looks_like_credential(text), "{text}");
        }
    }
}

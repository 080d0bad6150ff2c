//! Lint rule about credentials that are written into a skill.

use std::collections::HashSet;
use std::sync::LazyLock;

use memchr::{memchr2_iter, memmem};
use regex::Regex;

use super::tool_arguments::compiled;
use super::walk::{every_main_op, first_units, set_value};
use super::{Check, FindingPlace};

/// Number of UTF-16 units to compare. Texts that are equal up to there are reported once.
const COMPARED_UNITS: usize = 60;

/// The ends of all names in [`KEY`].
const NAME_ENDS: [&str; 9] =
    ["key", "token", "secret", "password", "passwd", "pwd", "auth", "bearer", "string"];
/// The beginnings of all values in [`VALUE`].
const VALUE_BEGINNINGS: [&str; 4] = ["Bearer", "sk-", "ghp_", "eyJ"];
/// Names that usually hold a credential, followed by `:` or `=`. Only ASCII letters have an upper case here.
static KEY: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"(?i-u:\b(?:api[_-]?key|token|secret|password|passwd|pwd|auth(?:[_-]?token)?|access[_-]?token|bearer|client[_-]?secret|private[_-]?key|signing[_-]?key|refresh[_-]?token|connection[_-]?string|vault[_-]?token|db[_-]?password))\s*[:=]",
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
    // A search in the unparsed text rules out most skills.
    if !may_hold_credential(tree.source()) {
        return;
    }
    let mut found = Vec::new();
    for var in &tree.header.vars {
        if var.default.as_deref().is_some_and(looks_like_credential) {
            found.push((
                FindingPlace::SKILL,
                format!("the default of `# Vars: {}` looks like a credential", var.name),
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

/// Whether an operation in an unparsed text may look like a credential. It is much quicker than the patterns.
fn may_hold_credential(source: &str) -> bool {
    let bytes = source.as_bytes();
    VALUE_BEGINNINGS.iter().any(|begin| memmem::find(bytes, begin.as_bytes()).is_some())
        || memchr2_iter(b':', b'=', bytes).any(|at| ends_with_name(&source[..at]))
}

fn ends_with_name(before: &str) -> bool {
    let mut before = before.trim_end();
    // These escapes become blanks when the text is parsed.
    while let Some(shorter) = before.strip_suffix("\\n").or_else(|| before.strip_suffix("\\t")) {
        before = shorter.trim_end();
    }
    let ends_with = |name: &str| {
        let end = before.len().checked_sub(name.len()).map(|begin| &before.as_bytes()[begin..]);
        end.is_some_and(|end| end.eq_ignore_ascii_case(name.as_bytes()))
    };
    NAME_ENDS.into_iter().any(ends_with)
}

fn looks_like_credential(text: &str) -> bool {
    KEY.is_match(text) || VALUE.is_match(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quick_search_finds_every_text_that_the_patterns_find() {
        let names =
            ["api_key", "Auth-Token", "PASSWD", "pwd", "client_secret", "connection-string", "bearer"];
        for name in names {
            for text in [format!("{name}:"), format!("x {name} \t = y"), format!("é\"{name}\\n \\t= y")] {
                assert!(may_hold_credential(&text), "{text}");
            }
        }
        for value in ["Bearer x", "sk-x", "ghp_x", "eyJx"] {
            assert!(may_hold_credential(value), "{value}");
        }
        assert!(!may_hold_credential("# Skill: a\ngo:\n    $set TOKENS = the key\n    emit(text=\"x: y\")"));
    }

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

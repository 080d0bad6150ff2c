//! Literals at run time: list literals, and the values of arguments of `$` operations.

use std::sync::Arc;

use super::json_text;
use super::value::SkillValue;
use crate::syntax::blanks::{is_blank, trim, unquoted};

/// A text in brackets becomes a list, split at every comma. Any other text stays as it is.
pub fn coerce(text: Arc<String>) -> SkillValue {
    match bracketed(&text) {
        Some(inside) => split_list(inside),
        None => SkillValue::Text(text),
    }
}

/// The text inside of brackets.
pub fn bracketed(text: &str) -> Option<&str> {
    // Stripping one after the other refuses `[` and `]` alone.
    let inside = trim(text).strip_prefix('[')?;
    inside.strip_suffix(']')
}

/// The elements between commas, trimmed, each without one pair of matching quotes. There is no nesting.
pub fn split_list(inside: &str) -> SkillValue {
    let inside = trim(inside);
    if inside.is_empty() {
        return SkillValue::list([]);
    }
    SkillValue::list(inside.split(',').map(|element| unquoted(trim(element)).into()))
}

/// The value of an argument without quotes: a word of JSON, a number, a structure, or else the text.
pub fn bare_argument(text: Arc<String>) -> SkillValue {
    let trimmed = text.trim_end_matches(is_blank);
    match trimmed {
        "true" => return SkillValue::Bool(true),
        "false" => return SkillValue::Bool(false),
        "null" => return SkillValue::Null,
        _ => {}
    }
    if is_plain_number(trimmed) {
        return trimmed.parse().map_or_else(|_| trimmed.into(), SkillValue::Number);
    }
    let is_structure = (trimmed.starts_with('[') && trimmed.ends_with(']'))
        || (trimmed.starts_with('{') && trimmed.ends_with('}'));
    if is_structure && let Ok(value) = json_text::parse(trimmed) {
        return value;
    }
    if trimmed.len() == text.len() { SkillValue::Text(text) } else { trimmed.into() }
}

/// `-?\d+` or `-?\d+\.\d+`.
fn is_plain_number(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    match unsigned.split_once('.') {
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => digits(unsigned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coerced(text: &str) -> String {
        coerce(Arc::new(text.to_owned())).json()
    }

    fn argument(text: &str) -> String {
        bare_argument(Arc::new(text.to_owned())).json()
    }

    #[test]
    fn a_text_in_brackets_is_a_list_without_nesting() {
        for (text, list) in [
            ("[]", "[]"),
            (" [ ] ", "[]"),
            ("[a, 'b' ,\"c\"]", r#"["a","b","c"]"#),
            ("[\"a, b\"]", r#"["\"a","b\""]"#),
            (r#"[{"k":1}]"#, r#"["{\"k\":1}"]"#),
            ("[,]", r#"["",""]"#),
            ("[", r#""[""#),
            ("[a] b", r#""[a] b""#),
            (" x ", r#"" x ""#),
        ] {
            assert_eq!(coerced(text), list);
        }
    }

    #[test]
    fn an_argument_without_quotes_gets_the_type_it_looks_like() {
        for (text, value) in [
            ("5", "5"),
            ("-3", "-3"),
            ("1.25", "1.25"),
            ("1e3", "\"1e3\""),
            ("+1", "\"+1\""),
            ("1.", "\"1.\""),
            ("007", "7"),
            ("true ", "true"),
            ("null", "null"),
            ("[1,\"two\"]", "[1,\"two\"]"),
            ("[x,y]", "\"[x,y]\""),
            ("word ", "\"word\""),
            ("1,", "\"1,\""),
        ] {
            assert_eq!(argument(text), value);
        }
    }
}

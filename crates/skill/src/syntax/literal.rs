//! Literals: text in quotes, its escapes, and the dedent of triple-quoted text.

use std::borrow::Cow;

use super::blanks::{is_blank, trim};

/// The value of a literal.
pub struct Literal<'t> {
    pub text: Cow<'t, str>,
    /// Where the value begins in what was written, if it stands there unchanged.
    pub offset: Option<usize>,
}

impl<'t> Literal<'t> {
    /// Reads a value: `"""…"""`, `"…"`, `'…'` or plain text. Blanks after it are ignored.
    pub fn read(written: &'t str) -> Self {
        let written = written.trim_end_matches(is_blank);
        if let Some(inside) = between(written, "\"\"\"") {
            return match unescaped(inside) {
                Cow::Borrowed(same) if !same.contains('\n') => Self::verbatim(same, 3),
                text => Self { text: Cow::Owned(dedented(&text)), offset: None },
            };
        }
        if let Some(inside) = between(written, "\"") {
            return match unescaped(inside) {
                Cow::Borrowed(same) => Self::verbatim(same, 1),
                text => Self { text, offset: None },
            };
        }
        match between(written, "'") {
            Some(inside) => Self::verbatim(inside, 1),
            None => Self::verbatim(written, 0),
        }
    }

    fn verbatim(text: &'t str, offset: usize) -> Self {
        Self { text: Cow::Borrowed(text), offset: Some(offset) }
    }
}

/// The text between two quotes.
pub fn between<'t>(text: &'t str, quote: &str) -> Option<&'t str> {
    text.strip_prefix(quote)?.strip_suffix(quote)
}

/// The text with `\n`, `\t`, `\\` and `\"` replaced. Any other backslash stays.
pub fn unescaped(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find('\\') else { return Cow::Borrowed(text) };
    let mut result = String::with_capacity(text.len());
    result.push_str(&text[..first]);
    let mut rest = text[first..].chars().peekable();
    let mut is_changed = false;
    while let Some(c) = rest.next() {
        let replaced = match rest.peek() {
            Some('n') if c == '\\' => '\n',
            Some('t') if c == '\\' => '\t',
            Some(same @ ('\\' | '"')) if c == '\\' => *same,
            _ => {
                result.push(c);
                continue;
            }
        };
        rest.next();
        result.push(replaced);
        is_changed = true;
    }
    if is_changed { Cow::Owned(result) } else { Cow::Borrowed(text) }
}

/// The text without a blank first and last line, and without the indentation that all its lines share. A text of one
/// line stays.
fn dedented(text: &str) -> String {
    let mut lines: Vec<&str> = text.split('\n').collect();
    if lines.len() == 1 {
        return text.to_owned();
    }
    if lines.first().is_some_and(|line| trim(line).is_empty()) {
        lines.remove(0);
    }
    if lines.last().is_some_and(|line| trim(line).is_empty()) {
        lines.pop();
    }
    let indents = lines.iter().filter(|line| !trim(line).is_empty()).map(|line| indentation(line));
    let shared = indents.reduce(common_start).unwrap_or_default();
    let lines: Vec<&str> = lines.iter().map(|line| line.strip_prefix(shared).unwrap_or(line)).collect();
    lines.join("\n")
}

fn indentation(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

fn common_start<'t>(one: &'t str, other: &str) -> &'t str {
    let length = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    &one[..length]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(written: &str) -> String {
        Literal::read(written).text.into_owned()
    }

    #[test]
    fn double_quotes_have_escapes_and_single_quotes_do_not() {
        assert_eq!(read(r#""a\n\t\\\"\x" "#), "a\n\t\\\"\\x");
        assert_eq!(read(r"'a\n'"), r"a\n");
        assert_eq!(read("plain # text  "), "plain # text");
    }

    #[test]
    fn quotes_that_do_not_match_stay() {
        for text in ["\"", "\"a'", "a\"", "'", ""] {
            assert_eq!(read(text), text);
        }
        assert_eq!(read("\"\"\"\""), "\"\"");
    }

    #[test]
    fn triple_quoted_text_is_dedented_after_its_escapes() {
        assert_eq!(read("\"\"\"\n      a\n        b\n\n      c\n    \"\"\""), "a\n  b\n\nc");
        assert_eq!(read("\"\"\"  a \"b\" \"\"\""), "  a \"b\" ");
        assert_eq!(read("\"\"\"\\n  x\\n  y\"\"\""), "x\ny");
        assert_eq!(read("\"\"\"\n\"\"\""), "");
    }

    #[test]
    fn the_offset_is_known_when_the_value_stands_unchanged_in_the_text() {
        let offset = |written| Literal::read(written).offset;
        assert_eq!(
            [offset("\"a\""), offset("'a'"), offset("a"), offset("\"\"\"a\"\"\"")],
            [1, 1, 0, 3].map(Some)
        );
        assert_eq!([offset("\"a\\n\""), offset("\"\"\"a\nb\"\"\"")], [None, None]);
    }
}

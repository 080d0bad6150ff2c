//! Quoted parts of a text: a walk over the characters that stand outside of them.

use super::blanks::{is_blank, trim};

const TRIPLE: &str = "\"\"\"";

/// The characters outside of quotes, with their places. `"…"` and `'…'` know `\\` and their own escaped quote,
/// `"""…"""` has no escapes. A quote that is never closed takes the rest.
pub struct Unquoted<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Unquoted<'t> {
    /// A walk that begins at a place outside of quotes.
    pub fn from(text: &'t str, at: usize) -> Self {
        Self { text, at }
    }
}

impl Iterator for Unquoted<'_> {
    type Item = (usize, char);

    fn next(&mut self) -> Option<(usize, char)> {
        loop {
            let at = self.at;
            let c = match self.text.as_bytes().get(at)? {
                b'"' | b'\'' => {
                    self.at += quoted_length(&self.text[at..]);
                    continue;
                }
                byte if byte.is_ascii() => char::from(*byte),
                _ => self.text[at..].chars().next()?,
            };
            self.at += c.len_utf8();
            return Some((at, c));
        }
    }
}

/// The length of the quoted text with which a text begins, quotes included.
fn quoted_length(text: &str) -> usize {
    if let Some(inside) = text.strip_prefix(TRIPLE) {
        return inside.find(TRIPLE).map_or(text.len(), |length| length + 2 * TRIPLE.len());
    }
    let bytes = text.as_bytes();
    let quote = bytes[0];
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        let next = bytes.get(at + 1);
        match byte {
            b'\\' if next.is_some_and(|next| *next == quote || *next == b'\\') => at += 2,
            byte if *byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// The place of the bracket that closes the one at `open`.
pub fn closing_parenthesis(text: &str, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in Unquoted::from(text, open) {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => return Some(at),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The parts of a text between commas outside of quotes and brackets, with their places. Blanks around them and empty
/// parts are left out.
pub fn comma_parts(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (mut walk, mut depth, mut next) = (Unquoted::from(text, 0), 0_usize, Some(0));
    let parts = std::iter::from_fn(move || {
        let start = next?;
        let comma = walk.find(|(_, c)| {
            match c {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            *c == ',' && depth == 0
        });
        next = comma.map(|(at, _)| at + 1);
        let part = &text[start..comma.map_or(text.len(), |(at, _)| at)];
        let begin = start + part.len() - part.trim_start_matches(is_blank).len();
        Some((begin, trim(part)))
    });
    parts.filter(|(_, part)| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_in_quotes_do_not_count() {
        for text in ["(a)", "(\")\")", "(')')", "(\"\"\")\"\"\")", r#"("\")")"#, "((a)b)", r#"('\'')"#] {
            assert_eq!(closing_parenthesis(text, 0), Some(text.len() - 1), "{text}");
        }
        for text in ["(", "(\")", "(\"\"\")\")", "(()"] {
            assert_eq!(closing_parenthesis(text, 0), None, "{text}");
        }
    }

    #[test]
    fn commas_in_quotes_and_brackets_do_not_separate() {
        let parts = |text| comma_parts(text).map(|(_, part)| part).collect::<Vec<_>>();
        assert_eq!(parts("a=1, b=[1, 2],, c=\"x, y\""), ["a=1", "b=[1, 2]", "c=\"x, y\""]);
        assert_eq!(parts(r#"a="hi \"there\", twice""#), [r#"a="hi \"there\", twice""#]);
        assert_eq!(comma_parts(" a , b").collect::<Vec<_>>(), [(1, "a"), (5, "b")]);
    }
}

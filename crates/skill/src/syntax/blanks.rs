//! Whitespace as the skill language defines it, which is JavaScript's, and the small text functions built on it.
//!
//! Rust's `char::is_whitespace` differs in two characters: it has U+0085 and lacks U+FEFF.

/// Whitespace, line ends included.
pub fn is_blank(c: char) -> bool {
    (c.is_whitespace() && c != '\u{85}') || c == '\u{feff}'
}

/// The characters that end a line in JavaScript's regular expressions.
pub fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}')
}

/// Whitespace within one line.
pub fn is_inline_blank(c: char) -> bool {
    is_blank(c) && !is_line_end(c)
}

pub fn trim(text: &str) -> &str {
    text.trim_matches(is_blank)
}

pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_blank).filter(|word| !word.is_empty())
}

/// The first word, and what follows it. Both are empty if there is no word.
pub fn first_word(text: &str) -> (&str, &str) {
    let text = trim(text);
    let end = text.find(is_blank).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start_matches(is_blank))
}

/// The text without one pair of matching outer quotes. Escapes are not processed.
pub fn unquoted(text: &str) -> &str {
    let inside = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    inside('"').or_else(|| inside('\'')).unwrap_or(text)
}

/// Whether a character may stand in a name after its first character, `-` excepted.
pub fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// How many characters of names a text begins with. They are ASCII, so this is also their length in bytes.
pub fn word_length(text: &str) -> usize {
    text.bytes().position(|byte| !is_word(char::from(byte))).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_are_those_of_javascript() {
        for blank in [' ', '\t', '\u{b}', '\u{a0}', '\u{2003}', '\u{2028}', '\u{feff}', '\n', '\r'] {
            assert!(is_blank(blank), "{blank:?}");
        }
        for other in ['\u{85}', '\u{180e}', '\u{200b}', 'a'] {
            assert!(!is_blank(other), "{other:?}");
        }
        assert!(is_inline_blank('\t') && !is_inline_blank('\r') && !is_inline_blank('\u{2029}'));
    }

    #[test]
    fn one_pair_of_matching_quotes_is_removed() {
        assert_eq!(unquoted("\"a\""), "a");
        assert_eq!(unquoted("''a''"), "'a'");
        for unchanged in ["\"a'", "\"", "a\"", ""] {
            assert_eq!(unquoted(unchanged), unchanged);
        }
    }
}

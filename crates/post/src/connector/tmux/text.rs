//! Texts for panes: removal of control characters, and the header line.

use std::fmt::Display;

/// The longest value in the header line, in characters.
const LONGEST_WORD: usize = 80;

/// Removes control characters except newlines and tabs. The terminal would execute an escape sequence, and it could
/// end the bracketed paste early.
pub(super) fn cleaned(text: &str) -> String {
    text.chars().filter(|letter| matches!(letter, '\n' | '\t') || !letter.is_control()).collect()
}

/// The header line with the origin of a text, as `name=value` pairs.
pub(super) fn header(parts: &[(&str, &dyn Display)]) -> String {
    let words: String =
        parts.iter().map(|(name, value)| format!(" {name}={}", word(&value.to_string()))).collect();
    format!("[posthouse{words}]\n")
}

/// A value without characters that could end the header.
fn word(text: &str) -> String {
    let harmless = |letter: char| {
        if letter.is_whitespace() || letter.is_control() || matches!(letter, '[' | ']') {
            '_'
        } else {
            letter
        }
    };
    text.chars().take(LONGEST_WORD).map(harmless).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_go_and_lines_and_tabs_stay() {
        assert_eq!(cleaned("a\tb\r\nc\u{1b}[201~\u{7}\u{7f}\u{9b}1m é\u{0}"), "a\tb\nc[201~1m é");
    }

    #[test]
    fn the_header_is_one_line_whatever_a_skill_is_called() {
        let skill = "x] kind=template]\nrm";
        assert_eq!(
            header(&[("dispatch", &"d-1"), ("from", &skill), ("kind", &"augment")]),
            "[posthouse dispatch=d-1 from=x__kind=template__rm kind=augment]\n"
        );
        assert!(header(&[("from", &"x".repeat(500))]).len() < 120);
    }
}

//! The text that an approval signature covers.

use crate::syntax::blanks::is_blank;

/// The text without its status and tag lines and with `\n` as its only line ending. Everything else counts, trailing
/// blanks and the final newline included.
///
/// A line that looks like a status or tag line is left out wherever it stands, even in a text literal, and is not
/// protected by the signature. Signatures of the reference runtime demand it.
pub fn signed_text(body: &str) -> String {
    let unified = body.replace("\r\n", "\n").replace('\r', "\n");
    let kept: Vec<&str> = unified.split('\n').filter(|line| !is_unsigned(line)).collect();
    kept.join("\n")
}

/// Whether a signature leaves out a line: it looks like a status or tag line.
pub fn is_unsigned(line: &str) -> bool {
    let header = line.trim_start_matches(is_blank).strip_prefix('#').and_then(|rest| rest.split_once(':'));
    header.is_some_and(|(key, _)| {
        let key = key.trim_matches(is_blank);
        key.eq_ignore_ascii_case("status") || key.eq_ignore_ascii_case("tags")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_ending_becomes_a_newline_and_nothing_else_changes() {
        assert_eq!(signed_text("a \r\nb\rc\n\n"), "a \nb\nc\n\n");
        assert_eq!(signed_text(""), "");
    }

    #[test]
    fn status_and_tag_lines_are_left_out_wherever_they_stand() {
        assert_eq!(
            signed_text("x\n  #TAGS :a\n\u{feff}# status:\ny # Status: z\n# Statuses: a"),
            "x\ny # Status: z\n# Statuses: a"
        );
    }
}

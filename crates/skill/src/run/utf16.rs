//! Lengths and cuts in UTF-16 units, which is how the language counts characters.

/// Number of UTF-16 units.
pub fn utf16_length(text: &str) -> usize {
    // Bytes that begin a character, and once more for each character beyond the basic plane (four bytes).
    text.bytes().map(|byte| usize::from((byte & 0xC0) != 0x80) + usize::from(byte >= 0xF0)).sum()
}

/// The first units of a text. Half of a surrogate pair becomes U+FFFD.
pub fn utf16_cut(text: &str, units: usize) -> String {
    let mut out = String::new();
    let mut left = units;
    for c in text.chars() {
        match c.len_utf16() {
            width if width <= left => {
                out.push(c);
                left -= width;
            }
            _ if left > 0 => {
                out.push(char::REPLACEMENT_CHARACTER);
                break;
            }
            _ => break,
        }
    }
    out
}

/// The first units of a text, followed by `...` if it is longer.
pub fn utf16_preview(text: &str, units: usize) -> String {
    let mut preview = utf16_cut(text, units);
    if utf16_length(text) > units {
        preview.push_str("...");
    }
    preview
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_beyond_the_basic_plane_count_twice() {
        assert_eq!(utf16_length("a\u{e9}\u{20ac}\u{1f600}"), 5);
        assert_eq!(utf16_length(""), 0);
    }

    #[test]
    fn a_cut_counts_units_and_never_splits_a_character() {
        assert_eq!(utf16_cut("ab\u{1f600}c", 4), "ab\u{1f600}");
        assert_eq!(utf16_cut("ab\u{1f600}c", 3), "ab\u{fffd}");
        assert_eq!(utf16_preview("abc", 3), "abc");
        assert_eq!(utf16_preview("abcd", 3), "abc...");
    }
}

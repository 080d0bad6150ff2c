//! Splitting of long texts into messages that a platform accepts.

use posthouse_wire::Descriptor;
use posthouse_wire::descriptor::LenUnit;
use unicode_segmentation::UnicodeSegmentation;

const FENCE: &str = "```";
/// Text that closes a code fence at the end of a piece.
const CLOSING: &str = "\n```";
/// Below this limit there is no room to close and reopen fences.
const FENCES_FROM: usize = 64;

/// Splits a text into pieces of at most the platform's length, in the platform's unit. Pieces break at the
/// end of a line, otherwise between words, otherwise between grapheme clusters. If a break falls into a
/// code block, the block is closed and opened again.
pub fn chunks(text: &str, descriptor: &Descriptor) -> Vec<String> {
    let limit = usize::try_from(descriptor.max_message_length).unwrap_or(usize::MAX).max(1);
    // In every unit a text counts at most as many as it has bytes.
    if text.len() <= limit {
        return vec![text.to_owned()];
    }
    let fences = descriptor.supports_code_blocks() && limit >= FENCES_FROM;
    let mut cutter = Cutter { unit: descriptor.len_unit, limit, fences, open: None };
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, tail) = cutter.cut(rest);
        pieces.push(piece);
        rest = tail;
    }
    pieces
}

struct Cutter<'a> {
    unit: LenUnit,
    limit: usize,
    fences: bool,
    /// The line that opened the current code block.
    open: Option<&'a str>,
}

impl<'a> Cutter<'a> {
    fn cut(&mut self, rest: &'a str) -> (String, &'a str) {
        let mut piece = match self.open {
            Some(opening) => format!("{opening}\n"),
            None => String::new(),
        };
        let room = self.limit.saturating_sub(self.unit.measure(&piece)).max(1);
        let fitting = self.fitting(rest, room);
        if fitting == rest.len() {
            piece.push_str(rest);
            return (piece, "");
        }
        let reserve = if self.fences { self.unit.measure(CLOSING) } else { 0 };
        let fitting = self.fitting(rest, room.saturating_sub(reserve).max(1));
        let (head, tail) = break_near(rest, fitting);
        if self.fences {
            self.open = fence_after(self.open, head);
        }
        piece.push_str(head);
        if self.open.is_some() {
            piece.push_str(CLOSING);
        }
        (piece, tail)
    }

    /// Number of bytes of `text` that fit into `room`. Never splits a grapheme cluster, except one that is
    /// longer than the room.
    fn fitting(&self, text: &str, room: usize) -> usize {
        let mut used = 0;
        for (at, grapheme) in text.grapheme_indices(true) {
            used += self.unit.measure(grapheme);
            if used > room {
                return if at > 0 { at } else { self.fitting_scalars(grapheme, room) };
            }
        }
        text.len()
    }

    fn fitting_scalars(&self, grapheme: &str, room: usize) -> usize {
        let mut used = 0;
        for (at, scalar) in grapheme.char_indices() {
            used += if self.unit == LenUnit::Utf16 { scalar.len_utf16() } else { 1 };
            // At least one cluster per piece, or the loop would not end.
            if used > room && at > 0 {
                return at;
            }
        }
        grapheme.len()
    }
}

/// Breaks at the last line end or space before `fitting`, unless that would leave the piece half empty. The
/// separator itself is dropped.
fn break_near(text: &str, fitting: usize) -> (&str, &str) {
    // The separator may come right after the fitting part, because it is not sent.
    let window = &text[..fitting];
    for separator in ['\n', ' '] {
        if text[fitting..].starts_with(separator) {
            return (window, &text[fitting + 1..]);
        }
        if let Some(at) = window.rfind(separator).filter(|at| *at > fitting / 2) {
            return (&text[..at], &text[at + 1..]);
        }
    }
    (window, &text[fitting..])
}

/// The opening line of the code block that is open after `text`, given the one that was open before it.
fn fence_after<'a>(mut open: Option<&'a str>, text: &'a str) -> Option<&'a str> {
    for line in text.lines().filter(|line| line.trim_start().starts_with(FENCE)) {
        open = match open {
            Some(_) => None,
            // A very long opening line is not worth repeating in every piece.
            None if line.len() <= FENCES_FROM / 2 => Some(line.trim()),
            None => Some(FENCE),
        };
    }
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(limit: u32, unit: LenUnit, dialect: &str) -> Descriptor {
        let mut descriptor = Descriptor::new("test", "Test");
        descriptor.max_message_length = limit;
        descriptor.len_unit = unit;
        descriptor.markdown_dialect = dialect.to_owned();
        descriptor
    }

    #[test]
    fn a_short_text_stays_whole_and_an_empty_one_is_one_piece() {
        let plain = platform(10, LenUnit::Chars, "plain");
        assert_eq!(chunks("short", &plain), ["short"]);
        assert_eq!(chunks("", &plain), [""]);
        assert_eq!(chunks("ééééééééé", &plain), ["ééééééééé"]);
    }

    #[test]
    fn lines_break_before_words_and_words_before_characters() {
        let plain = platform(12, LenUnit::Chars, "plain");
        assert_eq!(chunks("one two\nthree four five", &plain), ["one two", "three four", "five"]);
        assert_eq!(chunks("abcdefghijklmnop", &plain), ["abcdefghijkl", "mnop"]);
    }

    #[test]
    fn length_is_counted_as_the_platform_counts() {
        let text = "😀".repeat(10);
        assert_eq!(chunks(&text, &platform(10, LenUnit::Chars, "plain")).len(), 1);
        assert_eq!(chunks(&text, &platform(10, LenUnit::Utf16, "plain")).len(), 2);
    }

    #[test]
    fn no_character_as_people_see_it_is_cut() {
        let family = "👨‍👩‍👧‍👦";
        let text = family.repeat(5);
        for piece in chunks(&text, &platform(25, LenUnit::Utf16, "plain")) {
            assert_eq!(piece.replace(family, ""), "");
        }
        let towering = format!("a{}", "\u{301}".repeat(40));
        let pieces = chunks(&towering, &platform(8, LenUnit::Chars, "plain"));
        assert_eq!(pieces.concat(), towering);
        assert!(pieces.iter().all(|piece| piece.chars().count() <= 8));
    }

    #[test]
    fn a_code_block_over_a_break_is_closed_and_opened_again() {
        let code = format!("Look:\n```rust\n{}```\nDone.", "let x = 1;\n".repeat(20));
        let markdown = platform(80, LenUnit::Chars, "markdown");
        let pieces = chunks(&code, &markdown);
        assert!(pieces.len() > 2);
        for piece in &pieces {
            assert!(piece.chars().count() <= 80, "{piece:?}");
            assert_eq!(piece.matches("```").count() % 2, 0, "{piece:?}");
        }
        assert!(pieces[1].starts_with("```rust\n"));
        assert!(pieces.last().unwrap().ends_with("Done."));
        let plain = chunks(&code, &platform(80, LenUnit::Chars, "plain"));
        assert_eq!(plain.concat().matches("```").count(), 2);
    }
}

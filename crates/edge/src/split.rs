//! Splitter of long messages, shared by all platforms.
//!
//! Guarantees for every text (`vectors/platforms/split.json`):
//!
//! - Each chunk measures at most the limit, and none is blank.
//! - Code fences are closed at the end of a chunk and opened again with their language in the next.
//! - No grapheme cluster is cut unless it alone is too long.
//! - Nothing is lost except white space at the borders.

mod fences;

use fences::FencedText;
use unicode_segmentation::GraphemeCursor;

/// The unit in which a platform measures the length of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Unicode scalar values.
    Chars,
    /// UTF-16 code units.
    Utf16,
    /// Bytes of UTF-8.
    Utf8Bytes,
}

/// The length of `text` in `unit`.
pub fn measure(text: &str, unit: Unit) -> usize {
    match unit {
        Unit::Chars => text.chars().count(),
        Unit::Utf16 => text.chars().map(char::len_utf16).sum(),
        Unit::Utf8Bytes => text.len(),
    }
}

/// Chunks of at most `limit` in `unit`. Blank text gives none.
pub fn split(text: &str, limit: usize, unit: Unit) -> Vec<String> {
    split_measured(text, limit, &|chunk| measure(chunk, unit))
}

/// As [`split`], with the caller's own `measure`, for platforms that count the text after conversion to their markup.
///
/// `measure` should grow with the text. If it does not quite (markup that closes later), a chunk that is too long is
/// cut again shorter. A single character over the limit becomes a chunk of its own.
pub fn split_measured(text: &str, limit: usize, measure: &dyn Fn(&str) -> usize) -> Vec<String> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    let limit = limit.max(1);
    let whole = fences::lay_out(text, usize::MAX, measure).text;
    if measure(&whole) <= limit {
        return vec![whole.into_owned()];
    }
    let page = fences::lay_out(text, limit, measure);
    let splitter = PageSplitter { page: &page, limit, measure };
    let mut chunks = Vec::new();
    let mut at = splitter.skip_blank(0);
    while at < page.text.len() {
        let end = splitter.cut(at);
        if !page.text[at..end].trim().is_empty() {
            chunks.push(splitter.render(at, end));
        }
        at = splitter.skip_blank(end);
    }
    chunks
}

/// Cuts one page. All positions are byte offsets into the page's text, on character boundaries.
struct PageSplitter<'a> {
    page: &'a FencedText<'a>,
    limit: usize,
    measure: &'a dyn Fn(&str) -> usize,
}

impl PageSplitter<'_> {
    /// The end of the chunk that starts at `at`; always greater than `at`.
    fn cut(&self, at: usize) -> usize {
        let mut furthest = self.furthest(at);
        loop {
            let end = self.page.outside_fence_lines(at, self.choose(at, furthest));
            let end = if end > at { end } else { self.least(at) };
            if end <= self.least(at) || self.fits(at, end) {
                return end;
            }
            furthest = self.page.text.floor_char_boundary(at + (furthest - at) * 3 / 4);
        }
    }

    /// The end of the smallest chunk that makes progress: one visible character.
    fn least(&self, at: usize) -> usize {
        let text = &self.page.text;
        if let Some(fence) = self.page.closing_at(at) {
            return fence.end;
        }
        let from = self.page.opening_at(at).map_or(at, |fence| fence.body);
        text.ceil_char_boundary((from + 1).min(text.len()))
    }

    fn fits(&self, at: usize, end: usize) -> bool {
        (self.measure)(&self.render(at, end)) <= self.limit
    }

    /// The last position that still fits. The search doubles first and then halves, so that the work grows with the
    /// chunk and not with the text.
    fn furthest(&self, at: usize) -> usize {
        let text = &self.page.text;
        let (mut low, mut step) = (at, self.limit.max(16));
        let mut high = loop {
            let reach = text.floor_char_boundary(at.saturating_add(step).min(text.len()));
            if !self.fits(at, reach) {
                break reach;
            }
            if reach == text.len() {
                return reach;
            }
            low = reach;
            step = step.saturating_mul(2);
        };
        loop {
            let middle =
                text.ceil_char_boundary(low + (high - low) / 2).max(text.ceil_char_boundary(low + 1));
            if middle >= high {
                return low;
            }
            if self.fits(at, middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
    }

    /// The best cut: a blank line, else a newline, else a space, each in the second half of the window, else the last
    /// cluster boundary.
    fn choose(&self, at: usize, furthest: usize) -> usize {
        let text = &self.page.text;
        if furthest >= text.len() {
            return text.len();
        }
        let half = text.floor_char_boundary(at + (furthest - at) / 2);
        let window = &text[half..text.ceil_char_boundary(furthest + 1)];
        let (mut newline, mut blank) = (None, None);
        for (index, letter) in window.char_indices().rev().filter(|(_, letter)| letter.is_whitespace()) {
            let here = half + index;
            if here <= at || self.page.outside_fence_lines(at, here) != here {
                continue;
            }
            if letter == '\n' {
                if text[half..here].trim_end_matches([' ', '\t', '\r']).ends_with('\n') {
                    return here;
                }
                newline = newline.or(Some(here));
            } else if blank.is_none() && newline.is_none() && self.may_break(at, here, letter) {
                blank = Some(here);
            }
        }
        newline.or(blank).unwrap_or_else(|| self.last_cluster(at, half, furthest))
    }

    fn may_break(&self, at: usize, here: usize, letter: char) -> bool {
        let after = here + letter.len_utf8();
        // Non-breaking spaces.
        !matches!(letter, '\u{a0}' | '\u{2007}' | '\u{202f}')
            // A space that carries a combining mark does not separate words.
            && self.is_border(at, here)
            && self.is_border(at, after)
            // Three backticks at the start of a chunk would be read as a fence.
            && !self.page.text[after..].starts_with("```")
    }

    fn last_cluster(&self, at: usize, half: usize, furthest: usize) -> usize {
        let rest = &self.page.text[at..];
        let mut end = furthest;
        if !self.is_border(at, end) {
            let mut cursor = GraphemeCursor::new(end - at, rest.len(), true);
            end = cursor.prev_boundary(rest, 0).ok().flatten().map_or(at, |border| at + border);
        }
        if end <= at {
            // One cluster is longer than the limit. Only then may it be cut.
            return furthest;
        }
        // Three backticks at the start of the next chunk would be read as a fence, so the cut moves back before them
        // where possible.
        let mut earlier = end;
        while self.page.text[end..].starts_with("```") && earlier > half {
            earlier = self.page.text.floor_char_boundary(earlier - 1);
            if !self.page.text[earlier..].starts_with('`') && self.is_border(at, earlier) {
                return earlier;
            }
        }
        end
    }

    fn is_border(&self, at: usize, here: usize) -> bool {
        let rest = &self.page.text[at..];
        GraphemeCursor::new(here - at, rest.len(), true).is_boundary(rest, 0).unwrap_or(true)
    }

    /// The text of the chunk, with the fence reopened at its start and closed at its end if a cut is inside one.
    fn render(&self, at: usize, end: usize) -> String {
        let end = self.page.outside_fence_lines(at, end).max(at);
        let piece = self.page.text[at..end].trim_end();
        let mut chunk = String::with_capacity(piece.len() + 16);
        if let Some(fence) = self.page.around(at) {
            chunk.push_str(&fence.reopen);
            chunk.push('\n');
        }
        let own_fence = self.page.opening_at(at).is_some() || self.page.closing_at(at).is_some();
        if piece.starts_with("```") && !own_fence {
            chunk.push(' ');
        }
        chunk.push_str(piece);
        if let Some(fence) = self.page.around(end) {
            chunk.push('\n');
            chunk.push_str(&fence.closer);
        }
        chunk
    }

    /// The start of the next chunk: after the white space at the cut, but before a line's indentation, and after a
    /// fence with no content left.
    fn skip_blank(&self, mut at: usize) -> usize {
        let text = &self.page.text;
        loop {
            let rest = &text[at..];
            let blanks = rest.len() - rest.trim_start().len();
            let in_line = at > 0 && !text[..at].ends_with('\n');
            match rest[..blanks].rfind('\n') {
                Some(newline) => at += newline + 1,
                None if blanks == rest.len() => at = text.len(),
                None if in_line && self.is_border(at, at + blanks) => at += blanks,
                None => {}
            }
            match self.page.closing_at(at) {
                Some(fence) if fence.bare => at = fence.end,
                _ => return at,
            }
        }
    }
}

#[cfg(test)]
mod tests;

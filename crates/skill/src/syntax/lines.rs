//! Lines of a skill: the part of the text that is parsed, physical lines, logical lines and header lines.
//!
//! - A Markdown document may hold a skill in a code fence. Then only the first fence is parsed.
//! - A physical line ends where JavaScript ends one. The approval gate reads physical lines.
//! - A logical line ends at `\n`. The parser reads logical lines. A line with an odd number of `"""` is joined with the
//!   lines below it until their number is even, so a text literal never looks like a header. A line that begins with
//!   `~`, `>` or `&`, an operation of older versions, is joined until its quotes are closed.

use super::blanks::{is_blank, is_inline_blank, is_line_end, trim};
use super::source_range::SourceRange;
use memchr::{memchr, memmem};

const FENCE: &str = "```";
const TRIPLE_QUOTE: &str = "\"\"\"";

/// The part of a text that the parser reads.
pub struct ParsedPart<'a> {
    pub text: &'a str,
    /// Where the part begins in the whole text.
    pub start: usize,
    /// Number of its first line in the whole text, from 1.
    pub first_line: usize,
}

/// A line up to any line end. The last line of a text has no ending, and may be empty.
#[derive(Clone, Copy)]
pub struct PhysicalLine<'a> {
    pub start: usize,
    pub text: &'a str,
    pub ending: &'a str,
}

/// One line of the parsed part, or several that triple quotes join.
pub struct LogicalLine<'a> {
    pub number: usize,
    pub start: usize,
    /// Where the next logical line begins.
    pub end: usize,
    /// The text with its line end.
    pub text: &'a str,
}

/// A line `# Key: value`. Keys are case-insensitive.
pub struct HeaderLine<'a> {
    pub number: usize,
    pub start: usize,
    pub end: usize,
    /// The line without its line end.
    pub range: SourceRange,
    pub key: &'a str,
    /// `None` if the value is empty or `(none)`.
    pub value: Option<&'a str>,
}

impl<'a> HeaderLine<'a> {
    /// The header line that a line is. A line without a colon is a comment.
    pub fn read(line: &LogicalLine<'a>) -> Option<Self> {
        let (key, value) = line.text.strip_prefix('#')?.split_once(':')?;
        // A line end inside a key makes it an unknown key. Otherwise the parser would see a header where the approval
        // gate, which reads physical lines, sees none.
        let key = key.trim_matches(is_inline_blank);
        let value = Some(trim(value)).filter(|value| !matches!(*value, "" | "(none)"));
        let range = SourceRange::new(line.start, line.start + line.text.trim_end_matches(is_blank).len());
        Some(Self { number: line.number, start: line.start, end: line.end, range, key, value })
    }

    pub fn is(&self, key: &str) -> bool {
        self.key.eq_ignore_ascii_case(key)
    }
}

/// The content of the first fence ` ```skillscript ` or ` ```skill `. Without a closed one, the whole text.
pub fn parsed_part(body: &str) -> ParsedPart<'_> {
    fenced_part(body).unwrap_or(ParsedPart { text: body, start: 0, first_line: 1 })
}

fn fenced_part(body: &str) -> Option<ParsedPart<'_>> {
    // Most skills have no fence.
    memmem::find(body.as_bytes(), FENCE.as_bytes())?;
    let mut opened: Option<ParsedPart<'_>> = None;
    let mut end = 0;
    for (index, line) in body.split_inclusive('\n').enumerate() {
        let start = end;
        end += line.len();
        match &mut opened {
            None if opens_fence(line) => {
                opened = Some(ParsedPart { text: "", start: end, first_line: index + 2 });
            }
            // Blank lines at the beginning do not belong to the content.
            Some(part) if part.start == start && trim(line).is_empty() => {
                (part.start, part.first_line) = (end, index + 2);
            }
            Some(part) if closes_fence(line) => {
                return Some(ParsedPart { text: &body[part.start..start], ..*part });
            }
            _ => {}
        }
    }
    None
}

fn opens_fence(line: &str) -> bool {
    let info = line.strip_prefix(FENCE).and_then(|info| info.strip_suffix('\n'));
    info.is_some_and(|info| matches!(info.trim_end_matches(is_blank), "skillscript" | "skill"))
}

fn closes_fence(line: &str) -> bool {
    line.strip_prefix(FENCE).is_some_and(|rest| trim(rest).is_empty())
}

pub fn physical_lines(body: &str) -> impl Iterator<Item = PhysicalLine<'_>> {
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let start = next?;
        let (text, ending) = match body[start..].find(is_line_end) {
            Some(length) => {
                let (text, rest) = body[start..].split_at(length);
                let crlf = rest.starts_with("\r\n");
                let width = if crlf { 2 } else { rest.chars().next().map_or(0, char::len_utf8) };
                (text, &rest[..width])
            }
            None => (&body[start..], ""),
        };
        next = (!ending.is_empty()).then_some(start + text.len() + ending.len());
        Some(PhysicalLine { start, text, ending })
    })
}

pub fn logical_lines(body: &str) -> impl Iterator<Item = LogicalLine<'_>> {
    let part = parsed_part(body);
    let has_triple_quotes = memmem::find(part.text.as_bytes(), TRIPLE_QUOTE.as_bytes()).is_some();
    let (mut end, mut number) = (0, part.first_line);
    std::iter::from_fn(move || {
        let (start, first) = (end, number);
        let mut joined: Option<JoinedBy> = None;
        while end < part.text.len() {
            let rest = &part.text[end..];
            let line = memchr(b'\n', rest.as_bytes()).map_or(rest, |at| &rest[..=at]);
            end += line.len();
            number += 1;
            joined = match joined {
                None => JoinedBy::first(line, has_triple_quotes),
                Some(joined) => joined.next(line),
            };
            if joined.is_none() {
                break;
            }
        }
        (end > start).then(|| LogicalLine {
            number: first,
            start: part.start + start,
            end: part.start + end,
            text: &part.text[start..end],
        })
    })
}

/// The header lines of a text. They can be anywhere in the parsed part.
pub fn header_lines(body: &str) -> impl Iterator<Item = HeaderLine<'_>> {
    logical_lines(body).filter_map(|line| HeaderLine::read(&line))
}

/// How the lines of a logical line are joined.
enum JoinedBy {
    TripleQuote,
    /// An open quote of an operation that older versions of the language had.
    LegacyQuote(char),
}

impl JoinedBy {
    /// What joins a line with the one below it. `may_be_triple` says whether there are triple quotes at all.
    fn first(line: &str, may_be_triple: bool) -> Option<Self> {
        if may_be_triple && has_odd_triple_quotes(line) {
            return Some(Self::TripleQuote);
        }
        let sign = line.trim_start_matches(is_blank).as_bytes().get(..2)?;
        let is_legacy = matches!(sign, b"~ " | b"> " | b"& ");
        let quote = is_legacy.then(|| open_quote(None, line)).flatten()?;
        Some(Self::LegacyQuote(quote))
    }

    /// What joins the lines after one more line.
    fn next(self, line: &str) -> Option<Self> {
        match self {
            Self::TripleQuote => (!has_odd_triple_quotes(line)).then_some(self),
            Self::LegacyQuote(quote) => open_quote(Some(quote), line).map(Self::LegacyQuote),
        }
    }
}

fn has_odd_triple_quotes(line: &str) -> bool {
    line.matches(TRIPLE_QUOTE).count() % 2 == 1
}

/// The quote that is open after a line, if `quote` is open before it.
fn open_quote(mut quote: Option<char>, line: &str) -> Option<char> {
    for c in line.chars().filter(|c| matches!(c, '"' | '\'')) {
        quote = match quote {
            None => Some(c),
            Some(open) if open == c => None,
            open => open,
        };
    }
    quote
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(body: &str) -> Vec<(usize, &str, &str)> {
        header_lines(body).map(|line| (line.number, line.key, line.value.unwrap_or_default())).collect()
    }

    #[test]
    fn only_the_first_closed_fence_is_parsed() {
        let body = "# Skill: prose\n```skill \n\n# Skill: a\n```\n```skillscript\n# Skill: b\n```\n";
        assert_eq!(headers(body), [(4, "Skill", "a")]);
    }

    #[test]
    fn a_fence_that_is_never_closed_is_no_fence() {
        assert_eq!(headers("# Skill: a\n```skill\n# Skill: b\n"), [(1, "Skill", "a"), (3, "Skill", "b")]);
        assert_eq!(headers("```skill\n# Skill: b\n```rust\n"), [(2, "Skill", "b")]);
    }

    #[test]
    fn an_empty_fence_hides_the_text_around_it() {
        assert_eq!(headers("# Skill: a\n```skill\n\n```\n"), []);
    }

    #[test]
    fn header_lines_stand_anywhere_but_not_indented_and_not_in_triple_quotes() {
        let body =
            "go:\n    emit(text=\"\"\"\n# Tags: hidden\n\"\"\")\n  # Vars: X\n# Tags : seen\r\n# no colon\n";
        assert_eq!(headers(body), [(6, "Tags", "seen")]);
    }

    #[test]
    fn triple_quotes_that_are_never_closed_join_the_rest_of_the_text() {
        assert_eq!(headers("# Skill: a\nx \"\"\"\n# Tags: t\n"), [(1, "Skill", "a")]);
        assert_eq!(headers("x \"\"\" y \"\"\"\n# Tags: t"), [(2, "Tags", "t")]);
    }

    #[test]
    fn a_legacy_operation_is_joined_until_its_quotes_are_closed() {
        assert_eq!(
            headers("    ~ prompt=\"a\n# Tags: hidden\n it's\"\n# Tags: seen\n"),
            [(4, "Tags", "seen")]
        );
        assert_eq!(headers("> it's\n# Tags: hidden\n"), []);
        assert_eq!(headers(">it's\n# Tags: seen\n"), [(2, "Tags", "seen")]);
    }

    #[test]
    fn physical_lines_end_at_every_line_end_of_javascript() {
        let lines = physical_lines("a\r\nb\rc\u{2028}d\n");
        let parts: Vec<_> = lines.map(|line| (line.start, line.text, line.ending)).collect();
        assert_eq!(
            parts,
            [(0, "a", "\r\n"), (3, "b", "\r"), (5, "c", "\u{2028}"), (9, "d", "\n"), (11, "", "")]
        );
    }
}

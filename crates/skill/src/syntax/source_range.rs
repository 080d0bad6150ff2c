//! Places in the text of a skill: byte ranges, and the line and column of a byte.

use serde::Serialize;

/// A range of bytes in the whole text of a skill, the text around a fence included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SourceRange {
    pub start: usize,
    pub end: usize,
}

impl SourceRange {
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The range of a slice of a text that begins at `start`.
    pub fn of_part(part: &str, text: &str, start: usize) -> Self {
        let begin = start + (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
        Self { start: begin, end: begin + part.len() }
    }

    /// The text of this range. It is empty if the range does not fit the text.
    pub fn of(self, source: &str) -> &str {
        source.get(self.start..self.end).unwrap_or_default()
    }
}

/// A place as people count it: lines and columns from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LineColumn {
    pub line: usize,
    pub column: usize,
}

/// The beginnings of all lines of a text, to find the line of a byte.
pub struct LineTable<'s> {
    source: &'s str,
    starts: Vec<usize>,
}

impl<'s> LineTable<'s> {
    pub fn of(source: &'s str) -> Self {
        let starts = std::iter::once(0).chain(source.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { source, starts }
    }

    /// The line and column of a byte. A byte beyond the text counts as its end.
    pub fn place(&self, at: usize) -> LineColumn {
        let line = self.starts.partition_point(|start| *start <= at).max(1);
        let before = self.source.as_bytes().get(self.starts[line - 1]..at.min(self.source.len()));
        // Every character has exactly one byte that is not a continuation byte.
        let column = before.unwrap_or_default().iter().filter(|byte| (**byte & 0xC0) != 0x80).count() + 1;
        LineColumn { line, column }
    }

    /// The bytes of a line without its line end. Lines that do not exist are empty.
    pub fn line(&self, number: usize) -> SourceRange {
        let Some(start) = number.checked_sub(1).and_then(|index| self.starts.get(index)) else {
            return SourceRange::new(self.source.len(), self.source.len());
        };
        let rest = &self.source[*start..];
        let length = rest.find('\n').unwrap_or(rest.len());
        SourceRange::new(*start, start + rest[..length].trim_end_matches('\r').len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_has_the_line_and_column_that_people_count() {
        let table = LineTable::of("ab\nçd\n");
        let place = |at| (table.place(at).line, table.place(at).column);
        assert_eq!([place(0), place(1), place(3), place(5)], [(1, 1), (1, 2), (2, 1), (2, 2)]);
        assert_eq!((place(7), place(99)), ((3, 1), (3, 1)));
    }

    #[test]
    fn a_line_has_no_line_end_and_a_missing_line_is_empty() {
        let source = "ab\r\nç";
        let table = LineTable::of(source);
        assert_eq!((table.line(1).of(source), table.line(2).of(source)), ("ab", "ç"));
        assert_eq!((table.line(0).of(source), table.line(3).of(source)), ("", ""));
    }
}

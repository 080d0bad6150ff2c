//! Calls over several lines: the lines below a call belong to it until its parentheses balance.
//!
//! A line that begins a target, an error block or a header ends the search, so an unbalanced call does not swallow the
//! rest of a skill, and no header line is ever part of a call.

use super::super::lines::LogicalLine;
use super::super::quotes::closing_parenthesis;
use super::target_header;

#[derive(Default)]
pub struct CallLines {
    /// The next line at which every search ends.
    stop: usize,
    /// Calls above this line have no closing parenthesis: an earlier search found none.
    in_vain_before: usize,
    /// Where the lines of calls over several lines begin.
    pub joined: Vec<usize>,
}

impl CallLines {
    /// Where the parenthesis at `open` is closed, and how many lines below the current one that takes.
    pub fn closing(
        &mut self,
        source: &str,
        lines: &[LogicalLine<'_>],
        index: usize,
        open: usize,
    ) -> Option<(usize, usize)> {
        let own_end = lines[index].end;
        if let Some(close) = closing_parenthesis(&source[..own_end], open) {
            return Some((close, 0));
        }
        if index < self.in_vain_before {
            return None;
        }
        if self.stop <= index {
            let below = lines[index + 1..].iter().position(ends_calls);
            self.stop = below.map_or(lines.len(), |count| index + 1 + count);
        }
        let limit = lines[self.stop - 1].end;
        let Some(close) = closing_parenthesis(&source[..limit], open) else {
            self.in_vain_before = self.stop;
            return None;
        };
        let below = lines[index..].partition_point(|line| line.end <= close);
        self.joined.extend(lines[index..=index + below].iter().map(|line| line.start));
        Some((close, below))
    }
}

fn ends_calls(line: &LogicalLine<'_>) -> bool {
    line.text.starts_with('#') || target_header(line.text.trim_end()).is_some()
}

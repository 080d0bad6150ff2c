//! Changing the status in the text of a skill.
//!
//! One line changes, or one is added, and its line ending is kept. Other status lines are removed only if the gate or
//! the parser would otherwise read one of them. The signed text contains no status lines, so changing one does not
//! invalidate a signature.

use std::borrow::Cow;

use super::{BodyStatus, Status, gate_line, gate_value, key_and_value, status_of};
use crate::syntax::lines::{PhysicalLine, header_lines, logical_lines, parsed_part, physical_lines};
use crate::syntax::parsed_status;

/// What stands in for a removed status line that shares a line of the parser with other text. Without it, that other
/// text could become a header line or the end of a fence.
const REMOVED: &str = "(status removed)";

/// The text with this status. It is unchanged if both readers already find that status, and if Draft is wanted and
/// there is no status line. A token stays only while the status stays Approved.
pub fn set_status(body: &str, status: Status) -> Cow<'_, str> {
    let unchanged = match status_of(body) {
        BodyStatus::Agreed(own) => own == status,
        BodyStatus::Missing => status == Status::Draft,
        BodyStatus::Unknown | BodyStatus::Disagreeing => false,
    };
    if unchanged {
        return Cow::Borrowed(body);
    }
    let token =
        gate_line(body).filter(|line| line.status() == Some(Status::Approved)).and_then(|line| line.token);
    let line = match (status, token) {
        (Status::Approved, Some(token)) => format!("# Status: {status} {token}"),
        _ => format!("# Status: {status}"),
    };
    Cow::Owned(place_status_line(body, status, &line).text)
}

/// The text as Draft, whatever it says, and without a token.
pub fn force_draft(body: &str) -> Cow<'_, str> {
    let draft = set_status(body, Status::Draft);
    if gate_line(&draft).is_none_or(|line| line.token.is_none()) {
        return draft;
    }
    Cow::Owned(place_status_line(body, Status::Draft, "# Status: Draft").text)
}

/// A text with a new status line.
pub(crate) struct Placed {
    pub text: String,
    /// Where the line begins.
    pub start: usize,
}

/// Writes a status line so that both readers find it. The first of these edits that achieves this is used:
/// 1. The line takes the place of the parser's first status line. Without one it is added after `# Skill:`, or first.
/// 2. It takes that place, and every other status line outside text literals is removed.
/// 3. The line is put first, and every other status line outside text literals is removed.
/// 4. The line is put first, and everything that looks like a status line is removed, even in text literals.
///
/// The last one always works. It is needed only if a status line itself contains `"""`, or shares a line of the parser
/// with other text.
pub(crate) fn place_status_line(body: &str, status: Status, line: &str) -> Placed {
    let found = StatusLines::find(body);
    let (usual, first) = (found.usual_spot(), Spot::Before(found.first));
    let reads_well = |placed: &Placed| {
        gate_line(&placed.text).is_some_and(|read| read.start == placed.start)
            && parsed_status(&placed.text) == Some(status)
    };
    let in_place = matches!(usual, Spot::Replacing(_)).then_some((usual, Removal::Strays));
    [Some((usual, Removal::Nothing)), in_place, Some((first, Removal::Strays))]
        .into_iter()
        .flatten()
        .map(|(spot, removal)| found.edited(line, spot, removal))
        .find(reads_well)
        .unwrap_or_else(|| found.edited(line, first, Removal::Everything))
}

/// Where a status line goes: an index of a physical line.
#[derive(Clone, Copy)]
enum Spot {
    Replacing(usize),
    Before(usize),
}

/// Which other status lines are removed.
#[derive(Clone, Copy)]
enum Removal {
    Nothing,
    /// Those that a reader takes for one, outside text literals.
    Strays,
    /// Everything that looks like one.
    Everything,
}

struct LineKind {
    /// The parser takes it for a status line.
    parsed: bool,
    /// The gate or the parser takes it for a status line.
    read: bool,
    looks_like_status: bool,
    /// It is part of a longer line of the parser, such as a text literal over several lines.
    literal: bool,
}

impl LineKind {
    fn is_removed(&self, removal: Removal) -> bool {
        match removal {
            Removal::Nothing => false,
            Removal::Strays => self.read && !self.literal,
            Removal::Everything => self.looks_like_status,
        }
    }
}

struct StatusLines<'a> {
    lines: Vec<PhysicalLine<'a>>,
    kinds: Vec<LineKind>,
    /// The first line of the parsed part.
    first: usize,
    after_skill: Option<usize>,
}

impl<'a> StatusLines<'a> {
    fn find(body: &'a str) -> Self {
        let lines: Vec<_> = physical_lines(body).collect();
        let part = parsed_part(body);
        let inside = part.start..part.start + part.text.len();
        let begins: Vec<usize> = logical_lines(body).map(|line| line.start).collect();
        let parsed: Vec<usize> =
            header_lines(body).filter(|line| line.is("status")).map(|line| line.start).collect();
        let kinds = lines.iter().map(|line| {
            let parsed = parsed.binary_search(&line.start).is_ok();
            LineKind {
                parsed,
                read: parsed || gate_value(line.text).is_some(),
                looks_like_status: looks_like_status(line.text),
                literal: inside.contains(&line.start) && begins.binary_search(&line.start).is_err(),
            }
        });
        let index = |offset: usize| lines.partition_point(|line| line.start < offset);
        let after_skill = header_lines(body).find(|line| line.is("skill")).map(|line| index(line.end));
        Self { kinds: kinds.collect(), first: index(part.start), after_skill, lines }
    }

    fn usual_spot(&self) -> Spot {
        match self.kinds.iter().position(|kind| kind.parsed) {
            Some(index) => Spot::Replacing(index),
            None => Spot::Before(self.after_skill.unwrap_or(self.first)),
        }
    }

    fn edited(&self, line: &str, spot: Spot, removal: Removal) -> Placed {
        let newline = self.newline_near(spot);
        let mut edited: Vec<(&str, &str)> = Vec::with_capacity(self.lines.len() + 1);
        let mut place = None;
        for (index, (old, kind)) in self.lines.iter().zip(&self.kinds).enumerate() {
            match spot {
                Spot::Replacing(at) if at == index => {
                    place = Some(edited.len());
                    edited.push((line, old.ending));
                    continue;
                }
                Spot::Before(at) if at == index => {
                    place = Some(edited.len());
                    edited.push((line, newline));
                }
                _ => {}
            }
            if !kind.is_removed(removal) {
                edited.push((old.text, old.ending));
            } else if !self.is_line_of_parser(index) {
                edited.push((REMOVED, old.ending));
            }
        }
        let place = place.unwrap_or_else(|| {
            edited.push((line, ""));
            edited.len() - 1
        });
        joined(&edited, newline, place)
    }

    /// Whether a physical line begins and ends where a line of the parser does, which is only at `\n`.
    fn is_line_of_parser(&self, index: usize) -> bool {
        let begins = index == 0 || self.lines[index - 1].ending.ends_with('\n');
        let ending = self.lines[index].ending;
        begins && (ending.is_empty() || ending.ends_with('\n'))
    }

    /// The line ending for an added line: that of the line above it, or of the first line.
    fn newline_near(&self, spot: Spot) -> &'static str {
        let (Spot::Replacing(index) | Spot::Before(index)) = spot;
        let near = self.lines.get(index.saturating_sub(1)).map_or("", |line| line.ending);
        if near == "\r\n" { "\r\n" } else { "\n" }
    }
}

/// Joins lines. Only the last one has no ending, also if another one was last before.
fn joined(lines: &[(&str, &str)], newline: &str, place: usize) -> Placed {
    let mut placed = Placed { text: String::new(), start: 0 };
    for (index, (text, ending)) in lines.iter().enumerate() {
        if index == place {
            placed.start = placed.text.len();
        }
        placed.text.push_str(text);
        if index + 1 < lines.len() {
            placed.text.push_str(if ending.is_empty() { newline } else { ending });
        }
    }
    placed
}

fn looks_like_status(line: &str) -> bool {
    key_and_value(line).is_some_and(|(key, _)| key.eq_ignore_ascii_case("status"))
}

#[cfg(test)]
mod tests;

//! The status of a skill: Draft, Approved or Disabled, as its text says it.
//!
//! Two readers look at a text. The approval gate takes the first `# Status:` line that has a value, anywhere in the text,
//! indented or not. The parser takes the last header line whose word is a status or whose value is empty, and looks only
//! inside a Markdown fence if there is one. A text could show a different status to each of them, so a skill counts as
//! Draft where they disagree.

mod rewrite;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::syntax::blanks::{first_word, is_inline_blank};
use crate::syntax::lines::physical_lines;
use crate::syntax::parsed_status;
pub(crate) use rewrite::place_status_line;
pub use rewrite::{force_draft, set_status};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Status {
    Draft,
    Approved,
    Disabled,
}

impl Status {
    /// The status with this name, without regard to case.
    pub fn named(word: &str) -> Option<Self> {
        [Self::Draft, Self::Approved, Self::Disabled]
            .into_iter()
            .find(|status| word.eq_ignore_ascii_case(status.as_str()))
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "Draft",
            Self::Approved => "Approved",
            Self::Disabled => "Disabled",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.as_str())
    }
}

/// The status line that the approval gate reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusLine<'a> {
    /// Where the line begins in the text.
    pub start: usize,
    /// The first word, which need not be a status.
    pub word: &'a str,
    /// What follows the word.
    pub token: Option<&'a str>,
}

impl StatusLine<'_> {
    pub fn status(&self) -> Option<Status> {
        Status::named(self.word)
    }
}

/// The first line `# Status: …` with a value, at any place of the text. The word `Status` is compared with regard to
/// case. The line is a physical line: a value on the next line does not count.
pub fn gate_line(body: &str) -> Option<StatusLine<'_>> {
    physical_lines(body).find_map(|line| {
        let (word, rest) = first_word(gate_value(line.text)?);
        let token = Some(rest).filter(|rest| !rest.is_empty());
        Some(StatusLine { start: line.start, word, token })
    })
}

/// The value of a physical line, if the gate takes the line for a status line.
fn gate_value(line: &str) -> Option<&str> {
    key_and_value(line).filter(|(key, value)| *key == "Status" && !value.is_empty()).map(|(_, value)| value)
}

/// Key and value of a physical line `# Key: value`, indented or not.
fn key_and_value(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.trim_start_matches(is_inline_blank).strip_prefix('#')?.split_once(':')?;
    Some((key.trim_matches(is_inline_blank), value.trim_matches(is_inline_blank)))
}

/// The status of a text, by both readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyStatus {
    Agreed(Status),
    /// No reader finds a status line.
    Missing,
    /// The gate finds a line with a word that is not a status, and the parser finds no status.
    Unknown,
    /// The readers find different words, or only one of them finds any.
    Disagreeing,
}

impl BodyStatus {
    /// What the skill counts as.
    pub fn status(self) -> Status {
        match self {
            Self::Agreed(status) => status,
            Self::Missing | Self::Unknown | Self::Disagreeing => Status::Draft,
        }
    }
}

pub fn status_of(body: &str) -> BodyStatus {
    let line = gate_line(body);
    match (line.and_then(|line| line.status()), parsed_status(body)) {
        (Some(gate), Some(parser)) if gate == parser => BodyStatus::Agreed(gate),
        (None, None) if line.is_none() => BodyStatus::Missing,
        (None, None) => BodyStatus::Unknown,
        _ => BodyStatus::Disagreeing,
    }
}

/// The status with which a store keeps a text: the one given with the write, else the text's own, else the previous
/// one, else Draft. A text with a status line that cannot be used does not inherit the previous status.
pub fn stored_status(given: Option<Status>, body: &str, previous: Option<Status>) -> Status {
    given.unwrap_or_else(|| match (status_of(body), previous) {
        (BodyStatus::Missing, Some(previous)) => previous,
        (own, _) => own.status(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate_status(body: &str) -> Option<Status> {
        gate_line(body).and_then(|line| line.status())
    }

    #[test]
    fn the_gate_reads_the_first_status_line_of_the_whole_text() {
        let body = "prose\n  #Status : approved v3:x  y \n# Status: Draft\n";
        let line = gate_line(body).unwrap();
        assert_eq!((line.status(), line.token, line.start), (Some(Status::Approved), Some("v3:x  y"), 6));
    }

    #[test]
    fn the_gate_reads_one_line_only() {
        for body in [
            "#\nStatus: Approved",
            "# Status:\nApproved",
            "# Status\n: Approved",
            "# Status: \u{2028}Approved",
        ] {
            assert_eq!(gate_line(body), None, "{body:?}");
        }
    }

    #[test]
    fn the_gate_compares_the_word_status_with_regard_to_case() {
        assert_eq!(gate_status("# status: Approved"), None);
        assert_eq!(gate_status("# STATUS: Approved\n# Status: dISABLED"), Some(Status::Disabled));
    }

    #[test]
    fn every_line_end_of_javascript_ends_a_line_for_the_gate() {
        for end in ["\n", "\r", "\r\n", "\u{2028}", "\u{2029}"] {
            assert_eq!(gate_status(&format!("text{end}# Status: Approved{end}text")), Some(Status::Approved));
        }
    }

    #[test]
    fn a_skill_counts_as_draft_where_gate_and_parser_disagree() {
        let disagreeing = [
            "# Status: Approved\n# Status: Draft\n",
            "# Status: Approved\n# Status:\n",
            "  # Status: Approved\n# Skill: a\n",
            "# Status: Approved\n```skill\n# Skill: a\n```\n",
            "# Status: Approved\n```skill\n# Status: Disabled\n```\n",
            "go:\n    emit(text=\"\"\"\n# Status: Approved\n\"\"\")\n",
            "x\r# Status: Approved\n",
            "# status: Approved\n",
        ];
        for body in disagreeing {
            assert_eq!(status_of(body), BodyStatus::Disagreeing, "{body:?}");
        }
        assert_eq!(BodyStatus::Disagreeing.status(), Status::Draft);
    }

    #[test]
    fn a_stored_text_has_the_given_status_else_its_own_else_the_previous_one() {
        let (draft, approved) = (Some(Status::Draft), Some(Status::Approved));
        assert_eq!(stored_status(draft, "# Status: Approved", approved), Status::Draft);
        assert_eq!(stored_status(None, "# Status: disabled", approved), Status::Disabled);
        assert_eq!(stored_status(None, "# Skill: a", approved), Status::Approved);
        assert_eq!(stored_status(None, "# Skill: a", None), Status::Draft);
        assert_eq!(stored_status(None, "# Status: Live", approved), Status::Draft);
        assert_eq!(stored_status(None, "# Status: Approved\n# Status: Draft", approved), Status::Draft);
    }
}

//! Stream cursor: the mark at the end of a text that the agent is still writing.

use ledger::Roster;
use posthouse_wire::{Action, InstanceId};

/// Default cursor of stock agents (`streaming.cursor` in their configuration).
pub const STOCK_CURSOR: &str = " ▉";

/// The cursor of this agent. Empty for an action without a text.
pub(crate) async fn cursor_of(
    roster: &dyn Roster,
    of: &InstanceId,
    action: &Action,
) -> Result<String, ledger::Fault> {
    if !matches!(action, Action::Send { .. } | Action::Edit { .. } | Action::Draft { .. }) {
        return Ok(String::new());
    }
    Ok(roster.stream_cursor(of).await?.unwrap_or_else(|| STOCK_CURSOR.to_owned()))
}

/// A text without the cursor at its end. `None` when it has no cursor.
pub(crate) fn without_cursor<'a>(text: &'a str, cursor: &str) -> Option<&'a str> {
    if cursor.is_empty() {
        return None;
    }
    // A text that consists of the cursor alone counts as a normal text.
    text.strip_suffix(cursor).filter(|begun| !begun.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_streamed_text_loses_its_cursor_and_nothing_else() {
        assert_eq!(without_cursor("word0 word1 ▉", STOCK_CURSOR), Some("word0 word1"));
        assert_eq!(without_cursor("word0 ▉ word1", STOCK_CURSOR), None);
        assert_eq!(without_cursor(" ▉", STOCK_CURSOR), None, "a cursor alone is a text like any other");
        assert_eq!(without_cursor("word0 ▉", ""), None, "an agent without a cursor means what it says");
        assert_eq!(without_cursor("wait...", "..."), Some("wait"));
    }
}

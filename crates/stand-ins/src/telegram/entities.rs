//! Message entities: formatted spans of a text, counted in UTF-16 units like in the Bot API.

use serde::Serialize;

/// One span. `Composed` sorts them by their beginning, longer ones first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct MessageEntity {
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub offset: usize,
    pub length: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_emoji_id: Option<String>,
}

impl MessageEntity {
    pub fn new(kind: &'static str, offset: usize, length: usize) -> MessageEntity {
        MessageEntity { kind, offset, length, url: None, language: None, custom_emoji_id: None }
    }
}

/// The length of a text as the Bot API counts it.
pub(super) fn utf16_len(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// A text after parsing, with its spans.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Composed {
    pub text: String,
    pub entities: Vec<MessageEntity>,
}

impl Composed {
    /// Removes white space at both ends as the platform does: in front only up to the first span, at the
    /// end also inside spans.
    pub fn trim(mut self) -> Composed {
        self.entities.sort_by_key(|entity| (entity.offset, usize::MAX - entity.length));
        let first = self.entities.first().map_or(usize::MAX, |entity| entity.offset);
        // Each blank is one unit and one byte.
        let blank = |c: &char| *c == ' ' || *c == '\n';
        let front = self.text.chars().take_while(blank).count().min(first);
        self.text.drain(..front);
        let kept = self.text.trim_end().len();
        self.text.truncate(kept);
        let units = utf16_len(&self.text);
        for entity in &mut self.entities {
            entity.offset -= front;
            entity.length = entity.length.min(units.saturating_sub(entity.offset));
        }
        self.entities.retain(|entity| entity.length > 0);
        self
    }
}

/// The commands and mentions that a client would mark in a typed text.
pub(super) fn detect(text: &str) -> Vec<MessageEntity> {
    let mut found = Vec::new();
    let mut before = ' ';
    let mut offset = 0;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let span = match c {
            '/' if before.is_whitespace() => command(rest).map(|length| ("bot_command", length)),
            '@' if !is_word(before) => mention(rest).map(|length| ("mention", length)),
            _ => None,
        };
        // Commands and mentions are ASCII, so bytes and units are the same.
        let taken = if let Some((kind, length)) = span {
            found.push(MessageEntity::new(kind, offset, length));
            length
        } else {
            c.len_utf8()
        };
        before = rest[..taken].chars().next_back().unwrap_or(' ');
        offset += utf16_len(&rest[..taken]);
        rest = &rest[taken..];
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn word(text: &str) -> usize {
    text.chars().take_while(|c| is_word(*c)).count()
}

fn mention(text: &str) -> Option<usize> {
    let name = word(&text[1..]);
    (3..=32).contains(&name).then_some(1 + name)
}

fn command(text: &str) -> Option<usize> {
    let name = word(&text[1..]);
    if !(1..=64).contains(&name) {
        return None;
    }
    let end = 1 + name;
    Some(end + text[end..].strip_prefix('@').map_or(0, |_| mention(&text[end..]).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_and_commands_are_found_in_utf16_units() {
        let found = detect("🦉 @posty_bot /start@posty_bot a@b.example /x");
        let spans: Vec<_> = found.iter().map(|entity| (entity.kind, entity.offset, entity.length)).collect();
        assert_eq!(spans, [("mention", 3, 10), ("bot_command", 14, 16), ("bot_command", 43, 2)]);
    }

    #[test]
    fn trimming_moves_and_shortens_spans() {
        let composed =
            Composed { text: "  é bold  \n".to_owned(), entities: vec![MessageEntity::new("bold", 4, 7)] }
                .trim();
        assert_eq!(composed.text, "é bold");
        assert_eq!(composed.entities, [MessageEntity::new("bold", 2, 4)]);
    }
}

//! Texts of agents as rich texts (`post`), as cards and as plain texts. Rich texts and cards show Markdown themselves.

use serde_json::{Value, json};

use super::MESSAGE_LENGTH;
use crate::light_markup::LightMarkup;
use crate::split::{Unit, split};

/// Longest message with characters of several bytes. Feishu limits the bytes of a rich text to 30 kB.
const WIDE_LENGTH: usize = 6_000;
/// The element of a card that has its text.
pub(super) const TEXT_ELEMENT: &str = "text";
/// Tags that would notify people, or show somebody's name.
const TAGS: [&str; 2] = ["at", "person"];

/// Texts for one message each.
pub(super) fn chunks(content: &str) -> Vec<String> {
    let limit = if content.is_ascii() { MESSAGE_LENGTH } else { WIDE_LENGTH };
    split(&without_tags(content), limit, Unit::Chars)
}

/// The content of a rich text.
pub(super) fn post_content(text: &str) -> String {
    json!({ "zh_cn": { "content": [[{ "tag": "md", "text": text }]] } }).to_string()
}

/// The content of a plain text, for a text that Feishu does not accept as a rich one.
pub(super) fn plain_content(text: &str) -> String {
    json!({ "text": LightMarkup::PLAIN.convert(text) }).to_string()
}

/// A card (JSON 2.0) with a text, and further elements below it.
pub(super) fn card(text: &str, below: Vec<Value>) -> Value {
    let mut elements = vec![json!({ "tag": "markdown", "element_id": TEXT_ELEMENT, "content": text })];
    elements.extend(below);
    json!({ "schema": "2.0", "config": { "update_multi": true }, "body": { "elements": elements } })
}

/// A card whose text grows.
pub(super) fn streaming_card(text: &str) -> Value {
    let mut card = card(text, Vec::new());
    card["config"]["streaming_mode"] = true.into();
    card
}

/// Breaks the tags that mention people: a text of an agent notifies nobody, and never everybody.
pub(super) fn without_tags(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at + 1);
        safe.push_str(before);
        let name = tag.trim_start_matches(['/', ' ']);
        let is_tag = TAGS.iter().any(|known| {
            name.get(..known.len()).is_some_and(|start| start.eq_ignore_ascii_case(known))
                && !name[known.len()..].starts_with(|next: char| next.is_ascii_alphanumeric())
        });
        if is_tag {
            safe.push('\u{200b}');
        }
        rest = tag;
    }
    safe.push_str(rest);
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_mentions_nobody() {
        for (written, shown) in [
            (r#"<at user_id="all"></at>"#, "<\u{200b}at user_id=\"all\"><\u{200b}/at>"),
            ("<AT id=all>", "<\u{200b}AT id=all>"),
            ("a < b, <atom>, 1<2", "a < b, <atom>, 1<2"),
            ("<person id='x'>", "<\u{200b}person id='x'>"),
            ("<", "<"),
        ] {
            assert_eq!(without_tags(written), shown);
        }
    }

    #[test]
    fn a_long_text_becomes_several_messages_within_the_limit_of_bytes() {
        for text in ["x".repeat(20_000), "汉".repeat(20_000), "\"\n".repeat(10_000), "🦉".repeat(20_000)] {
            let chunks = chunks(&text);
            assert!(chunks.iter().all(|chunk| post_content(chunk).len() < 30_000));
        }
    }
}

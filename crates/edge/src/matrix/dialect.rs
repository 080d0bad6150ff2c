//! Contents of Matrix messages: the agent's Markdown as plain text, and as HTML for clients that show it.

use serde_json::{Value, json};

use crate::safe_html::{HtmlDialect, to_html};
use crate::split::{Unit, split};

/// Longest message, in characters.
pub(super) const MESSAGE_LENGTH: usize = 16_000;
/// Shortest limit to which a text is cut because its content would be too large.
const SHORTEST_LIMIT: usize = 500;
/// Largest content of an event, in bytes. The whole event has at most 65,536, with its head and signatures.
const LARGEST_CONTENT: usize = 56_000;

/// Texts for one message each. They are short enough that their content fits into an event, also as an edit.
fn chunks(markdown: &str) -> Vec<String> {
    let mut limit = MESSAGE_LENGTH;
    loop {
        let chunks = split(markdown, limit, Unit::Chars);
        let fits = |chunk: &String| {
            // An edit repeats the text.
            let edit = edit_of("$0", text_content(chunk, "m.text"));
            edit.to_string().len() <= LARGEST_CONTENT
        };
        if limit <= SHORTEST_LIMIT || chunks.iter().all(fits) {
            return chunks;
        }
        limit /= 2;
    }
}

/// The content of a text message. The mark keeps other bots from answering it.
pub(super) fn text_content(markdown: &str, kind: &str) -> Value {
    let mut content = json!({ "msgtype": kind, "body": markdown, "org.matrix.msc1767.automated": true,
        "m.mentions": {} });
    let html = to_html(markdown, HtmlDialect::Matrix).filter(|html| html.len() <= LARGEST_CONTENT / 2);
    // A paragraph without any markup says no more than the body.
    if let Some(html) = html.filter(|html| !is_plain(html, markdown)) {
        content["format"] = "org.matrix.custom.html".into();
        content["formatted_body"] = html.into();
    }
    content
}

fn is_plain(html: &str, markdown: &str) -> bool {
    let inner = html.strip_prefix("<p>").and_then(|html| html.strip_suffix("</p>"));
    inner.is_some_and(|inner| inner == markdown.trim())
}

/// The content of an edit. Clients that know no edits show the text with an asterisk.
pub(super) fn edit_of(message: &str, new_content: Value) -> Value {
    let body = format!("* {}", new_content["body"].as_str().unwrap_or_default());
    json!({ "msgtype": new_content["msgtype"], "body": body, "org.matrix.msc1767.automated": true,
        "m.mentions": {}, "m.new_content": new_content,
        "m.relates_to": { "rel_type": "m.replace", "event_id": message } })
}

/// The contents of one message each.
pub(super) fn text_contents(markdown: &str) -> Vec<Value> {
    chunks(markdown).iter().map(|chunk| text_content(chunk, "m.text")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::measure;

    #[test]
    fn plain_words_have_no_html_and_marks_have() {
        assert_eq!(text_content("hello", "m.text").get("formatted_body"), None);
        let content = text_content("**hello** <b>", "m.text");
        assert_eq!(content["body"], "**hello** <b>");
        assert_eq!(content["formatted_body"], "<p><strong>hello</strong> &lt;b&gt;</p>");
        assert_eq!(text_content("a & b", "m.text")["formatted_body"], "<p>a &amp; b</p>");
    }

    #[test]
    fn every_chunk_fits_into_an_event_also_as_an_edit() {
        for word in ["plain ", "<&>\"' ", "🎈🎈🎈 ", "**a** ", "\u{1}\u{1} "] {
            let long = word.repeat(40_000 / word.chars().count());
            let cut = chunks(&long);
            for chunk in &cut {
                assert!(measure(chunk, Unit::Chars) <= MESSAGE_LENGTH);
                let edit = edit_of("$0", text_content(chunk, "m.text"));
                assert!(edit.to_string().len() <= LARGEST_CONTENT, "{word}: {}", edit.to_string().len());
            }
        }
    }
}

//! Normalization of WeCom's callbacks: messages, menu clicks and presses of card buttons as events.

mod ai_bot;
mod app;

use posthouse_wire::MessageType;

pub(super) use ai_bot::ai_bot;
pub(super) use app::app;

/// Longest id of a person, a chat or a message, in bytes. WeCom's own are far shorter.
const LONGEST_ID: usize = 256;

/// An id that can be a part of a chat's id and of keys.
fn id(text: &str) -> Option<&str> {
    let is_plain = (1..=LONGEST_ID).contains(&text.len()) && !text.chars().any(char::is_control);
    is_plain.then_some(text)
}

fn kind_of_text(text: &str) -> MessageType {
    if text.starts_with('/') { MessageType::Command } else { MessageType::Text }
}

//! Reactions. Telegram accepts only some emoji, and one reaction of a bot per message.

use posthouse_wire::{ChatId, MessageId, Outcome};
use serde::Serialize;

use super::{IgnoredResult, TelegramCalls, chat};
use crate::platform_calls::{CallFailure, RepeatRule};
use crate::telegram::LABEL;

#[derive(Serialize)]
struct SetMessageReaction<'a> {
    chat_id: i64,
    message_id: i64,
    reaction: Vec<Reaction<'a>>,
}

#[derive(Serialize)]
struct Reaction<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    emoji: &'a str,
}

/// The accepted emoji that is nearest in meaning. Stock agents mark the end of their work with the first two.
fn accepted(emoji: &str) -> &str {
    match emoji.trim_end_matches('\u{fe0f}') {
        "✅" | "✔" => "👌",
        "❌" | "✖" => "👎",
        other => other,
    }
}

impl TelegramCalls<'_> {
    pub(super) async fn react(
        &mut self,
        chat_id: &ChatId,
        message: &MessageId,
        emoji: &str,
        remove: bool,
    ) -> Outcome {
        let chat_id = match chat(chat_id) {
            Ok(chat) => chat,
            Err(error) => return Outcome::failed(error),
        };
        let Ok(message_id) = message.as_str().parse() else { return Outcome::failed("message not found") };
        let reaction = match remove {
            true => Vec::new(),
            false => vec![Reaction { kind: "emoji", emoji: accepted(emoji) }],
        };
        let params = SetMessageReaction { chat_id, message_id, reaction };
        match self.ask::<IgnoredResult>("setMessageReaction", &params, RepeatRule::Harmless).await {
            Ok(_) => Outcome::done(),
            // The reaction was already there, or already gone.
            Err(CallFailure::Refused(refused))
                if refused.says("not modified") || refused.says("not_modified") =>
            {
                Outcome::done()
            }
            Err(failure) => Outcome::failed(failure.error(LABEL)),
        }
    }
}

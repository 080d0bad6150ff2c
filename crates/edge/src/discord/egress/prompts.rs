//! Prompts on Discord: messages with buttons.

use http::Method;
use posthouse_wire::action::{Metadata, PromptOption};
use posthouse_wire::{ChatId, MessageId, Outcome, PromptId, PromptToken};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::calls::DiscordCalls;
use super::snowflake;
use crate::bots::OpenedBot;
use crate::discord::api::DiscordCall;
use crate::discord::{CALLBACK_WITHIN, Discord, LABEL};

/// Buttons in one row, and rows below one message.
const IN_A_ROW: usize = 5;
const ROWS: usize = 5;
const LONGEST_LABEL: usize = 80;
const ROW: u8 = 1;
const BUTTON: u8 = 2;
const GREY: u8 = 2;

/// The rows of buttons. `None` if there are too many, or if a payload does not fit.
fn rows(prompt: &PromptId, options: &[PromptOption]) -> Option<Value> {
    if options.len() > IN_A_ROW * ROWS {
        return None;
    }
    let button = |option: &PromptOption| {
        let token = PromptToken { prompt: prompt.clone(), option: option.id.clone() };
        let label: String = option.label.chars().take(LONGEST_LABEL).collect();
        Some(json!({ "type": BUTTON, "style": GREY, "label": label, "custom_id": token.encode()? }))
    };
    let buttons: Vec<Value> = options.iter().map(button).collect::<Option<_>>()?;
    Some(buttons.chunks(IN_A_ROW).map(|row| json!({ "type": ROW, "components": row })).collect())
}

impl DiscordCalls<'_> {
    /// Sends the question. The buttons are below its last message, which the outcome names.
    pub(super) async fn prompt(
        &mut self,
        chat: &ChatId,
        (prompt, options): (&PromptId, &[PromptOption]),
        content: &str,
        reply_to: Option<&MessageId>,
        metadata: &Metadata,
    ) -> Outcome {
        match rows(prompt, options) {
            Some(rows) => self.send(chat, content, reply_to, metadata, Some(rows)).await,
            None => Outcome::failed(
                "malformed prompt: it has too many options, or an id does not fit into a button",
            ),
        }
    }
}

/// Takes the buttons away from a message.
pub(in crate::discord) async fn close(
    discord: &Discord,
    bot: &OpenedBot,
    chat: &ChatId,
    message: &MessageId,
) {
    let (Some(channel), Some(message)) = (snowflake(chat.as_str()), snowflake(message.as_str())) else {
        return;
    };
    let path = format!("/channels/{channel}/messages/{message}");
    let call = DiscordCall::new(Method::PATCH, "PATCH /channels/ID/messages/ID", path)
        .of(channel)
        .json(json!({ "components": [] }));
    if let Err(failure) = discord.call::<IgnoredAny>(bot, call, CALLBACK_WITHIN).await {
        tracing::debug!(bot.id = %bot.id, "could not take the buttons of a prompt away: {}", failure.cause(LABEL));
    }
}

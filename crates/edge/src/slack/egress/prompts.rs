//! Prompts on Slack: messages with buttons (Block Kit).

use posthouse_wire::action::{PromptOption, PromptStyle};
use posthouse_wire::{ChatId, MessageId, Outcome, PromptId, PromptToken};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::calls::SlackCalls;
use super::{SlackPlace, channel_id, message_time};
use crate::bots::OpenedBot;
use crate::slack::api::WebApiCall;
use crate::slack::{ANSWER_WITHIN, LABEL, Slack};

/// Most buttons of one message.
const BUTTONS: usize = 25;
const LONGEST_LABEL: usize = 75;
/// Longest text of a section, in characters.
const SECTION_LENGTH: usize = 3000;

/// The row of buttons. `None` if there are too many, or if a payload does not fit.
fn buttons(prompt: &PromptId, options: &[PromptOption]) -> Option<Value> {
    if options.len() > BUTTONS {
        return None;
    }
    let button = |option: &PromptOption| {
        let token = PromptToken { prompt: prompt.clone(), option: option.id.clone() }.encode()?;
        let label: String = option.label.chars().take(LONGEST_LABEL).collect();
        let mut button = json!({ "type": "button", "action_id": token, "value": token,
            "text": { "type": "plain_text", "text": label, "emoji": true } });
        match option.style {
            Some(PromptStyle::Primary) => button["style"] = "primary".into(),
            Some(PromptStyle::Danger) => button["style"] = "danger".into(),
            None => {}
        }
        Some(button)
    };
    let buttons: Vec<Value> = options.iter().map(button).collect::<Option<_>>()?;
    Some(json!({ "type": "actions", "elements": buttons }))
}

fn section(text: &str) -> Value {
    json!({ "type": "section", "text": { "type": "mrkdwn", "text": text } })
}

impl SlackCalls<'_> {
    /// Sends the question. The buttons are below its last message, which the outcome names.
    pub(super) async fn prompt(
        &mut self,
        place: &SlackPlace,
        (prompt, options): (&PromptId, &[PromptOption]),
        content: &str,
    ) -> Outcome {
        let Some(buttons) = buttons(prompt, options) else {
            return Outcome::failed(
                "malformed prompt: it has too many options, or an id does not fit into a button",
            );
        };
        let chunks = self.slack.chunks(self.bot, content, SECTION_LENGTH).await;
        let Some(last) = chunks.last().cloned() else { return Outcome::failed("message text is empty") };
        let outcome = self.send(place, chunks, Some(json!([section(&last), buttons]))).await;
        if let Some(message) = &outcome.message_id {
            self.slack.prompt_texts.keep(&self.bot.id, &place.channel, message.as_str(), &last);
        }
        outcome
    }
}

/// Takes the buttons away from a message. Its text stays.
pub(in crate::slack) async fn close(slack: &Slack, bot: &OpenedBot, chat: &ChatId, message: &MessageId) {
    let (Some(channel), Some(ts)) = (channel_id(chat.as_str()), message_time(message.as_str())) else {
        return;
    };
    // The press of a button repeats the text of its message, so that it is known also after a restart.
    let Some(text) = slack.prompt_texts.take(&bot.id, channel, ts) else { return };
    let body = json!({ "channel": channel, "ts": ts, "text": text, "blocks": [section(&text)] });
    let call = WebApiCall::json("chat.update", body);
    if let Err(failure) = slack.call::<IgnoredAny>(bot, call, ANSWER_WITHIN).await {
        tracing::debug!(bot.id = %bot.id, "could not take the buttons of a prompt away: {}", failure.cause(LABEL));
    }
}

//! Template cards: the buttons of a prompt, and their end after somebody has chosen.

use std::time::Duration;

use moka::sync::Cache;
use posthouse_wire::action::{PromptOption, PromptStyle};
use posthouse_wire::{BotId, MessageId, PromptId, PromptToken, Secret};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::api::WeComCall;
use super::{AGENT, WeCom};
use crate::bots::OpenedBot;

const MOST_BUTTONS: usize = 6;
/// Longest text of a card, in characters. A longer question is a message of its own above the card.
pub(super) const LONGEST_QUESTION: usize = 112;
/// Longest text of a button, in characters. WeCom shows fewer on a narrow screen.
const LONGEST_LABEL: usize = 32;
const CLOSED: &str = "Answered";
const CLOSED_WITHIN: Duration = Duration::from_secs(10);
/// Time for which WeCom accepts the code of a card.
const CODE_LIFETIME: Duration = Duration::from_secs(259_200);

/// The codes of sent cards, with which their buttons can be taken away. Clones share one state.
#[derive(Clone)]
pub(super) struct SentCards(Cache<(BotId, String), Secret>);

impl Default for SentCards {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(10_000).time_to_live(CODE_LIFETIME).build())
    }
}

impl SentCards {
    pub fn note(&self, bot: &BotId, message: &str, code: Secret) {
        self.0.insert((bot.clone(), message.to_owned()), code);
    }
}

/// The card of a prompt. `None` if there are too many options, or if the payload of one does not fit.
pub(super) fn card(prompt: &PromptId, options: &[PromptOption], question: &str, task: &str) -> Option<Value> {
    if !(1..=MOST_BUTTONS).contains(&options.len()) {
        return None;
    }
    let button = |(at, option): (usize, &PromptOption)| {
        let key = PromptToken { prompt: prompt.clone(), option: option.id.clone() }.encode()?;
        let label: String = option.label.trim().chars().take(LONGEST_LABEL).collect();
        let label = if label.is_empty() { (at + 1).to_string() } else { label };
        let style = match option.style {
            Some(PromptStyle::Danger) => 3,
            Some(PromptStyle::Primary) => 1,
            _ => 2,
        };
        Some(json!({ "text": label, "style": style, "key": key }))
    };
    let buttons: Vec<Value> = options.iter().enumerate().map(button).collect::<Option<_>>()?;
    Some(json!({
        "card_type": "button_interaction",
        "main_title": { "title": question },
        "button_list": buttons,
        "task_id": task,
    }))
}

/// The body of a call that replaces the buttons of a card by one that does nothing.
pub(super) fn closed_card(bot: &OpenedBot, code: &Secret, label: &str) -> Option<Value> {
    let agent: u64 = bot.setting(AGENT)?.parse().ok()?;
    Some(json!({
        "atall": 1, "agentid": agent, "response_code": code.expose(), "button": { "replace_name": label },
    }))
}

/// Takes the buttons away from a card that has its answer. A failure has no consequences.
pub(super) async fn close(wecom: &WeCom, bot: &OpenedBot, message: &MessageId) {
    let Some(code) = wecom.cards.0.remove(&(bot.id.clone(), message.to_string())) else { return };
    let Some(body) = closed_card(bot, &code, CLOSED) else { return };
    let call = WeComCall::post("message/update_template_card", body);
    if let Err(failure) = wecom.call::<IgnoredAny>(bot, call, CLOSED_WITHIN).await {
        tracing::debug!(bot.id = %bot.id, "could not close a card: {}", failure.cause(super::LABEL));
    }
}

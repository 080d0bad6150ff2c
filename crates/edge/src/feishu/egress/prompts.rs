//! Prompts on Feishu: cards with buttons.

use http::Method;
use posthouse_wire::action::{PromptOption, PromptStyle};
use posthouse_wire::{ChatId, MessageId, Outcome, PromptId, PromptToken};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::calls::{FeishuCalls, FeishuTarget};
use crate::bots::OpenedBot;
use crate::feishu::api::{FeishuCall, is_path_part};
use crate::feishu::post_text::card;
use crate::feishu::{ANSWER_WITHIN, Feishu, LABEL};

/// The field of a button's value that has its payload.
pub(in crate::feishu) const PRESSED: &str = "posthouse";
/// Most buttons of one message.
const BUTTONS: usize = 25;
const LONGEST_LABEL: usize = 75;

/// The buttons, one below the other. `None` if there are too many, or if a payload does not fit.
fn buttons(prompt: &PromptId, options: &[PromptOption]) -> Option<Vec<Value>> {
    if options.len() > BUTTONS {
        return None;
    }
    let button = |option: &PromptOption| {
        let token = PromptToken { prompt: prompt.clone(), option: option.id.clone() }.encode()?;
        let label: String = option.label.chars().take(LONGEST_LABEL).collect();
        let style = match option.style {
            Some(PromptStyle::Primary) => "primary",
            Some(PromptStyle::Danger) => "danger",
            None => "default",
        };
        Some(json!({ "tag": "button", "type": style, "text": { "tag": "plain_text", "content": label },
            "behaviors": [{ "type": "callback", "value": { PRESSED: token } }] }))
    };
    options.iter().map(button).collect()
}

impl FeishuCalls<'_> {
    /// Sends the question. The buttons are below its last message, which the outcome names.
    pub(super) async fn prompt(
        &mut self,
        target: &FeishuTarget,
        (prompt, options): (&PromptId, &[PromptOption]),
        content: &str,
    ) -> Outcome {
        let Some(buttons) = buttons(prompt, options) else {
            return Outcome::failed(
                "malformed prompt: it has too many options, or an id does not fit into a button",
            );
        };
        let chunks = self.chunks(content).await;
        let Some((last, before)) = chunks.split_last() else {
            return Outcome::failed("message text is empty");
        };
        if !before.is_empty() {
            let sent = self.send(target, before).await;
            if !sent.success {
                return sent;
            }
        }
        match self.post(target, "interactive", &card(last, buttons).to_string()).await {
            Ok(message) => {
                let key = (self.bot.id.clone(), message.clone());
                self.feishu.prompt_texts.insert(key, last.clone());
                Outcome::sent(message.into())
            }
            Err(failure) => super::failed(&failure, before.len(), chunks.len()),
        }
    }
}

/// Takes the buttons away from a card. Its text stays.
pub(in crate::feishu) async fn close(feishu: &Feishu, bot: &OpenedBot, _chat: &ChatId, message: &MessageId) {
    let id = message.as_str();
    // Only a prompt that this server has sent is known here, so that no other message can be meant.
    let text = feishu.prompt_texts.remove(&(bot.id.clone(), id.to_owned()));
    let Some(text) = text.filter(|_| is_path_part(id)) else { return };
    let body = json!({ "content": card(&text, Vec::new()).to_string() });
    let call = FeishuCall::json("PATCH messages", Method::PATCH, format!("/im/v1/messages/{id}"), body);
    if let Err(failure) = feishu.call::<IgnoredAny>(bot, &call, ANSWER_WITHIN).await {
        tracing::debug!(bot.id = %bot.id, "could not take the buttons of a prompt away: {}", failure.cause(LABEL));
    }
}

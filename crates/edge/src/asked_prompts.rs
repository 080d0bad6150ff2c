//! Prompts of agents: which agent asked under which message, and what a press of a button becomes.
//!
//! A payload proves nothing, because anybody can write one. A press counts only for a prompt that this server has shown,
//! and only for the agent that asked (relay contract sections 9.1 and 11.2).

use std::sync::Arc;

use ledger::{BotRef, Prompts, ShownPrompt};
use posthouse_wire::{Action, Event, InstanceId, MessageId, MessageType, PromptResponse, PromptToken};
use relay::Order;

use crate::Fault;

/// The prompts of all agents.
#[derive(Clone)]
pub(crate) struct AskedPrompts(Arc<dyn Prompts>);

/// The decision about a press.
pub(crate) enum PressVerdict {
    /// It answers a prompt of this agent. The event now says so.
    Answer(Box<ShownPrompt>),
    /// The prompt was not shown here, has expired, or is another agent's; or the option is none of its own.
    Unknown,
    /// The prompt already has an answer.
    Answered,
}

impl AskedPrompts {
    pub fn new(records: Arc<dyn Prompts>) -> Self {
        Self(records)
    }

    /// The prompt of an order, before a platform shows it. Its message is not known yet.
    pub fn of(order: &Order) -> Option<ShownPrompt> {
        let Action::Prompt { chat_id, prompt_id, options, .. } = &order.action else { return None };
        Some(ShownPrompt {
            on: order.on.clone(),
            chat: chat_id.clone(),
            message: MessageId::new(""),
            prompt: prompt_id.clone(),
            instance: order.instance.clone(),
            options: options.iter().map(|option| (option.id.clone(), option.label.clone())).collect(),
            pressed: None,
        })
    }

    /// Records that a prompt is shown in this message.
    pub async fn shown(&self, prompt: ShownPrompt, message: MessageId) -> Result<(), Fault> {
        Ok(self.0.show(ShownPrompt { message, ..prompt }).await?)
    }

    /// Turns the event of a press into the answer to its prompt, if `to` is the agent that asked.
    pub async fn judge(
        &self,
        on: &BotRef,
        to: &InstanceId,
        token: &PromptToken,
        event: &mut Event,
    ) -> Result<PressVerdict, Fault> {
        let (Some(chat), Some(message)) = (&event.source.chat_id, event.message_id.clone()) else {
            return Ok(PressVerdict::Unknown);
        };
        let found = self.0.prompt(on, chat, &message).await?;
        let asked = found.filter(|prompt| prompt.prompt == token.prompt && prompt.instance == *to);
        let Some(prompt) = asked else { return Ok(PressVerdict::Unknown) };
        let Some(label) = prompt.label(&token.option).map(str::to_owned) else {
            return Ok(PressVerdict::Unknown);
        };
        if prompt.pressed.is_some() {
            return Ok(PressVerdict::Answered);
        }
        // An older agent reads the press as a typed command.
        event.text = format!("/{}", token.option);
        event.message_type = MessageType::Command;
        event.prompt_response = Some(Box::new(PromptResponse {
            prompt_id: token.prompt.to_string(),
            option_id: token.option.to_string(),
            label: Some(label),
            prompt_message_id: Some(message),
        }));
        Ok(PressVerdict::Answer(Box::new(prompt)))
    }

    /// Records the answer, after the press is stored. A repeat of the same press may be handed over before that.
    pub async fn answered(&self, prompt: &ShownPrompt, token: &PromptToken) -> Result<(), Fault> {
        self.0.press(&prompt.on, &prompt.chat, &prompt.message, &token.option).await?;
        Ok(())
    }
}

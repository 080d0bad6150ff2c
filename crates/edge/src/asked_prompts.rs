//! Prompts of agents: which agent asked under which message, and what a press of a button becomes.
//!
//! A payload proves nothing, because anybody can write one. A press counts only for a prompt that this server has shown,
//! and only for the agent that asked (relay contract sections 9.1 and 11.2).

use std::sync::Arc;

use identity::{Admitted, Gate, IncomingMessage};
use ledger::{Prompts, ShownPrompt};
use posthouse_wire::{Action, Event, MessageId, MessageType, PromptResponse, PromptToken};
use relay::PermittedAction;

use crate::Fault;

/// The prompts of all agents.
#[derive(Clone)]
pub(crate) struct AskedPrompts(Arc<dyn Prompts>);

/// The decision about a press.
pub(crate) enum PressVerdict {
    /// It answers this prompt. The presser is admitted to the agent that asked.
    Answer(Admitted, Box<ShownPrompt>),
    /// The prompt was not shown here, has expired, or is of an agent that the presser is not admitted to; or it has
    /// no such option.
    Unknown,
    /// The prompt already has an answer.
    Answered,
}

impl AskedPrompts {
    pub fn new(records: Arc<dyn Prompts>) -> Self {
        Self(records)
    }

    /// The prompt of an action, before a platform shows it. Its message is not known yet.
    pub fn of(permitted: &PermittedAction) -> Option<ShownPrompt> {
        let Action::Prompt { chat_id, prompt_id, options, .. } = &permitted.action else { return None };
        Some(ShownPrompt {
            on: permitted.on.clone(),
            chat: chat_id.clone(),
            message: MessageId::new(""),
            prompt: prompt_id.clone(),
            instance: permitted.instance.clone(),
            options: options.iter().map(|option| (option.id.clone(), option.label.clone())).collect(),
            pressed: None,
        })
    }

    /// Records that a prompt is shown in this message.
    pub async fn shown(&self, prompt: ShownPrompt, message: MessageId) -> Result<(), Fault> {
        Ok(self.0.show(ShownPrompt { message, ..prompt }).await?)
    }

    /// Decides about a press by somebody whom the gate has admitted to some agent. The agent that asked gets it if the
    /// gate admits the presser to that agent too.
    pub async fn judge(
        &self,
        gate: &Gate,
        incoming: IncomingMessage<'_>,
        admitted: Admitted,
        message: Option<&MessageId>,
        token: &PromptToken,
    ) -> Result<PressVerdict, Fault> {
        let (Some(chat), Some(message)) = (&incoming.origin.source.chat_id, message) else {
            return Ok(PressVerdict::Unknown);
        };
        let found = self.0.prompt(incoming.on, chat, message).await?;
        let Some(prompt) = found.filter(|prompt| prompt.prompt == token.prompt) else {
            return Ok(PressVerdict::Unknown);
        };
        let admitted = match admitted.to().instance == prompt.instance {
            true => Some(admitted),
            // People with several agents press the buttons of all of them.
            false => gate.admit_to(&prompt.instance, incoming).await?,
        };
        // Whether another agent's prompt has this option, or its answer, is nothing that others learn.
        let (Some(admitted), true) = (admitted, prompt.label(&token.option).is_some()) else {
            return Ok(PressVerdict::Unknown);
        };
        if prompt.pressed.is_some() {
            return Ok(PressVerdict::Answered);
        }
        Ok(PressVerdict::Answer(admitted, Box::new(prompt)))
    }

    /// Turns the event of a press into the answer to its prompt.
    pub fn write_answer(prompt: &ShownPrompt, token: &PromptToken, event: &mut Event) {
        // An older agent reads the press as a typed command.
        event.text = format!("/{}", token.option);
        event.message_type = MessageType::Command;
        event.prompt_response = Some(Box::new(PromptResponse {
            prompt_id: token.prompt.to_string(),
            option_id: token.option.to_string(),
            label: prompt.label(&token.option).map(str::to_owned),
            prompt_message_id: Some(prompt.message.clone()),
        }));
    }

    /// Records the answer, after the press is stored. A repeat of the same press may be handed over before that.
    pub async fn answered(&self, prompt: &ShownPrompt, token: &PromptToken) -> Result<(), Fault> {
        self.0.press(prompt, &token.option).await?;
        Ok(())
    }
}

//! Prompts: questions with buttons that agents have shown, and who asked them.

use async_trait::async_trait;
use posthouse_wire::{ChatId, InstanceId, MessageId, PromptId, PromptOptionId};

use crate::{BotRef, Fault};

/// The largest number of stored prompts of one agent. The oldest is deleted first.
pub const PROMPTS_OF_AN_AGENT: u32 = 500;

/// A message with buttons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownPrompt {
    pub on: BotRef,
    pub chat: ChatId,
    pub message: MessageId,
    pub prompt: PromptId,
    /// The agent that asked.
    pub instance: InstanceId,
    /// The buttons: id and text of each.
    pub options: Vec<(PromptOptionId, String)>,
    /// The button that was pressed first.
    pub pressed: Option<PromptOptionId>,
}

impl ShownPrompt {
    /// The text on the button with this id.
    pub fn label(&self, option: &PromptOptionId) -> Option<&str> {
        self.options.iter().find(|(id, _)| id == option).map(|(_, label)| label.as_str())
    }
}

#[async_trait]
pub trait Prompts: Send + Sync {
    /// Records a prompt. The same message again changes nothing. Past [`PROMPTS_OF_AN_AGENT`] the oldest of the agent
    /// are deleted.
    async fn show(&self, prompt: ShownPrompt) -> Result<(), Fault>;
    /// The prompt of this message.
    async fn prompt(
        &self,
        on: &BotRef,
        chat: &ChatId,
        message: &MessageId,
    ) -> Result<Option<ShownPrompt>, Fault>;
    /// All prompts of a chat.
    async fn prompts_in(&self, on: &BotRef, chat: &ChatId) -> Result<Vec<ShownPrompt>, Fault>;
    /// Records the first press. False when one was recorded before, or when there is no such prompt.
    async fn press(&self, prompt: &ShownPrompt, option: &PromptOptionId) -> Result<bool, Fault>;
}

//! Interactions: the commands that gateways announce, and how an agent gets the presses and commands of people.

use std::str::FromStr;

use async_trait::async_trait;
use posthouse_wire::InstanceId;

use crate::{BotRef, Fault};

/// The largest number of bots for which the commands of one agent are stored. Of further bots nothing is stored.
pub const MANIFESTS_OF_AN_AGENT: u32 = 32;

/// How an agent gets interactions, such as slash commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InteractionMode {
    /// As ordinary events.
    #[default]
    Inbound,
    /// As the platform sent them, sanitized.
    Passthrough,
}

impl InteractionMode {
    pub fn as_str(self) -> &'static str {
        match self {
            InteractionMode::Inbound => "inbound",
            InteractionMode::Passthrough => "passthrough",
        }
    }
}

impl FromStr for InteractionMode {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        [InteractionMode::Inbound, InteractionMode::Passthrough]
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or(())
    }
}

#[async_trait]
pub trait Interactions: Send + Sync {
    async fn set_interaction_mode(&self, of: &InstanceId, mode: InteractionMode) -> Result<(), Fault>;
    async fn interaction_mode(&self, of: &InstanceId) -> Result<InteractionMode, Fault>;
    /// Stores the commands that an agent announced for a bot, as JSON, if they differ from the stored ones. True when
    /// they were stored.
    async fn keep_manifest(&self, of: &InstanceId, on: &BotRef, manifest: &str) -> Result<bool, Fault>;
    /// The stored commands of an agent, by bot.
    async fn manifests(&self, of: &InstanceId) -> Result<Vec<(BotRef, String)>, Fault>;
}

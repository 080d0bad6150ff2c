//! Bots whose credential their platform does not accept, and the replacement of credentials.

use async_trait::async_trait;
use posthouse_time::Moment;

use crate::{BotRef, Fault, Sealed};

/// A bot that cannot be used until its platform accepts its credential again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadBot {
    pub bot: BotRef,
    pub since: Moment,
    /// The platform's refusal, for the operator.
    pub why: String,
}

#[async_trait]
pub trait DeadBots: Send + Sync {
    /// Marks a bot as dead. A bot that is dead already keeps its first mark. False when there is no such bot.
    async fn mark_dead(&self, dead: DeadBot) -> Result<bool, Fault>;
    /// Removes the mark. Repeating it is harmless.
    async fn mark_working(&self, bot: &BotRef) -> Result<(), Fault>;
    async fn dead_bots(&self) -> Result<Vec<DeadBot>, Fault>;
    /// Replaces these secrets of a bot and removes its mark: all of it or nothing. False when there is no such bot.
    async fn replace_credentials(&self, bot: &BotRef, secrets: Vec<(String, Sealed)>) -> Result<bool, Fault>;
}

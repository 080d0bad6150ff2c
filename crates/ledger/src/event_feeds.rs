//! Event feeds of bots: the position of each feed, and the keys of events that a platform reports more than once.

use async_trait::async_trait;
use posthouse_wire::{DedupKey, TenantId};

use crate::{BotRef, Fault};

#[async_trait]
pub trait EventFeeds: Send + Sync {
    /// The last saved position of a bot's feed.
    async fn feed_cursor(&self, of: &BotRef) -> Result<Option<String>, Fault>;
    /// Replaces the position, or removes it. Does nothing if there is no such bot.
    async fn save_feed_cursor(&self, of: &BotRef, cursor: Option<&str>) -> Result<(), Fault>;
    /// The key under which to store an event that has `key` and `others`: the key of the first event that shared one of
    /// them, or else `key`. For a day, repeating the call returns the same key.
    async fn first_key(&self, on: &BotRef, key: &DedupKey, others: &[DedupKey]) -> Result<DedupKey, Fault>;
    /// The commands that agents announced for a bot, of at most so many agents. Only agents that use the bot now count.
    /// Tenants take turns: first comes the first agent of each, then the second of each.
    async fn announced_commands(&self, on: &BotRef, at_most: u32) -> Result<Vec<AgentManifest>, Fault>;
    /// Whether the server has registered commands at the bot's platform and not withdrawn them.
    async fn has_registered_commands(&self, on: &BotRef) -> Result<bool, Fault>;
    /// Notes that it has, or has not. Does nothing if there is no such bot.
    async fn note_registered_commands(&self, on: &BotRef, registered: bool) -> Result<(), Fault>;
}

/// The commands that one agent announced for a bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentManifest {
    pub tenant: TenantId,
    /// JSON.
    pub manifest: String,
}

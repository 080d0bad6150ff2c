//! Interactions: the commands that gateways announce.

use async_trait::async_trait;
use posthouse_wire::InstanceId;

use crate::{BotRef, Fault};

/// The largest number of bots for which the commands of one agent are stored. Of further bots nothing is stored.
pub const MANIFESTS_OF_AN_AGENT: u32 = 32;

#[async_trait]
pub trait Interactions: Send + Sync {
    /// Stores the commands that an agent announced for a bot, as JSON, if they differ from the stored ones. True when
    /// they were stored.
    async fn keep_manifest(&self, of: &InstanceId, on: &BotRef, manifest: &str) -> Result<bool, Fault>;
    /// The stored commands of an agent, by bot.
    async fn manifests(&self, of: &InstanceId) -> Result<Vec<(BotRef, String)>, Fault>;
}

//! Relevance policies: which messages of groups an agent wants.

use async_trait::async_trait;
use posthouse_wire::{InstanceId, Platform};

use crate::Fault;

/// Platforms for which one agent can declare a policy.
pub const PLATFORMS_OF_AN_AGENT: u32 = 32;

/// Which messages of groups an agent wants on one platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelevancePolicy {
    /// Only messages that are addressed to the bot.
    pub require_address: bool,
    /// Chats and scopes, such as guilds, in which every message is wanted.
    pub free_scopes: Vec<String>,
    /// Messages of other bots too.
    pub allow_other_bots: bool,
}

#[async_trait]
pub trait RelevancePolicies: Send + Sync {
    /// Replaces the policy of an agent for a platform. False when there is no such agent, or when it has policies for
    /// too many platforms.
    async fn declare_relevance(
        &self,
        of: &InstanceId,
        on: &Platform,
        policy: RelevancePolicy,
    ) -> Result<bool, Fault>;
    /// The policy of an agent for a platform. `None` when none was declared.
    async fn relevance(&self, of: &InstanceId, on: &Platform) -> Result<Option<RelevancePolicy>, Fault>;
    /// All policies of an agent, by platform.
    async fn relevance_policies(&self, of: &InstanceId) -> Result<Vec<(Platform, RelevancePolicy)>, Fault>;
    /// Deletes all policies of an agent. Repeating it is harmless.
    async fn clear_relevance(&self, of: &InstanceId) -> Result<(), Fault>;
}

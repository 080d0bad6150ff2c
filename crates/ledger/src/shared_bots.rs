//! Shared bots: which tenants may use one, which agents do, and what agents without own settings get.

use async_trait::async_trait;
use posthouse_wire::{InstanceId, Platform, TenantId};

use crate::{BotRef, ChangedPlace, Deprovisioned, Fault};

/// Tenants whose agents may use a shared bot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AdmittedTenant {
    Every,
    One(TenantId),
}

/// Result of letting an agent use a shared bot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseBotResult {
    /// It uses the bot now, or did already.
    Uses,
    /// There is no such bot or agent, the bot is not shared, or its tenant is not admitted. One variant on purpose:
    /// telling these apart would reveal what exists.
    Refused,
}

#[async_trait]
pub trait SharedBots: Send + Sync {
    /// Lets the agents of a tenant, or of every tenant, use a shared bot. False when there is no such shared bot or
    /// tenant. Repeating it is harmless.
    async fn admit_tenant(&self, on: &BotRef, tenant: &AdmittedTenant) -> Result<bool, Fault>;
    /// Takes that back. Agents that are not admitted in another way lose the bot with their claims on it; operator
    /// routes stay. Returns the agents and places that changed. Repeating it is harmless.
    async fn withdraw_tenant(
        &self,
        on: &BotRef,
        tenant: &AdmittedTenant,
    ) -> Result<(Vec<InstanceId>, Vec<ChangedPlace>), Fault>;
    async fn admitted_tenants(&self, on: &BotRef) -> Result<Vec<AdmittedTenant>, Fault>;
    /// The shared bots of a platform that a tenant's agents may use.
    async fn bots_for_tenant(&self, tenant: &TenantId, platform: &Platform) -> Result<Vec<BotRef>, Fault>;
    /// Lets an agent use a shared bot to which its tenant is admitted.
    async fn use_bot(&self, of: &InstanceId, on: &BotRef) -> Result<UseBotResult, Fault>;
    /// Whether agents without a policy of their own get only addressed messages of groups.
    async fn require_address(&self, on: &BotRef) -> Result<bool, Fault>;
    /// False when there is no such bot.
    async fn set_require_address(&self, on: &BotRef, required: bool) -> Result<bool, Fault>;
    /// The agents that use a bot, by a route or without one.
    async fn agents_on(&self, on: &BotRef) -> Result<Vec<InstanceId>, Fault>;
    /// Profile of an agent for events whose route has none.
    async fn profile(&self, of: &InstanceId) -> Result<Option<String>, Fault>;
    async fn set_profile(&self, of: &InstanceId, profile: Option<&str>) -> Result<(), Fault>;
    /// Ends what an agent has on shared bots: links, claims, policies, link codes and the bots themselves. Its
    /// credentials and unused enrolment tokens are revoked; its capabilities, files, prompts, threads, commands and
    /// known chats are deleted; its waiting entries are dropped. The agent stays, with what belongs to others: the
    /// routes of the operator, the rooms of people, the records of what happened, its cron jobs. Repeating it is
    /// harmless.
    async fn deprovision(&self, id: &InstanceId) -> Result<Deprovisioned, Fault>;
}

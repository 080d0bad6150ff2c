//! Sleep: the stop URLs of agents, and the tokens with which a gateway asks to be stopped.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{InstanceId, TenantId};

use crate::{Fault, TokenHash};

/// Tokens of an agent that are valid at once: the current one, and replaced ones until their end.
pub const SLEEP_TOKENS: u32 = 4;

/// An agent that asks to be stopped, found by its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SleepAsker {
    pub instance: InstanceId,
    pub tenant: TenantId,
    pub stop_url: String,
}

#[async_trait]
pub trait SleepRecords: Send + Sync {
    /// Sets the stop URL of an agent. `None` removes it together with the tokens.
    async fn set_stop_url(&self, of: &InstanceId, url: Option<&str>) -> Result<(), Fault>;
    async fn stop_url(&self, of: &InstanceId) -> Result<Option<String>, Fault>;
    /// Adds a token to an agent that has a stop URL. Older tokens end at `overlap_until`. False when there is no such
    /// agent, or when it has no stop URL.
    async fn add_sleep_token(
        &self,
        of: &InstanceId,
        token: TokenHash,
        overlap_until: Moment,
    ) -> Result<bool, Fault>;
    /// The agent of a valid token. `None` also when all gateway credentials of the agent are revoked.
    async fn sleep_asker(&self, token: TokenHash) -> Result<Option<SleepAsker>, Fault>;
}

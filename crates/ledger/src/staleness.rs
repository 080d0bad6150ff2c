//! Staleness: what happens to a message that waited too long for its agent.

use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use posthouse_time::Instant;
use posthouse_wire::{ChatId, EntryId, InstanceId, TenantId, ThreadId};

use crate::{BotRef, Discriminator, Fault};

/// The longest time that a policy can name: the retention of unread entries.
pub const LONGEST_STALE_AFTER: Duration = Duration::from_secs(7 * 24 * 3600);

/// What to do with a message that waited too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StaleAction {
    /// Deliver it like any other.
    Deliver,
    /// Deliver it with a line that says how old it is.
    Mark,
    /// Do not deliver it, and tell its sender.
    Expire,
}

impl StaleAction {
    pub fn as_str(self) -> &'static str {
        match self {
            StaleAction::Deliver => "deliver",
            StaleAction::Mark => "mark",
            StaleAction::Expire => "expire",
        }
    }
}

impl FromStr for StaleAction {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        [StaleAction::Deliver, StaleAction::Mark, StaleAction::Expire]
            .into_iter()
            .find(|action| action.as_str() == text)
            .ok_or(())
    }
}

/// The policy of a route or of an agent. It is copied into an entry when that is appended; later changes do not affect
/// the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StalePolicy {
    /// At least a second, and at most [`LONGEST_STALE_AFTER`].
    pub after: Duration,
    pub action: StaleAction,
}

/// The policy of an entry that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryStaleness {
    pub policy: StalePolicy,
    /// When the entry becomes stale, on the monotonic clock of the timepiece with which the ledger was opened.
    pub due: Instant,
}

/// An entry that expired, with what its sender must be told about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredEntry {
    pub entry: EntryId,
    /// `None` if the agent is gone.
    pub tenant: Option<TenantId>,
    pub instance: InstanceId,
    pub on: BotRef,
    pub chat: ChatId,
    pub thread: Option<ThreadId>,
    /// The chat type of its event.
    pub chat_type: String,
}

/// Policies of routes and agents.
#[async_trait]
pub trait Staleness: Send + Sync {
    /// Sets or removes the policy of a route. False when there is no such route.
    async fn set_route_staleness(
        &self,
        on: &BotRef,
        which: &Discriminator,
        policy: Option<StalePolicy>,
    ) -> Result<bool, Fault>;
    /// Sets or removes the policy of an agent, for routes without one of their own.
    async fn set_agent_staleness(&self, of: &InstanceId, policy: Option<StalePolicy>) -> Result<(), Fault>;
    /// The policy for an event of this bot to this agent: that of the first of `candidates` with a route to the
    /// agent, else that of the agent.
    async fn staleness(
        &self,
        on: &BotRef,
        candidates: &[Discriminator],
        to: &InstanceId,
    ) -> Result<Option<StalePolicy>, Fault>;
    async fn agent_staleness(&self, of: &InstanceId) -> Result<Option<StalePolicy>, Fault>;
    /// All routes with a policy of their own.
    async fn route_policies(&self) -> Result<Vec<(BotRef, Discriminator, StalePolicy)>, Fault>;
}

/// Entries that waited too long.
#[async_trait]
pub trait StaleEntries: Send + Sync {
    /// Agents with at least one waiting entry that is due to expire.
    async fn agents_with_expired(&self) -> Result<Vec<InstanceId>, Fault>;
    /// Ends waiting entries of an agent that are due to expire: only these, or the oldest. Returns those that ended.
    async fn expire(
        &self,
        of: &InstanceId,
        only: Option<Vec<EntryId>>,
        at_most: u16,
    ) -> Result<Vec<ExpiredEntry>, Fault>;
    /// Records that an entry was handed over with a line that says how old it is.
    async fn handed_late(&self, of: &InstanceId, entry: &EntryId) -> Result<(), Fault>;
}

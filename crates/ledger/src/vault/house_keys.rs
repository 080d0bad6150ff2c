//! Keys of the server itself, encrypted: for signing, key derivation and verification.

use async_trait::async_trait;
use posthouse_time::Moment;

use super::Sealed;
use crate::Fault;

/// Purpose of a server key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HouseKeyKind {
    /// Signs fire tokens. Its public half is published.
    Signing,
    /// Per-job keys are derived from it. There is one, and it is never replaced.
    CronMaster,
    /// An external scheduler signs its calls with it.
    Scheduler,
}

impl HouseKeyKind {
    pub fn word(self) -> &'static str {
        match self {
            Self::Signing => "signing",
            Self::CronMaster => "cron_master",
            Self::Scheduler => "scheduler",
        }
    }
}

/// One key of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HouseKey {
    pub kind: HouseKeyKind,
    /// Unique among its kind. The `kid` of a signing key.
    pub name: String,
    pub algorithm: String,
    pub created: Moment,
    /// Start of its use. It may be published before that.
    pub starts: Moment,
    /// End of its validity, by wall time or ledger time, whichever comes first. The newest of its kind has
    /// none.
    pub ends: Option<Moment>,
    pub sealed: Sealed,
}

#[async_trait]
pub trait HouseKeys: Send + Sync {
    /// Oldest first.
    async fn house_keys(&self, kind: HouseKeyKind) -> Result<Vec<HouseKey>, Fault>;
    /// Stores `key` if there is none of its kind. If two callers do this at the same time, both then use the
    /// one that [`HouseKeys::house_keys`] returns.
    async fn begin_house_keys(&self, key: HouseKey) -> Result<(), Fault>;
    /// Stores `key` as the newest of its kind. Older keys end at `older_end`, unless they end before that.
    async fn succeed_house_key(&self, key: HouseKey, older_end: Moment) -> Result<(), Fault>;
    /// Ends all keys of a kind at `end`, unless they end before that. False when there is none.
    async fn end_house_keys(&self, kind: HouseKeyKind, end: Moment) -> Result<bool, Fault>;
    /// Deletes the keys of a kind that have ended by ledger time.
    async fn forget_house_keys(&self, kind: HouseKeyKind) -> Result<(), Fault>;
}

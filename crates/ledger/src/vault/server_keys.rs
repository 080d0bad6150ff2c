//! Keys of the server itself, encrypted: for signing, key derivation and verification.

use async_trait::async_trait;
use posthouse_time::Moment;

use super::Sealed;
use crate::Fault;

/// Purpose of a server key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKeyKind {
    /// Signs fire tokens. Its public half is published.
    Signing,
    /// Per-job keys are derived from it. There is one, and it is never replaced.
    CronMaster,
    /// An external scheduler signs its calls with it.
    Scheduler,
}

impl ServerKeyKind {
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
pub struct ServerKey {
    pub kind: ServerKeyKind,
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
pub trait ServerKeys: Send + Sync {
    /// Oldest first.
    async fn server_keys(&self, kind: ServerKeyKind) -> Result<Vec<ServerKey>, Fault>;
    /// Stores `key` if there is none of its kind. If two callers do this at the same time, both then use the
    /// one that [`ServerKeys::server_keys`] returns.
    async fn begin_server_keys(&self, key: ServerKey) -> Result<(), Fault>;
    /// Stores `key` as the newest of its kind. Older keys end at `older_end`, unless they end before that.
    async fn succeed_server_key(&self, key: ServerKey, older_end: Moment) -> Result<(), Fault>;
    /// Ends all keys of a kind at `end`, unless they end before that. False when there is none.
    async fn end_server_keys(&self, kind: ServerKeyKind, end: Moment) -> Result<bool, Fault>;
    /// Deletes the keys of a kind that have ended by ledger time.
    async fn forget_server_keys(&self, kind: ServerKeyKind) -> Result<(), Fault>;
}

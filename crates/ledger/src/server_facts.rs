//! Named facts about the server, pruning and backup.

use async_trait::async_trait;

use crate::Fault;

/// Small named values, such as the hash of the admin token and the vault's check value of its key.
#[async_trait]
pub trait ServerFacts: Send + Sync {
    async fn fact(&self, name: &'static str) -> Result<Option<String>, Fault>;
    /// Replaces the earlier value.
    async fn set_fact(&self, name: &'static str, value: &str) -> Result<(), Fault>;
    /// Deletes rows past their retention, at most a few hundred of each kind per call. True when there may be
    /// more.
    async fn prune(&self) -> Result<bool, Fault>;
    /// The reason why the disk refused the last write, if it did. Every call of `prune` writes a little, so
    /// this value stays up to date without other writes.
    fn refusal(&self) -> Option<Fault>;
    /// Writes a consistent copy to a file that must not exist yet. The server keeps running.
    async fn backup(&self, to: &std::path::Path) -> Result<(), Fault>;
}

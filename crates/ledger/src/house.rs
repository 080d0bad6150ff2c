//! Facts about the house itself.

use async_trait::async_trait;

use crate::Fault;

/// Small named facts: the hash of the admin token, the vault's proof of its key.
#[async_trait]
pub trait House: Send + Sync {
    async fn fact(&self, name: &'static str) -> Result<Option<String>, Fault>;
    /// Replaces what was there.
    async fn set_fact(&self, name: &'static str, value: &str) -> Result<(), Fault>;
    /// Forgets what is past its keeping, at most a few hundred rows of each kind a call.
    /// True when there may be more.
    async fn prune(&self) -> Result<bool, Fault>;
    /// Writes a consistent copy to a file that must not exist yet, while the house runs.
    async fn backup(&self, to: &std::path::Path) -> Result<(), Fault>;
}

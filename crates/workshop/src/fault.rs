//! Errors of the stores.

use std::io;
use std::path::Path;

/// A store could not do its work. A call that only reads can be repeated. After a failed write, the skill is as before
/// or as written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Fault {
    #[error(transparent)]
    Ledger(#[from] ledger::Fault),
    /// A request to a remote store could not be signed.
    #[error(transparent)]
    Vault(#[from] vault::Fault),
    #[error("{0}")]
    Io(String),
    #[error("the runtime is shutting down")]
    Stopped,
}

impl Fault {
    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        Self::Io(format!("{}: {error}", path.display()))
    }
}

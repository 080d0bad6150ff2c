//! Errors of the relay.

/// An internal error while serving agents.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Fault {
    #[error(transparent)]
    Ledger(#[from] ledger::Fault),
    #[error(transparent)]
    Identity(#[from] identity::Fault),
    /// A file could not be written or read.
    #[error("could not use a file: {0}")]
    Disk(String),
}

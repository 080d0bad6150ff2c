//! Internal errors of the edge.

/// An internal error of the edge.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Fault {
    #[error(transparent)]
    Ledger(#[from] ledger::Fault),
    #[error(transparent)]
    Vault(#[from] vault::Fault),
    #[error(transparent)]
    Identity(#[from] identity::Fault),
    #[error(transparent)]
    Relay(#[from] relay::Fault),
    /// A platform did not say what a chat is, so that its messages cannot be stored now.
    #[error("could not look up a chat: {0}")]
    ChatLookup(String),
}

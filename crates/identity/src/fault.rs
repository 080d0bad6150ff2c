//! Errors of the identity crate.

/// An internal error while finding out who is calling.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Fault {
    #[error(transparent)]
    Ledger(#[from] ledger::Fault),
    #[error(transparent)]
    Vault(#[from] vault::Fault),
}

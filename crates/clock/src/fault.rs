//! Internal errors of the clock.

/// Internal error of the clock.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Fault {
    #[error(transparent)]
    Ledger(#[from] ledger::Fault),
    #[error(transparent)]
    Identity(#[from] identity::Fault),
    #[error(transparent)]
    Vault(#[from] vault::Fault),
}

//! Errors of the vault.

/// An internal error. No variant contains a sealed or opened value.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Fault {
    #[error("the vault key does not fit this ledger, which was sealed under key {0}")]
    WrongKey(String),
    #[error("the vault key is unreadable: {0}")]
    BadKey(&'static str),
    #[error("a sealed value cannot be decrypted: it was altered or moved")]
    Broken,
    #[error("the system's random number generator failed")]
    NoRandom,
    #[error("could not sign: {0}")]
    Unsigned(&'static str),
    /// The value to be stored is not usable.
    #[error("{0}")]
    Unfit(&'static str),
    #[error(transparent)]
    Ledger(#[from] ledger::Fault),
}

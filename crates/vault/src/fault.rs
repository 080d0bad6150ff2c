/// A fault of ours. No variant holds a sealed or opened value.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Fault {
    #[error("the vault key does not fit this ledger: it was sealed under key {0}")]
    WrongKey(String),
    #[error("the vault key is unreadable: {0}")]
    BadKey(&'static str),
    #[error("a sealed value does not open: it was altered or moved")]
    Broken,
    #[error("no random numbers to be had")]
    NoRandom,
    #[error("nothing was signed: {0}")]
    Unsigned(&'static str),
    /// Something that was to be kept could never be used.
    #[error("{0}")]
    Unfit(&'static str),
    #[error(transparent)]
    Ledger(#[from] ledger::Fault),
}

/// What went wrong on our side.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Fault {
    #[error(transparent)]
    Ledger(#[from] ledger::Fault),
    #[error(transparent)]
    Vault(#[from] vault::Fault),
}

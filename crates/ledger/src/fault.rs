//! What can go wrong with durable memory.

/// A fault of ours. Nothing was written, and what was asked may be asked again.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Fault {
    #[error("the disk that holds the ledger is full")]
    Full,
    #[error(
        "the ledger is of schema {found}, this program knows {known}: run the newer program that wrote it"
    )]
    Newer { found: i64, known: i64 },
    #[error("the ledger was migrated by other code: step {step} differs from the one it was made with")]
    Altered { step: i64 },
    #[error("the folder {0} is in use by another house")]
    InUse(String),
    #[error("the ledger is closed")]
    Closed,
    #[error("ledger: {0}")]
    Storage(String),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => Fault::Full,
            _ => Fault::Storage(error.to_string()),
        }
    }
}

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
        // The log's index grows by a call of its own, whose failure SQLite does not call a full disk.
        let no_room = error.sqlite_error().is_some_and(|cause| {
            cause.code == rusqlite::ErrorCode::DiskFull
                || cause.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE
        });
        if no_room { Fault::Full } else { Fault::Storage(error.to_string()) }
    }
}

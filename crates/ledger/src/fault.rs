//! Errors of the ledger.

use crate::file_threads::NoFileResult;

/// An error of the ledger. Nothing was written, and the call can be repeated; only of a call to a file of a tenant it is
/// not known what was done.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Fault {
    #[error("the disk that holds the ledger is full")]
    Full,
    #[error(
        "the ledger has schema {found}, this program knows only {known}: run the newer program that wrote it"
    )]
    Newer { found: i64, known: i64 },
    #[error(
        "migration {step} of the ledger differs from the one in this program: use the program that migrated it"
    )]
    Altered { step: i64 },
    #[error("the folder {0} is in use by another server")]
    InUse(String),
    #[error("the ledger is closed")]
    Closed,
    #[error("ledger: {0}")]
    Storage(String),
    /// A call to a file of a tenant had no result.
    #[error(transparent)]
    NoFileResult(#[from] NoFileResult),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::from_error(&error)
    }
}

impl Fault {
    pub(crate) fn from_error(error: &rusqlite::Error) -> Self {
        // The index of the write-ahead log grows by a separate system call. SQLite reports its failure as an
        // I/O error, not as a full disk.
        let no_room = error.sqlite_error().is_some_and(|cause| {
            cause.code == rusqlite::ErrorCode::DiskFull
                || cause.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE
        });
        if no_room { Fault::Full } else { Fault::Storage(error.to_string()) }
    }
}

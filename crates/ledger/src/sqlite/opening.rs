//! Opening a ledger: the lock of its folder, the settings of its connections, and its parts.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use posthouse_time::Timepiece;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::arms::JobCounts;
use super::data_index::DataIndexes;
use super::inbox::counts::InboxCounts;
use super::ledger_time::LedgerClock;
use super::pool::Pool;
use super::usage::UsageSums;
use super::writer::{Writer, WriterCounts};
use super::{Ledger, Location, Sqlite, migrate};
use crate::Fault;

/// Number of connections that read in parallel.
const READERS: usize = 3;

/// Opens a ledger, brings its tables up to date and starts its threads.
pub(super) fn open(place: Location, timepiece: Timepiece) -> Result<Ledger, Fault> {
    let (mut writing, reading, lock) = match &place {
        Location::Memory => (Connection::open_in_memory()?, None, None),
        Location::Folder(folder) => {
            let lock = hold(folder)?;
            let file = folder.join("ledger.db");
            let writing = Connection::open_with_flags(
                &file,
                OpenFlags::SQLITE_OPEN_READ_WRITE
                    | OpenFlags::SQLITE_OPEN_CREATE
                    | OpenFlags::SQLITE_OPEN_NO_MUTEX,
            )?;
            (writing, Some(file), Some(lock))
        }
    };
    prepare(&writing)?;
    migrate::run(&mut writing)?;
    let clock = LedgerClock::start(&mut writing, &timepiece)?;
    clock.install(&writing)?;
    let pool = match &reading {
        Some(file) => Some(Pool::open(file, READERS, &clock)?),
        None => None,
    };
    let inbox_counts = InboxCounts::attach(&writing)?;
    let usage = UsageSums::attach(&writing)?;
    let job_counts = Arc::new(JobCounts::default());
    let counts = WriterCounts {
        inbox: Arc::clone(&inbox_counts),
        usage: Arc::clone(&usage),
        jobs: Arc::clone(&job_counts),
    };
    let index_folder = match place {
        Location::Folder(folder) => Some(folder.join("data-index")),
        Location::Memory => None,
    };
    let indexes = Arc::new(DataIndexes::open(index_folder, timepiece.clone())?);
    let writer = Writer::start(writing, counts, reading, lock, clock.clone())?;
    Ok(Ledger(Arc::new(Sqlite {
        pool,
        writer,
        timepiece,
        clock,
        follower: OnceLock::new(),
        reads: AtomicU64::new(0),
        inbox_counts,
        usage,
        job_counts,
        indexes,
    })))
}

/// Settings of every connection. `synchronous=FULL` makes a commit survive a power loss.
pub(super) fn prepare(db: &Connection) -> Result<(), Fault> {
    db.busy_timeout(std::time::Duration::from_secs(5))?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "foreign_keys", "ON")?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    db.pragma_update(None, "cache_size", -32_000)?;
    // Checkpoints run beside the writer, not inside a caller's commit.
    db.pragma_update(None, "wal_autocheckpoint", 0)?;
    db.set_prepared_statement_cache_capacity(128);
    keep_plans(db)
}

/// Makes plans independent of the bound values. Otherwise SQLite compiles some statements again for every execution: the
/// cache of statements clears their values, and plans that looked at a value then count as outdated.
pub(super) fn keep_plans(db: &Connection) -> Result<(), Fault> {
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Locks the folder for this server. The lock is held by the kernel, so a killed server leaves none behind.
fn hold(folder: &Path) -> Result<File, Fault> {
    let trouble = |error: std::io::Error| Fault::Storage(format!("{}: {error}", folder.display()));
    // The folder holds messages of people, so only its owner may read a folder that the server creates.
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(trouble)?;
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join("house.lock"))
        .map_err(trouble)?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| Fault::InUse(folder.display().to_string()))?;
    Ok(file)
}

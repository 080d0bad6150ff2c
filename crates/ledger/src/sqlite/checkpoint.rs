//! Moves committed pages from the write-ahead log into the database file, beside the writer.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use rusqlite::{Connection, OpenFlags};

use crate::Fault;

/// Commits between two looks at the log.
const EVERY: u32 = 256;
/// Log pages past which the writer closes the last gap itself, so that the log starts over.
const LONG: i64 = 8_000;

/// A thread of its own does nearly all of the copying and the fsync of the database file. Only the
/// few pages that were committed meanwhile are left to the writer, who alone can make the log restart.
pub(super) struct Checkpoints {
    commits: AtomicU32,
    long: Arc<AtomicBool>,
    ask: Option<mpsc::SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    pub(super) fn start(file: PathBuf) -> Result<Self, Fault> {
        let db = Connection::open_with_flags(
            file,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        db.busy_timeout(std::time::Duration::from_secs(5))?;
        let long = Arc::new(AtomicBool::new(false));
        let (ask, asked) = mpsc::sync_channel(1);
        let told = Arc::clone(&long);
        let thread = std::thread::Builder::new()
            .name("ledger-checkpoint".to_owned())
            .spawn(move || {
                while asked.recv().is_ok() {
                    if passive(&db).unwrap_or(0) > LONG {
                        told.store(true, Ordering::Release);
                    }
                }
            })
            .map_err(|error| Fault::Storage(error.to_string()))?;
        Ok(Self { commits: AtomicU32::new(0), long, ask: Some(ask), thread: Some(thread) })
    }

    /// Called by the writer between two commits.
    pub(super) fn committed(&self, db: &Connection) {
        if self.long.swap(false, Ordering::Acquire) {
            let _ = passive(db);
        }
        if self.commits.fetch_add(1, Ordering::Relaxed) % EVERY == EVERY - 1
            && let Some(ask) = &self.ask
        {
            // A full channel means that it is at work already.
            let _ = ask.try_send(());
        }
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.ask = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Copies what no reader still needs, waiting for nobody; the length of the log in pages.
fn passive(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1))
}

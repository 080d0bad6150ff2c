//! Moves committed pages from the write-ahead log into the database file, beside the writer.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::Fault;

/// Log pages between two passes of the checkpoint thread.
const STRIDE: i64 = 8_000;
/// Log pages past which the writer itself copies the rest, so that the log restarts. Not earlier: a restart
/// of the log empties the page cache of every connection, including the writer's.
const LONG: i64 = 24_000;
/// Log pages past which the writer also waits for readers, because their snapshots keep the log from
/// restarting.
const TOO_LONG: i64 = 32_000;
/// The longest wait for readers. A backup reads longer than that, and the log grows meanwhile.
const PATIENCE: Duration = Duration::from_millis(50);

/// A separate thread does nearly all of the copying and the fsync of the database file. The writer copies
/// only the few pages that were committed meanwhile, because only the writer can make the log restart.
pub(super) struct Checkpoints {
    /// Length of the log after the last commit.
    pages: Arc<AtomicI64>,
    /// Length of the log at the last request to the thread; `closed`: at the writer's own last checkpoint.
    asked: Cell<i64>,
    closed: Cell<i64>,
    ask: Option<mpsc::SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    pub(super) fn start(file: PathBuf, writing: &mut Connection) -> Result<Self, Fault> {
        let db = Connection::open_with_flags(
            file,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        let pages = Arc::new(AtomicI64::new(0));
        let reported = Arc::clone(&pages);
        writing.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
            reported.store(i64::from(pages), Ordering::Relaxed);
            Ok(())
        }))?;
        let (ask, asked) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("ledger-checkpoint".to_owned())
            .spawn(move || {
                while asked.recv().is_ok() {
                    checkpoint(&db, "PASSIVE");
                }
            })
            .map_err(|error| Fault::Storage(error.to_string()))?;
        Ok(Self { pages, asked: Cell::new(0), closed: Cell::new(0), ask: Some(ask), thread: Some(thread) })
    }

    /// Called by the writer between two commits.
    pub(super) fn committed(&self, db: &Connection) {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.asked.get() {
            // The log has restarted.
            self.asked.set(0);
            self.closed.set(0);
        }
        if pages > LONG && pages - self.closed.get() > STRIDE {
            let done = if pages > TOO_LONG { patient(db) } else { checkpoint(db, "PASSIVE") };
            if done {
                self.closed.set(pages);
            }
        } else if pages - self.asked.get() >= STRIDE
            && let Some(ask) = &self.ask
            // A full channel means that the thread is already working.
            && ask.try_send(()).is_ok()
        {
            self.asked.set(pages);
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

/// Copies the pages that no reader still needs. False when another checkpoint was running.
fn checkpoint(db: &Connection, mode: &str) -> bool {
    let busy: rusqlite::Result<i64> =
        db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| row.get(0));
    match busy {
        Ok(busy) => busy == 0,
        Err(error) => {
            tracing::warn!(%error, "cannot copy the write-ahead log into the database");
            false
        }
    }
}

/// As [`checkpoint`], but waits a little for readers to finish.
fn patient(db: &Connection) -> bool {
    let usual = Duration::from_secs(5);
    let _ = db.busy_timeout(PATIENCE);
    checkpoint(db, "RESTART");
    let _ = db.busy_timeout(usual);
    // Whether or not it worked, the next attempt comes a stride later.
    true
}

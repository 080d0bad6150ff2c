//! Yielding: counts the operations of a run, and pauses it so that other tasks can use the thread.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;

use crate::run::limits::{too_large, too_many_operations};
use crate::run::run_error::RunError;

/// Work between two pauses, in bytes of text. An operation counts as `OPERATION` bytes.
const PAUSE_AFTER: usize = 512 * OPERATION;
/// Bytes of text that one operation counts as.
const OPERATION: usize = 1024;

/// The work of a run, with that of the skills that it runs.
#[derive(Default)]
pub struct WorkMeter {
    operations: AtomicU64,
    since_pause: AtomicUsize,
    /// Bytes that the current operation has read.
    read: AtomicUsize,
}

impl WorkMeter {
    /// Counts an operation, and refuses it if there were too many.
    pub fn count(&self, limit: u64) -> Result<(), RunError> {
        // One task at a time runs operations, so nothing is lost between reading and writing.
        let operations = self.operations.load(Ordering::Relaxed);
        if operations >= limit {
            return Err(too_many_operations(limit));
        }
        self.operations.store(operations + 1, Ordering::Relaxed);
        self.read.store(0, Ordering::Relaxed);
        self.note(OPERATION);
        Ok(())
    }

    /// Notes bytes that the current operation reads, and refuses them if there were too many. An operation does not
    /// pause, so this bounds how long it keeps its thread.
    pub fn read(&self, bytes: usize, limit: usize) -> Result<(), RunError> {
        let read = self.read.load(Ordering::Relaxed).saturating_add(bytes);
        self.read.store(read, Ordering::Relaxed);
        self.note(bytes);
        if read > limit { Err(too_large("what one operation reads", limit)) } else { Ok(()) }
    }

    /// Notes bytes that were written or read.
    pub fn note(&self, bytes: usize) {
        let work = self.since_pause.load(Ordering::Relaxed);
        self.since_pause.store(work.saturating_add(bytes), Ordering::Relaxed);
    }

    /// Notes a round of a loop. Its body may be empty.
    pub fn note_round(&self) {
        self.note(OPERATION / 8);
    }

    /// Pauses if there was enough work since the last pause, and says whether it did.
    pub async fn pause_if_due(&self) -> bool {
        let is_due = self.since_pause.load(Ordering::Relaxed) > PAUSE_AFTER;
        if is_due {
            self.since_pause.store(0, Ordering::Relaxed);
            pause().await;
        }
        is_due
    }
}

/// Lets other tasks run before this one goes on.
async fn pause() {
    let mut has_paused = false;
    poll_fn(|context| {
        if has_paused {
            return Poll::Ready(());
        }
        has_paused = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

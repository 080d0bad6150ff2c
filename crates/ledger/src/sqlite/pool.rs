//! Read-only connections, each with its own snapshot and thread.
//!
//! They do not use the runtime's blocking threads. Those are shared, and anything that fills them (slow
//! folders, a name server that hangs) would stop every read of the ledger.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, OpenFlags};
use tokio::sync::oneshot;

use super::ledger_time::LedgerClock;
use crate::Fault;

pub(super) struct Pool {
    queue: Arc<ReadQueue>,
    threads: Vec<JoinHandle<()>>,
}

type ReadJob = Box<dyn FnOnce(&Connection) + Send>;

/// Reads that wait for a connection, in order of arrival.
#[derive(Default)]
struct ReadQueue {
    waiting: Mutex<WaitingReads>,
    changed: Condvar,
}

#[derive(Default)]
struct WaitingReads {
    jobs: VecDeque<ReadJob>,
    closed: bool,
}

impl Pool {
    pub(super) fn open(file: &Path, count: usize, clock: &LedgerClock) -> Result<Self, Fault> {
        let mut pool = Self { queue: Arc::default(), threads: Vec::with_capacity(count) };
        for _ in 0..count {
            let db = Connection::open_with_flags(
                file,
                OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
            )?;
            db.busy_timeout(std::time::Duration::from_secs(5))?;
            db.pragma_update(None, "cache_size", -1_000)?;
            db.set_prepared_statement_cache_capacity(64);
            super::opening::keep_plans(&db)?;
            clock.install(&db)?;
            let queue = Arc::clone(&pool.queue);
            let thread = std::thread::Builder::new().name("ledger-read".to_owned());
            let thread = thread.spawn(move || queue.serve(&db));
            pool.threads.push(thread.map_err(|error| Fault::Storage(error.to_string()))?);
        }
        Ok(pool)
    }

    pub(super) async fn read<T, W>(&self, mut work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (reply, result) = oneshot::channel();
        self.queue.add(Box::new(move |db| {
            // The caller may have gone away before or during the read.
            if !reply.is_closed() {
                let _ = reply.send(work(db).map_err(Fault::from));
            }
        }));
        result.await.map_err(|_| Fault::Closed)?
    }
}

impl ReadQueue {
    fn add(&self, job: ReadJob) {
        self.waiting.lock().jobs.push_back(job);
        self.changed.notify_one();
    }

    /// Serves reads with this connection until the pool is dropped.
    fn serve(&self, db: &Connection) {
        while let Some(job) = self.next() {
            // A read that panics is a bug and fails its caller. The connection stays usable.
            let _ = std::panic::catch_unwind(AssertUnwindSafe(|| job(db)));
        }
    }

    fn next(&self) -> Option<ReadJob> {
        let mut waiting = self.waiting.lock();
        loop {
            if waiting.closed {
                return None;
            }
            if let Some(job) = waiting.jobs.pop_front() {
                return Some(job);
            }
            self.changed.wait(&mut waiting);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.queue.waiting.lock().closed = true;
        self.queue.changed.notify_all();
        let this = std::thread::current().id();
        // The connections are closed when this returns.
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != this) {
            let _ = thread.join();
        }
    }
}

//! Connections that only read, each with a snapshot of its own.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;

use crate::Fault;

pub(super) struct Pool {
    idle: Arc<Mutex<Vec<Connection>>>,
    /// One permit for each connection. Readers wait here, not in a thread: a thousand agents coming
    /// back at once would otherwise each hold one of the runtime's threads.
    free: Arc<Semaphore>,
}

impl Pool {
    pub(super) fn open(file: &Path, count: usize) -> Result<Self, Fault> {
        let mut connections = Vec::with_capacity(count);
        for _ in 0..count {
            let db = Connection::open_with_flags(
                file,
                OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
            )?;
            db.busy_timeout(std::time::Duration::from_secs(5))?;
            db.pragma_update(None, "cache_size", -1_000)?;
            db.set_prepared_statement_cache_capacity(64);
            connections.push(db);
        }
        Ok(Self { idle: Arc::new(Mutex::new(connections)), free: Arc::new(Semaphore::new(count)) })
    }

    pub(super) async fn read<T, W>(&self, mut work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let permit = Arc::clone(&self.free).acquire_owned().await.map_err(|_| Fault::Closed)?;
        let idle = Arc::clone(&self.idle);
        tokio::task::spawn_blocking(move || {
            // Dropped in reverse: the connection is back before the permit is.
            let _permit = permit;
            let db = Borrowed::take(&idle).ok_or(Fault::Closed)?;
            work(db.connection()).map_err(Fault::from)
        })
        .await
        .map_err(|_| Fault::Closed)?
    }
}

/// A connection on loan; it comes back even from a read that panicked.
struct Borrowed<'a> {
    idle: &'a Mutex<Vec<Connection>>,
    db: Option<Connection>,
}

impl<'a> Borrowed<'a> {
    fn take(idle: &'a Mutex<Vec<Connection>>) -> Option<Self> {
        let db = idle.lock().pop()?;
        Some(Self { idle, db: Some(db) })
    }

    fn connection(&self) -> &Connection {
        self.db.as_ref().expect("it is given back only when dropped")
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if let Some(db) = self.db.take() {
            self.idle.lock().push(db);
        }
    }
}

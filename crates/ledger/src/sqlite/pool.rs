//! Connections that only read, each with a snapshot of its own.

use std::path::Path;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, OpenFlags};

use crate::Fault;

pub(super) struct Pool(Arc<Idle>);

struct Idle {
    connections: Mutex<Vec<Connection>>,
    returned: Condvar,
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
            db.pragma_update(None, "cache_size", -4_000)?;
            db.set_prepared_statement_cache_capacity(64);
            connections.push(db);
        }
        Ok(Self(Arc::new(Idle { connections: Mutex::new(connections), returned: Condvar::new() })))
    }

    pub(super) async fn read<T, W>(&self, mut work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let idle = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || {
            let db = Borrowed::take(&idle);
            work(db.connection()).map_err(Fault::from)
        })
        .await
        .map_err(|_| Fault::Closed)?
    }
}

/// A connection on loan; it comes back even from a read that panicked.
struct Borrowed<'a> {
    idle: &'a Idle,
    db: Option<Connection>,
}

impl<'a> Borrowed<'a> {
    fn take(idle: &'a Idle) -> Self {
        let mut connections = idle.connections.lock();
        loop {
            match connections.pop() {
                Some(db) => return Self { idle, db: Some(db) },
                None => idle.returned.wait(&mut connections),
            }
        }
    }

    fn connection(&self) -> &Connection {
        self.db.as_ref().expect("it is given back only when dropped")
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if let Some(db) = self.db.take() {
            self.idle.connections.lock().push(db);
            self.idle.returned.notify_one();
        }
    }
}

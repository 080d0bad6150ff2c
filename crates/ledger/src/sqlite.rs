//! The embedded backend: one writer thread that commits for many callers at once, readers apart.

mod arms;
mod audit;
mod checkpoint;
mod connectors;
mod exchanges;
mod house;
mod inbox;
mod migrate;
mod outbox;
mod pool;
mod prune;
mod receipts;
mod rooms;
mod roster;
mod tokens;
mod trace;
mod vault;
mod writer;

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use posthouse_time::Timepiece;
use rusqlite::{Connection, OpenFlags};

use crate::{
    Arms, Audit, Connectors, Entry, Exchanges, Fault, House, Inbox, Outbox, Receipts, Rooms, Roster, Tokens,
    Traces, VaultRecords,
};
use pool::Pool;
use writer::Writer;

/// Where a ledger lies.
#[derive(Clone, Debug)]
pub enum Place {
    /// A folder, held by one house at a time.
    Folder(PathBuf),
    /// Gone with the handle; for tests.
    Memory,
}

/// The durable memory, as a handle to share.
#[derive(Clone)]
pub struct Ledger(Arc<Sqlite>);

type Follower = Arc<dyn Fn(&Entry) + Send + Sync>;

pub(crate) struct Sqlite {
    /// None in memory, where reads take the writer's own connection. It stands before the writer so that
    /// it closes first: only then can the writer, closing last, fold the log into the file.
    pool: Option<Pool>,
    writer: Writer,
    timepiece: Timepiece,
    follower: OnceLock<Follower>,
}

/// How many connections read at once.
const READERS: usize = 3;

impl Ledger {
    /// Opens or makes the ledger and brings its schema up to date.
    pub async fn open(place: Place, timepiece: Timepiece) -> Result<Self, Fault> {
        tokio::task::spawn_blocking(move || open(place, timepiece)).await.map_err(|_| Fault::Closed)?
    }

    pub fn inbox(&self) -> Arc<dyn Inbox> {
        self.0.clone()
    }

    pub fn outbox(&self) -> Arc<dyn Outbox> {
        self.0.clone()
    }

    pub fn roster(&self) -> Arc<dyn Roster> {
        self.0.clone()
    }

    pub fn rooms(&self) -> Arc<dyn Rooms> {
        self.0.clone()
    }

    pub fn traces(&self) -> Arc<dyn Traces> {
        self.0.clone()
    }

    pub fn vault(&self) -> Arc<dyn VaultRecords> {
        self.0.clone()
    }

    pub fn arms(&self) -> Arc<dyn Arms> {
        self.0.clone()
    }

    pub fn connectors(&self) -> Arc<dyn Connectors> {
        self.0.clone()
    }

    pub fn receipts(&self) -> Arc<dyn Receipts> {
        self.0.clone()
    }

    pub fn exchanges(&self) -> Arc<dyn Exchanges> {
        self.0.clone()
    }

    pub fn tokens(&self) -> Arc<dyn Tokens> {
        self.0.clone()
    }

    pub fn audit(&self) -> Arc<dyn Audit> {
        self.0.clone()
    }

    pub fn house(&self) -> Arc<dyn House> {
        self.0.clone()
    }

    /// Lets the file grow to at most this many pages: a full disk, for tests where none can be mounted.
    #[doc(hidden)]
    pub async fn limit_pages(&self, pages: u32) -> Result<(), Fault> {
        self.0.write(move |db| db.pragma_update(None, "max_page_count", pages)).await
    }

    /// How often the disk was made to remember since the ledger was opened.
    #[doc(hidden)]
    pub fn commits(&self) -> u64 {
        self.0.writer.commits()
    }
}

fn open(place: Place, timepiece: Timepiece) -> Result<Ledger, Fault> {
    let (mut writing, reading, lock) = match &place {
        Place::Memory => (Connection::open_in_memory()?, None, None),
        Place::Folder(folder) => {
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
    let pool = match &reading {
        Some(file) => Some(Pool::open(file, READERS)?),
        None => None,
    };
    let writer = Writer::start(writing, reading, lock)?;
    Ok(Ledger(Arc::new(Sqlite { pool, writer, timepiece, follower: OnceLock::new() })))
}

/// Every connection's settings; `synchronous=FULL` is what makes a commit survive power loss.
fn prepare(db: &Connection) -> Result<(), Fault> {
    db.busy_timeout(std::time::Duration::from_secs(5))?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "foreign_keys", "ON")?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    db.pragma_update(None, "cache_size", -32_000)?;
    // Checkpoints run beside the writer, not inside somebody's commit.
    db.pragma_update(None, "wal_autocheckpoint", 0)?;
    db.set_prepared_statement_cache_capacity(128);
    Ok(())
}

/// Takes the folder for this house alone. The lock is the kernel's, so a killed house leaves none behind.
fn hold(folder: &std::path::Path) -> Result<std::fs::File, Fault> {
    let trouble = |error: std::io::Error| Fault::Storage(format!("{}: {error}", folder.display()));
    // What people said lies in here: a folder that we make is its owner's alone.
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(trouble)?;
    let file = std::fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join("house.lock"))
        .map_err(trouble)?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| Fault::InUse(folder.display().to_string()))?;
    Ok(file)
}

impl Sqlite {
    /// Runs `work` in the next commit and resolves after it.
    async fn write<T, W>(&self, work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.writer.write(work, |_| ()).await
    }

    /// As [`Sqlite::write`]; `after` hears the result on the writer's thread, in commit order.
    async fn write_then<T, W, A>(&self, work: W, after: A) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
        A: FnOnce(&T) + Send + 'static,
    {
        self.writer.write(work, after).await
    }

    async fn read<T, W>(&self, mut work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        match &self.pool {
            Some(pool) => pool.read(work).await,
            None => self.write(move |db| work(db)).await,
        }
    }
}

//! The one writer thread. Jobs that wait together are committed together: many callers, one fsync.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::arms::JobCounts;
use super::checkpoint::Checkpoints;
use super::inbox::counts::InboxCounts;
use super::ledger_time::LedgerClock;
use super::usage::UsageSums;
use super::write_queue::{JobTenant, WriteQueue};
use crate::Fault;

type Jobs = WriteQueue<Box<dyn WriteJob>>;

pub(super) struct Writer {
    jobs: Arc<Jobs>,
    thread: Option<JoinHandle<()>>,
    commits: Arc<AtomicU64>,
    refusal: Arc<Mutex<Option<Fault>>>,
}

/// The counts that are kept beside the writer.
pub(super) struct WriterCounts {
    pub inbox: Arc<InboxCounts>,
    pub usage: Arc<UsageSums>,
    pub jobs: Arc<JobCounts>,
}

impl WriterCounts {
    fn committed(&self) {
        self.inbox.committed();
        self.usage.committed();
    }

    fn rolled_back(&self) {
        self.inbox.rolled_back();
        self.usage.rolled_back();
        self.jobs.rolled_back();
    }

    /// Compares with a recount, in debug builds. A statement that is not counted therefore fails every test
    /// that runs it.
    fn check(&self, db: &Connection) {
        #[cfg(debug_assertions)]
        if let Err(error) = self.inbox.check(db).and_then(|()| self.usage.check(db)) {
            tracing::warn!(%error, "cannot compare the counts with the rows");
        }
        #[cfg(not(debug_assertions))]
        let _ = db;
    }
}

/// The work of one caller. It may run twice: if any job of a batch fails, the batch is rolled back and every
/// job runs again in its own transaction, so that the error of one caller does not affect another.
trait WriteJob: Send {
    fn run(&mut self, db: &Connection) -> rusqlite::Result<()>;
    fn settle(self: Box<Self>, committed: Result<(), Fault>);
}

struct WriteTask<W, A, T> {
    work: W,
    after: A,
    result: Option<T>,
    reply: oneshot::Sender<Result<T, Fault>>,
}

impl<W, A, T> WriteJob for WriteTask<W, A, T>
where
    T: Send + 'static,
    W: FnMut(&Connection) -> rusqlite::Result<T> + Send,
    A: FnOnce(&T) + Send,
{
    fn run(&mut self, db: &Connection) -> rusqlite::Result<()> {
        self.result = Some((self.work)(db)?);
        Ok(())
    }

    fn settle(self: Box<Self>, committed: Result<(), Fault>) {
        let answer = match (committed, self.result) {
            (Ok(()), Some(result)) => {
                (self.after)(&result);
                Ok(result)
            }
            (Err(fault), _) => Err(fault),
            (Ok(()), None) => Err(Fault::Closed),
        };
        // The work of a caller that went away is still done: it was accepted, so it is stored.
        let _ = self.reply.send(answer);
    }
}

impl Writer {
    /// `lock` keeps a second server out of the folder. It must be dropped after the connection.
    pub(super) fn start(
        mut db: Connection,
        counts: WriterCounts,
        file: Option<PathBuf>,
        lock: Option<File>,
        clock: LedgerClock,
    ) -> Result<Self, Fault> {
        let jobs = Arc::new(Jobs::new());
        let waiting = Arc::clone(&jobs);
        let checkpoints = file.map(|file| Checkpoints::start(file, &mut db)).transpose()?;
        let commits = Arc::new(AtomicU64::new(0));
        let refusal = Arc::new(Mutex::new(None));
        let noted = WriterState { commits: Arc::clone(&commits), refusal: Arc::clone(&refusal) };
        let thread = std::thread::Builder::new()
            .name("ledger-writer".to_owned())
            .spawn(move || {
                let waiting = WriterQueueGuard(waiting);
                let writing = WriteConnection { db: &db, counts: &counts };
                run(&writing, &waiting.0, checkpoints, &noted);
                counts.check(&db);
                if let Err(error) = clock.store(&db) {
                    tracing::warn!(%error, "cannot store ledger time at close");
                }
                drop(db);
                drop(lock);
            })
            .map_err(|error| Fault::Storage(error.to_string()))?;
        Ok(Self { jobs, thread: Some(thread), commits, refusal })
    }

    /// Number of commits since the start.
    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// The reason why the disk refused the last write, if it did.
    pub(super) fn refusal(&self) -> Option<Fault> {
        self.refusal.lock().clone()
    }

    pub(super) async fn write<T, W, A>(&self, owner: JobTenant, work: W, after: A) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
        A: FnOnce(&T) + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job: Box<dyn WriteJob> = Box::new(WriteTask { work, after, result: None, reply });
        self.jobs.add(owner, job).await?;
        answer.await.map_err(|_| Fault::Closed)?
    }
}

/// Jobs that were accepted before the handle was dropped are still committed.
impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs.close();
        // A follower may drop the last handle on the writer's own thread. That thread then ends after this
        // batch.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let ended = thread.join();
            debug_assert!(ended.is_ok() || std::thread::panicking(), "the writer panicked");
        }
    }
}

/// The writer's end of the queue. If the writer panics, its callers get a fault instead of waiting for ever.
struct WriterQueueGuard(Arc<Jobs>);

impl Drop for WriterQueueGuard {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// The connection that writes, and the counts beside it.
struct WriteConnection<'a> {
    db: &'a Connection,
    counts: &'a WriterCounts,
}

/// State of the writer that other threads can read.
struct WriterState {
    commits: Arc<AtomicU64>,
    refusal: Arc<Mutex<Option<Fault>>>,
}

impl WriterState {
    /// A commit that wrote nothing says nothing about the disk.
    fn committed(&self, wrote: bool) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        if wrote {
            *self.refusal.lock() = None;
        }
    }
}

fn run(writing: &WriteConnection<'_>, waiting: &Jobs, checkpoints: Option<Checkpoints>, noted: &WriterState) {
    let mut batch: Vec<Box<dyn WriteJob>> = Vec::new();
    while waiting.take(&mut batch) {
        match together(writing, &mut batch) {
            Ok(wrote) => {
                noted.committed(wrote);
                batch.drain(..).for_each(|job| job.settle(Ok(())));
            }
            Err(_) => one_by_one(writing, &mut batch, noted),
        }
        if let Some(checkpoints) = &checkpoints {
            checkpoints.committed(writing.db);
        }
    }
}

/// Runs the jobs of a failed batch one by one: the job at fault gets the error, the others are committed.
fn one_by_one(writing: &WriteConnection<'_>, batch: &mut Vec<Box<dyn WriteJob>>, noted: &WriterState) {
    let (mut refused, mut last) = (0_u32, None);
    for mut job in batch.drain(..) {
        let outcome = together(writing, std::slice::from_mut(&mut job));
        if let Err(error) = &outcome
            && is_disk_trouble(error)
        {
            *noted.refusal.lock() = Some(Fault::from_error(error));
        }
        let outcome = outcome.map_err(Fault::from);
        match &outcome {
            Ok(wrote) => noted.committed(*wrote),
            Err(fault) => {
                refused += 1;
                last = Some(fault.clone());
            }
        }
        job.settle(outcome.map(drop));
    }
    // One log line per batch, because a full disk fails hundreds of jobs per second.
    if let Some(fault) = last {
        tracing::error!(%fault, refused, "writes to the ledger failed");
    }
}

/// Whether the disk is at fault, not the statement.
fn is_disk_trouble(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, DatabaseCorrupt, DiskFull, ReadOnly, SystemIoFailure};
    error.sqlite_error_code().is_some_and(|code| {
        matches!(code, DiskFull | SystemIoFailure | ReadOnly | CannotOpen | DatabaseCorrupt)
    })
}

/// Runs all jobs in one transaction, or none. True when anything was written.
fn together(writing: &WriteConnection<'_>, jobs: &mut [Box<dyn WriteJob>]) -> rusqlite::Result<bool> {
    let WriteConnection { db, counts } = writing;
    let before = db.total_changes();
    db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let outcome = jobs
        .iter_mut()
        .try_for_each(|job| job.run(db))
        .and_then(|()| counts.usage.store(db))
        .and_then(|()| db.prepare_cached("COMMIT")?.execute([]).map(drop))
        .map(|()| db.total_changes() > before);
    match &outcome {
        Ok(_) => counts.committed(),
        Err(_) => {
            // Some faults end the transaction themselves. Then there is nothing left to roll back.
            if !db.is_autocommit() {
                let _ = db.execute_batch("ROLLBACK");
            }
            counts.rolled_back();
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use posthouse_time::Timepiece;

    use crate::{Fault, Ledger, Location};

    #[tokio::test]
    #[should_panic(expected = "the writer panicked")]
    async fn when_the_writer_panics_its_callers_get_a_fault_instead_of_waiting() {
        let ledger = Ledger::open(Location::Memory, Timepiece::wall()).await.unwrap();
        let dies = ledger.0.write(|_| -> rusqlite::Result<()> { panic!("a bug in a job") });
        let (first, behind) = tokio::join!(dies, ledger.0.write(|_| Ok(())));
        assert!(matches!(first, Err(Fault::Closed)));
        assert!(matches!(behind, Err(Fault::Closed)));
        assert!(matches!(ledger.0.write(|_| Ok(())).await, Err(Fault::Closed)));
    }
}

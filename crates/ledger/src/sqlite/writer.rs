//! The one thread that writes. Jobs that wait together are committed together: many callers, one fsync.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::checkpoint::Checkpoints;
use crate::Fault;

/// Jobs waiting for the writer; callers beyond that wait for room.
const QUEUE: usize = 4096;
/// Jobs in one commit. Past a few hundred a longer batch only adds latency.
const BATCH: usize = 512;

pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
    commits: Arc<AtomicU64>,
}

/// One caller's work. It may run twice: if any job of a batch fails, the batch is rolled back and
/// every job runs again in a transaction of its own, so that one caller's error is not another's.
trait Job: Send {
    fn run(&mut self, db: &Connection) -> rusqlite::Result<()>;
    fn settle(self: Box<Self>, committed: Result<(), Fault>);
}

struct Task<W, A, T> {
    work: W,
    after: A,
    result: Option<T>,
    reply: oneshot::Sender<Result<T, Fault>>,
}

impl<W, A, T> Job for Task<W, A, T>
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
        // A caller that went away still had its work done: it was accepted, so it is kept.
        let _ = self.reply.send(answer);
    }
}

impl Writer {
    /// `lock` is what keeps a second house out; it goes after the connection, never before.
    pub(super) fn start(
        mut db: Connection,
        file: Option<PathBuf>,
        lock: Option<File>,
    ) -> Result<Self, Fault> {
        let (jobs, waiting) = mpsc::channel(QUEUE);
        let checkpoints = file.map(|file| Checkpoints::start(file, &mut db)).transpose()?;
        let commits = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&commits);
        let thread = std::thread::Builder::new()
            .name("ledger-writer".to_owned())
            .spawn(move || {
                run(&db, waiting, checkpoints, &counted);
                drop(db);
                drop(lock);
            })
            .map_err(|error| Fault::Storage(error.to_string()))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread), commits })
    }

    /// How many commits there have been since the start.
    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    pub(super) async fn write<T, W, A>(&self, work: W, after: A) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
        A: FnOnce(&T) + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job: Box<dyn Job> = Box::new(Task { work, after, result: None, reply });
        let jobs = self.jobs.as_ref().ok_or(Fault::Closed)?;
        jobs.send(job).await.map_err(|_| Fault::Closed)?;
        answer.await.map_err(|_| Fault::Closed)?
    }
}

/// What was accepted before the handle went is still committed.
impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        // The last handle may be dropped by a follower, on the writer's own thread; that thread then
        // simply ends after this batch.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

fn run(
    db: &Connection,
    mut waiting: mpsc::Receiver<Box<dyn Job>>,
    checkpoints: Option<Checkpoints>,
    commits: &AtomicU64,
) {
    let mut batch: Vec<Box<dyn Job>> = Vec::with_capacity(BATCH);
    while waiting.blocking_recv_many(&mut batch, BATCH) > 0 {
        match together(db, &mut batch) {
            Ok(()) => {
                commits.fetch_add(1, Ordering::Relaxed);
                batch.drain(..).for_each(|job| job.settle(Ok(())));
            }
            Err(_) => one_by_one(db, &mut batch, commits),
        }
        if let Some(checkpoints) = &checkpoints {
            checkpoints.committed(db);
        }
    }
}

/// After a batch that failed: who is at fault hears it, the others are kept.
fn one_by_one(db: &Connection, batch: &mut Vec<Box<dyn Job>>, commits: &AtomicU64) {
    let (mut refused, mut last) = (0_u32, None);
    for mut job in batch.drain(..) {
        let outcome = together(db, std::slice::from_mut(&mut job)).map_err(Fault::from);
        match &outcome {
            Ok(()) => drop(commits.fetch_add(1, Ordering::Relaxed)),
            Err(fault) => {
                refused += 1;
                last = Some(fault.clone());
            }
        }
        job.settle(outcome);
    }
    // One line a batch: a full disk fails hundreds a second.
    if let Some(fault) = last {
        tracing::error!(%fault, refused, "the ledger refused writes");
    }
}

/// All jobs in one transaction, or none.
fn together(db: &Connection, jobs: &mut [Box<dyn Job>]) -> rusqlite::Result<()> {
    db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let outcome = jobs
        .iter_mut()
        .try_for_each(|job| job.run(db))
        .and_then(|()| db.prepare_cached("COMMIT")?.execute([]).map(drop));
    if outcome.is_err() && !db.is_autocommit() {
        // Some faults end the transaction themselves; then there is nothing left to roll back.
        let _ = db.execute_batch("ROLLBACK");
    }
    outcome
}

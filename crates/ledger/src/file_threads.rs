//! File threads: blocking work on files that others may lock or whose disk may hang, on a few threads of each tenant.
//!
//! A file of a tenant can be locked by another program, or be on a disk that does not answer, and work on it then blocks
//! its thread. On the pool for blocking calls that all tenants share, such work would take the place of everything else.
//! Here it blocks only further work on files of the same tenant.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use posthouse_wire::TenantId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// The largest number of threads of one tenant for one kind of files: those of its stores, those that its skills read,
/// or those of its connectors.
pub const FILE_THREADS: usize = 8;
/// Pieces of work that may wait for one of these threads.
pub const WAITING_FILE_WORK: usize = 1024;
/// Time after which an idle thread ends.
const KEPT: Duration = Duration::from_secs(10);

type FileJob = Box<dyn FnOnce() + Send>;

/// The file threads of every tenant that uses some. A cheap handle to clone.
#[derive(Clone, Default)]
pub struct TenantFileThreads(Arc<Mutex<HashMap<TenantId, Weak<FileThreads>>>>);

impl TenantFileThreads {
    /// The threads of a tenant. They are the same ones for as long as anybody holds them or work runs on them.
    pub fn of(&self, tenant: &TenantId) -> Arc<FileThreads> {
        let mut known = self.0.lock();
        if let Some(threads) = known.get(tenant).and_then(Weak::upgrade) {
            return threads;
        }
        known.retain(|_, threads| threads.strong_count() > 0);
        let threads = Arc::new(FileThreads::default());
        known.insert(tenant.clone(), Arc::downgrade(&threads));
        threads
    }
}

/// The threads of one tenant, started on demand.
#[derive(Debug)]
pub struct FileThreads {
    free: Arc<Semaphore>,
    /// Places of work that runs or waits.
    line: Semaphore,
    queue: Arc<FileJobQueue>,
}

/// A permit to run one job. It keeps `FileThreads` alive: while a job hangs, the tenant gets the same threads and no new
/// ones.
pub struct FileThreadSlot {
    _place: OwnedSemaphorePermit,
    _threads: Arc<FileThreads>,
}

/// Why work on a file has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFileResult {
    #[error("too much work waits for the files of this tenant")]
    Full,
    #[error("the work on the file failed inside, or the server is shutting down")]
    Broken,
}

#[derive(Debug, Default)]
struct FileJobQueue {
    state: Mutex<QueuedJobs>,
    added: Condvar,
}

#[derive(Default)]
struct QueuedJobs {
    jobs: VecDeque<FileJob>,
    /// Threads that wait for a job.
    idle: usize,
}

impl std::fmt::Debug for QueuedJobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueuedJobs").field("jobs", &self.jobs.len()).field("idle", &self.idle).finish()
    }
}

impl Default for FileThreads {
    fn default() -> Self {
        Self {
            free: Arc::new(Semaphore::new(FILE_THREADS)),
            line: Semaphore::new(FILE_THREADS + WAITING_FILE_WORK),
            queue: Arc::default(),
        }
    }
}

impl FileThreads {
    /// Does blocking work as soon as one of the threads is free, and returns its result. Work that has begun is ended
    /// even if the caller stops waiting.
    pub async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoFileResult> {
        let _in_line = self.line.try_acquire().map_err(|_| NoFileResult::Full)?;
        let slot = self.slot().await.ok_or(NoFileResult::Broken)?;
        let (result, ended) = oneshot::channel();
        let job = move || {
            // If nobody waits any more, the result is of no use.
            let _ = result.send(work());
        };
        if let Err(error) = self.run(slot, job) {
            tracing::error!(%error, "a thread for files could not be started");
            return Err(NoFileResult::Broken);
        }
        ended.await.map_err(|_| NoFileResult::Broken)
    }

    /// Waits until one of the tenant's threads is free. `None` only after the semaphore was closed.
    pub async fn slot(self: &Arc<Self>) -> Option<FileThreadSlot> {
        let place = Arc::clone(&self.free).acquire_owned().await.ok()?;
        Some(FileThreadSlot { _place: place, _threads: Arc::clone(self) })
    }

    /// A permit, if one of the tenant's threads is free now.
    pub fn slot_if_free(self: &Arc<Self>) -> Option<FileThreadSlot> {
        let place = Arc::clone(&self.free).try_acquire_owned().ok()?;
        Some(FileThreadSlot { _place: place, _threads: Arc::clone(self) })
    }

    /// Runs a job on one of the threads. The slot is free again when the job returns.
    pub fn run(&self, slot: FileThreadSlot, job: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let job: FileJob = Box::new(move || {
            let _held = slot;
            job();
        });
        let mut state = self.queue.state.lock();
        if state.idle > state.jobs.len() {
            state.jobs.push_back(job);
            self.queue.added.notify_one();
            return Ok(());
        }
        drop(state);
        let queue = Arc::clone(&self.queue);
        // If no thread can be started, the job is dropped here and is not done later.
        let work = move || {
            job();
            queue.work();
        };
        std::thread::Builder::new().name("files".to_owned()).spawn(work).map(drop)
    }
}

impl FileJobQueue {
    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = self.state.lock();
                continue;
            }
            state.idle += 1;
            let waited = self.added.wait_for(&mut state, KEPT);
            state.idle -= 1;
            if waited.timed_out() && state.jobs.is_empty() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn threads_that_hang_are_counted_after_their_users_are_gone() {
        let (tenants, acme) = (TenantFileThreads::default(), "ten_acme".into());
        let threads = tenants.of(&acme);
        let (end, ended) = mpsc::channel::<()>();
        let slot = threads.slot_if_free().unwrap();
        threads
            .run(slot, move || {
                let _ = ended.recv();
            })
            .unwrap();
        drop(threads);
        assert_eq!(tenants.of(&acme).free.available_permits(), FILE_THREADS - 1);
        drop(end);
        while tenants.of(&acme).free.available_permits() < FILE_THREADS {
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn work_of_a_tenant_is_bounded_and_another_tenants_is_done() {
        let tenants = TenantFileThreads::default();
        let (acme, zen) = (tenants.of(&"ten_acme".into()), tenants.of(&"ten_zen".into()));
        let (end, ended) = mpsc::channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        let mut hanging = Vec::new();
        for _ in 0..FILE_THREADS + WAITING_FILE_WORK {
            let (acme, ended) = (Arc::clone(&acme), Arc::clone(&ended));
            hanging.push(tokio::spawn(async move { acme.work(move || ended.lock().recv().is_err()).await }));
        }
        while acme.line.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(acme.work(|| ()).await, Err(NoFileResult::Full));
        assert_eq!(zen.work(|| 7).await, Ok(7));
        drop(end);
        for hung in hanging {
            assert_eq!(hung.await.unwrap(), Ok(true));
        }
    }

    #[tokio::test]
    async fn work_that_panics_ends_only_itself() {
        let threads = Arc::<FileThreads>::default();
        assert_eq!(
            threads.work(|| panic!("a mistake in the work")).await,
            Err::<(), _>(NoFileResult::Broken)
        );
        assert_eq!(threads.work(|| 7).await, Ok(7));
    }
}

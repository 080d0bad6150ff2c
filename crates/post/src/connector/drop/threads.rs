//! Threads per tenant for file operations in drop directories, so that a hanging directory blocks only its tenant.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The largest number of threads of one tenant.
const PER_TENANT: usize = 8;
/// Time after which an idle thread ends.
const KEPT: Duration = Duration::from_secs(10);

type FileJob = Box<dyn FnOnce() + Send>;

/// The threads of one tenant, started on demand.
#[derive(Debug)]
pub(in crate::connector) struct DropThreads {
    free: Arc<Semaphore>,
    queue: Arc<FileJobQueue>,
}

/// A permit to run one job. It keeps `DropThreads` alive: while a job hangs, the tenant gets the same threads and no new
/// ones.
pub(super) struct ThreadSlot {
    _place: OwnedSemaphorePermit,
    _threads: Arc<DropThreads>,
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

impl Default for DropThreads {
    fn default() -> Self {
        Self { free: Arc::new(Semaphore::new(PER_TENANT)), queue: Arc::default() }
    }
}

impl DropThreads {
    /// Waits until one of the tenant's threads is free. `None` only after the semaphore was closed.
    pub(super) async fn slot(self: &Arc<Self>) -> Option<ThreadSlot> {
        let place = Arc::clone(&self.free).acquire_owned().await.ok()?;
        Some(ThreadSlot { _place: place, _threads: Arc::clone(self) })
    }

    pub(super) fn slot_if_free(self: &Arc<Self>) -> Option<ThreadSlot> {
        let place = Arc::clone(&self.free).try_acquire_owned().ok()?;
        Some(ThreadSlot { _place: place, _threads: Arc::clone(self) })
    }

    /// Runs a job on a thread of its own. The slot is free again when the job returns.
    pub(super) fn run(&self, slot: ThreadSlot, job: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let job = Box::new(move || {
            let _held = slot;
            job();
        });
        let mut state = self.queue.state.lock();
        state.jobs.push_back(job);
        if state.idle >= state.jobs.len() {
            self.queue.added.notify_one();
            return Ok(());
        }
        drop(state);
        let queue = Arc::clone(&self.queue);
        std::thread::Builder::new().name("file-drop".to_owned()).spawn(move || queue.work()).map(drop)
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

    use crate::connector::memory::ConnectorMemory;

    use super::*;

    #[test]
    fn threads_that_hang_are_counted_after_their_connector_is_gone() {
        let (memory, acme) = (ConnectorMemory::default(), "ten_acme".into());
        let threads = memory.threads(&acme);
        let (end, ended) = mpsc::channel::<()>();
        let slot = threads.slot_if_free().unwrap();
        threads
            .run(slot, move || {
                let _ = ended.recv();
            })
            .unwrap();
        drop(threads);
        assert_eq!(memory.threads(&acme).free.available_permits(), PER_TENANT - 1);
        drop(end);
        while memory.threads(&acme).free.available_permits() < PER_TENANT {
            std::thread::yield_now();
        }
    }
}

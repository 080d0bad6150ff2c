//! Threads for file operations, so that a slow disk delays neither the async workers nor the ledger.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::Fault;

/// Number of threads. Each runs one operation on one piece of a file at a time, so that slow peers hold none of them.
const THREADS: usize = 4;

type DiskJob = Box<dyn FnOnce() + Send>;

/// The threads, started with the first job. Every open file has at most one job at a time and the number of open files
/// is limited, so the queue is short.
#[derive(Default)]
pub(super) struct DiskThreads(OnceLock<Sender<DiskJob>>);

impl DiskThreads {
    /// Runs `work` on one of the threads. It is finished even if the caller stops waiting.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let (done, result) = oneshot::channel();
        self.send(move || drop(done.send(work())));
        result.await.map_err(|_| Fault::Disk("a thread for files has ended".to_owned()))
    }

    /// Runs `work` on one of the threads without waiting for it.
    pub fn send(&self, work: impl FnOnce() + Send + 'static) {
        // It fails only if no thread could be started. The job is dropped then, which its caller notices.
        let _ = self.0.get_or_init(start).send(Box::new(work));
    }
}

fn start() -> Sender<DiskJob> {
    let (jobs, queue) = channel();
    let queue = Arc::new(Mutex::new(queue));
    for number in 0..THREADS {
        let queue = Arc::clone(&queue);
        let started =
            std::thread::Builder::new().name(format!("media-{number}")).spawn(move || work_off(&queue));
        if let Err(error) = started {
            tracing::error!(%error, "could not start a thread for files");
        }
    }
    jobs
}

/// Runs jobs until the store is dropped.
fn work_off(queue: &Mutex<Receiver<DiskJob>>) {
    loop {
        let job = queue.lock().recv();
        let Ok(job) = job else { return };
        // A panic ends only this job. Its caller notices that the result never comes.
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
            tracing::error!("an operation on a file panicked");
        }
    }
}

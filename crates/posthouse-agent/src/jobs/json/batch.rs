//! Batched writes of the job file: many waiting changes, one lock, one flush.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::document::Document;
use super::file::JobFile;
use crate::jobs::Fault;

/// Pause between two changes of one process.
const BREATH: Duration = Duration::from_micros(300);

pub(super) struct Batch {
    file: Arc<JobFile>,
    queue: Arc<Mutex<ChangeQueue>>,
}

#[derive(Default)]
struct ChangeQueue {
    waiting: Vec<Box<dyn QueuedChange>>,
    /// A thread is writing and will check the queue again before it ends.
    being_served: bool,
}

trait QueuedChange: Send {
    /// False if the caller has stopped waiting. A claim that nobody learns of would only block others.
    fn is_wanted(&self) -> bool;
    fn run(&mut self, document: &mut Document);
    fn settle(self: Box<Self>, written: Result<(), Fault>);
}

struct WaitingChange<W, T> {
    work: Option<W>,
    answer: Option<T>,
    reply: oneshot::Sender<Result<T, Fault>>,
}

impl<W, T> QueuedChange for WaitingChange<W, T>
where
    T: Send,
    W: FnOnce(&mut Document) -> T + Send,
{
    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn run(&mut self, document: &mut Document) {
        self.answer = self.work.take().map(|work| work(document));
    }

    fn settle(self: Box<Self>, written: Result<(), Fault>) {
        let Self { answer, reply, .. } = *self;
        // Fails only if the caller has stopped waiting after its work was done.
        let _ = reply.send(written.and_then(|()| answer.ok_or_else(unfinished)));
    }
}

impl Batch {
    pub(super) fn new(file: Arc<JobFile>) -> Self {
        Self { file, queue: Arc::default() }
    }

    /// Runs `work` under the lock and returns after its changes are on disk.
    pub(super) async fn run<W, T>(&self, work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnOnce(&mut Document) -> T + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        if !self.enqueue(Box::new(WaitingChange { work: Some(work), answer: None, reply })) {
            let writer = BatchWriter { file: Arc::clone(&self.file), queue: Arc::clone(&self.queue) };
            // Detached from the caller, so that other waiting callers are served even if this one stops
            // waiting.
            tokio::task::spawn_blocking(move || writer.serve());
        }
        answer.await.unwrap_or_else(|_| Err(unfinished()))
    }

    /// Queues the task. Returns whether a thread already serves the queue.
    fn enqueue(&self, task: Box<dyn QueuedChange>) -> bool {
        let mut queue = self.queue.lock();
        queue.waiting.push(task);
        std::mem::replace(&mut queue.being_served, true)
    }
}

struct BatchWriter {
    file: Arc<JobFile>,
    queue: Arc<Mutex<ChangeQueue>>,
}

impl BatchWriter {
    fn serve(self) {
        while self.is_needed() {
            let mut batch = Vec::new();
            let written = self.file.change(|document| {
                // Taken under the lock, so that tasks that arrived while waiting for it join this batch.
                batch = self.take_waiting();
                for task in &mut batch {
                    task.run(document);
                }
            });
            if written.is_err() && batch.is_empty() {
                batch = self.take_waiting();
            }
            for task in batch {
                task.settle(written.clone());
            }
            // Other processes try the lock every millisecond. Without a pause they would never find it
            // free.
            std::thread::sleep(BREATH);
        }
    }

    fn is_needed(&self) -> bool {
        let mut queue = self.queue.lock();
        queue.being_served = !queue.waiting.is_empty();
        queue.being_served
    }

    fn take_waiting(&self) -> Vec<Box<dyn QueuedChange>> {
        let mut waiting = std::mem::take(&mut self.queue.lock().waiting);
        waiting.retain(|task| task.is_wanted());
        waiting
    }
}

/// Only a panic leaves the queue without a thread. The next caller then starts one.
impl Drop for BatchWriter {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.queue.lock().being_served = false;
        }
    }
}

fn unfinished() -> Fault {
    Fault::Io("the change was not completed".to_owned())
}

//! The threads that work on indexes, and their queue.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use super::index_file::TenantIndex;
use crate::Fault;

/// Threads that work on indexes.
const THREADS: usize = 3;
/// Indexes that stay open.
const OPEN: usize = 64;
/// Pieces of work of one tenant that may wait.
const WAITING: usize = 128;
/// Entries that may wait for the index before a writer catches up. A search has to add them first, which takes a few
/// milliseconds.
const UNINDEXED: usize = 128;

pub(super) type IndexJob = Box<dyn FnOnce(&mut TenantIndex) + Send>;

/// How far an index is. `None` for what is not known.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct IndexPosition {
    /// The number of the last entry in the index.
    pub indexed: Option<i64>,
    /// The number of the tenant's last entry.
    pub written: Option<i64>,
}

impl IndexPosition {
    /// Whether the index is known to have everything.
    pub fn is_up_to_date(self) -> bool {
        matches!(self, Self { indexed: Some(indexed), written: Some(written) } if indexed >= written)
    }
}

pub(super) struct IndexQueue {
    folder: Option<PathBuf>,
    state: Mutex<IndexWork>,
    work_added: Condvar,
}

#[derive(Default)]
struct IndexWork {
    tenants: HashMap<Arc<str>, TenantSlot>,
    /// Tenants with work that can be started, in the order of their turns.
    turns: VecDeque<Arc<str>>,
    /// Counts the pieces of work, to find the index that was not used for the longest time.
    work_done: u64,
    closed: bool,
}

/// What is known of one tenant. It is forgotten when its index is closed and no entry waits for it.
#[derive(Default)]
struct TenantSlot {
    jobs: VecDeque<IndexJob>,
    running: bool,
    index: Option<TenantIndex>,
    last_used: u64,
    position: IndexPosition,
    /// The number of the last entry that was reported.
    reported: i64,
    unindexed: usize,
    catching_up: Arc<tokio::sync::Mutex<()>>,
}

impl IndexQueue {
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, state: Mutex::default(), work_added: Condvar::new() }
    }

    /// False if too much work of the tenant is waiting.
    pub fn add(&self, tenant: &str, job: IndexJob) -> Result<bool, Fault> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Fault::Closed);
        }
        let name = state.named(tenant);
        let slot = state.tenants.entry(Arc::clone(&name)).or_default();
        if slot.jobs.len() >= WAITING {
            return Ok(false);
        }
        slot.jobs.push_back(job);
        if slot.jobs.len() == 1 && !slot.running {
            state.turns.push_back(name);
            self.work_added.notify_one();
        }
        Ok(true)
    }

    pub fn position(&self, tenant: &str) -> IndexPosition {
        self.state.lock().tenants.get(tenant).map(|slot| slot.position).unwrap_or_default()
    }

    pub fn wrote(&self, tenant: &str, seq: i64) {
        let mut state = self.state.lock();
        let name = state.named(tenant);
        let slot = state.tenants.entry(name).or_default();
        slot.reported = seq.max(slot.reported);
        if let Some(written) = &mut slot.position.written {
            *written = seq.max(*written);
        }
        slot.unindexed += 1;
    }

    pub fn is_behind(&self, tenant: &str) -> bool {
        self.state.lock().tenants.get(tenant).is_some_and(|slot| slot.unindexed >= UNINDEXED)
    }

    pub fn added(&self, tenant: &str, entries: usize) {
        if let Some(slot) = self.state.lock().tenants.get_mut(tenant) {
            slot.unindexed = slot.unindexed.saturating_sub(entries);
        }
    }

    pub fn caught_up(&self, tenant: &str, seq: i64) {
        if let Some(slot) = self.state.lock().tenants.get_mut(tenant) {
            // Entries that were committed after the caller looked have been reported.
            let written = slot.position.written.unwrap_or(seq).max(slot.reported).max(seq);
            slot.position.written = Some(written);
            if written == seq {
                slot.unindexed = 0;
            }
        }
    }

    pub fn catching_up(&self, tenant: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut state = self.state.lock();
        let name = state.named(tenant);
        Arc::clone(&state.tenants.entry(name).or_default().catching_up)
    }

    /// Works until the queue is closed.
    fn serve(&self) {
        while let Some((tenant, mut index, job)) = self.next() {
            // Work that panics is a bug and fails its caller.
            let _ = std::panic::catch_unwind(AssertUnwindSafe(|| job(&mut index)));
            let unused = self.state.lock().finish(&tenant, index, &self.work_added);
            // Closing a file takes a while, so it happens outside of the lock.
            drop(unused);
        }
    }

    fn next(&self) -> Option<(Arc<str>, TenantIndex, IndexJob)> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(tenant) = state.turns.pop_front()
                && let Some(slot) = state.tenants.get_mut(&tenant)
                && let Some(job) = slot.jobs.pop_front()
            {
                slot.running = true;
                let index =
                    slot.index.take().unwrap_or_else(|| TenantIndex::new(self.folder.as_deref(), &tenant));
                return Some((tenant, index, job));
            }
            if state.turns.is_empty() {
                self.work_added.wait(&mut state);
            }
        }
    }
}

impl IndexWork {
    /// The one copy of a tenant's id.
    fn named(&self, tenant: &str) -> Arc<str> {
        self.tenants.get_key_value(tenant).map_or_else(|| Arc::from(tenant), |(known, _)| Arc::clone(known))
    }

    /// Puts an index back. Returns one that is to be closed, if too many are open.
    fn finish(&mut self, tenant: &Arc<str>, index: TenantIndex, added: &Condvar) -> Option<TenantIndex> {
        self.work_done += 1;
        let slot = self.tenants.get_mut(tenant)?;
        (slot.running, slot.last_used) = (false, self.work_done);
        slot.position.indexed = index.indexed();
        if slot.position.indexed.is_none() {
            slot.position.written = None;
        }
        slot.index = Some(index);
        if !slot.jobs.is_empty() {
            self.turns.push_back(Arc::clone(tenant));
            added.notify_one();
        }
        let open = self.tenants.values().filter(|slot| slot.running || slot.index.is_some()).count();
        if open <= OPEN {
            return None;
        }
        let idle = self
            .tenants
            .iter()
            .filter(|(_, slot)| slot.index.is_some() && slot.jobs.is_empty() && !slot.running);
        let oldest = idle.min_by_key(|(_, slot)| slot.last_used).map(|(name, _)| Arc::clone(name))?;
        let slot = self.tenants.get_mut(&oldest)?;
        slot.position = IndexPosition::default();
        let closed = slot.index.take();
        if slot.unindexed == 0 {
            self.tenants.remove(&oldest);
        }
        closed
    }
}

/// The threads. Dropping it ends them; work that has not begun is dropped, and its callers get a fault.
pub(super) struct IndexWorkers {
    queue: Arc<IndexQueue>,
    threads: Vec<JoinHandle<()>>,
}

impl IndexWorkers {
    pub fn start(queue: &Arc<IndexQueue>) -> Result<Self, Fault> {
        let mut workers = Self { queue: Arc::clone(queue), threads: Vec::with_capacity(THREADS) };
        for _ in 0..THREADS {
            let queue = Arc::clone(queue);
            let thread = std::thread::Builder::new().name("ledger-search".to_owned());
            let thread = thread.spawn(move || queue.serve());
            workers.threads.push(thread.map_err(|error| Fault::Storage(error.to_string()))?);
        }
        Ok(workers)
    }
}

impl Drop for IndexWorkers {
    fn drop(&mut self) {
        self.queue.state.lock().closed = true;
        self.queue.work_added.notify_all();
        let this = std::thread::current().id();
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != this) {
            let _ = thread.join();
        }
        // The callers of work that was not begun wake up here, and the files are closed.
        let tenants = std::mem::take(&mut self.queue.state.lock().tenants);
        drop(tenants);
    }
}

//! Skill threads: work on skill texts and runs, on a few threads of their own, in turns between tenants.
//!
//! Parsing, checking and running a skill computes for as long as its text says, and one operation does not pause. On
//! the server's own threads that would delay messages of everybody. So such work is polled here. What it waits for
//! (stores, tools, agents) stays on the server's threads, because the work has the server's runtime at hand.
//!
//! - Each poll is one turn. Tenants take turns, and the pieces of work of one tenant take turns.
//! - One tenant never has all threads, so that another one need not wait for the end of a turn.
//! - The work of a tenant is bounded in number. Beyond the bound it is refused.
//! - Work whose caller stops waiting is dropped at its next turn.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use parking_lot::{Condvar, Mutex};
use posthouse_wire::TenantId;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// The fewest and the most threads. Between them it is half of the machine's processors.
const THREADS: (usize, usize) = (2, 8);
/// Pieces of work at once in the whole server. A tenant has at most as many as are still free.
const WORK_AT_ONCE: usize = 4096;

/// The states of a piece of work.
const WAITING: u8 = 0;
const READY: u8 = 1;
const POLLED: u8 = 2;
const POLLED_AND_WOKEN: u8 = 3;

/// Threads for skills. They start with the first work, and end with this handle.
pub struct SkillThreads {
    threads: usize,
    limit: usize,
    started: OnceLock<Arc<WorkTurns>>,
}

/// Why there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTurn {
    /// The tenant has too much work that has not ended.
    Full,
    /// The work failed inside, or the server is shutting down.
    Broken,
}

/// Work that can go on, by tenant.
struct WorkTurns {
    state: Mutex<TurnState>,
    changed: Condvar,
    /// Threads that one tenant may have.
    of_a_tenant: usize,
}

#[derive(Default)]
struct TurnState {
    /// Tenants with work that is ready. The first one that may have another thread is next.
    order: VecDeque<TenantId>,
    ready: HashMap<TenantId, VecDeque<Arc<SkillWork>>>,
    /// Threads by tenant.
    busy: HashMap<TenantId, usize>,
    /// Work that has not ended, by tenant.
    held: HashMap<TenantId, usize>,
    is_closed: bool,
}

/// One piece of work.
struct SkillWork {
    tenant: TenantId,
    turns: Weak<WorkTurns>,
    state: AtomicU8,
    is_dropped: AtomicBool,
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
}

impl Default for SkillThreads {
    fn default() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self::new((processors / 2).clamp(THREADS.0, THREADS.1), WORK_AT_ONCE)
    }
}

impl SkillThreads {
    fn new(threads: usize, limit: usize) -> Self {
        Self { threads, limit, started: OnceLock::new() }
    }

    /// Does work in the turns of a tenant. It is dropped if the caller stops waiting.
    pub async fn run<T: Send + 'static>(
        &self,
        tenant: &TenantId,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, NoTurn> {
        self.run_within(self.limit, tenant, work).await
    }

    /// The same for work that was accepted before and that something else bounds. It is never refused.
    pub async fn run_accepted<T: Send + 'static>(
        &self,
        tenant: &TenantId,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, NoTurn> {
        self.run_within(usize::MAX, tenant, work).await
    }

    async fn run_within<T: Send + 'static>(
        &self,
        limit: usize,
        tenant: &TenantId,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, NoTurn> {
        let (result, ended) = oneshot::channel();
        let future = Box::pin(async move {
            // If nobody waits any more, the result is of no use.
            let _ = result.send(work.await);
        });
        let work = self.turns().add(tenant, future, limit).ok_or(NoTurn::Full)?;
        let _dropped_with_caller = CallerWaits(work);
        ended.await.map_err(|_| NoTurn::Broken)
    }

    fn turns(&self) -> &Arc<WorkTurns> {
        self.started.get_or_init(|| {
            let turns = Arc::new(WorkTurns {
                state: Mutex::default(),
                changed: Condvar::new(),
                of_a_tenant: self.threads.saturating_sub(1).max(1),
            });
            let runtime = Handle::current();
            for number in 0..self.threads {
                let (turns, runtime) = (Arc::clone(&turns), runtime.clone());
                let spawned = thread::Builder::new().name(format!("skills-{number}")).spawn(move || {
                    let _runtime = runtime.enter();
                    turns.work();
                });
                if let Err(why) = spawned {
                    tracing::error!(%why, "a thread for skills could not be started");
                }
            }
            turns
        })
    }
}

impl Drop for SkillThreads {
    fn drop(&mut self) {
        if let Some(turns) = self.started.get() {
            turns.state.lock().is_closed = true;
            turns.changed.notify_all();
        }
    }
}

/// Drops the work when its caller stops waiting. Work that has ended is not affected.
struct CallerWaits(Arc<SkillWork>);

impl Drop for CallerWaits {
    fn drop(&mut self) {
        self.0.is_dropped.store(true, Ordering::Release);
        Arc::clone(&self.0).wake();
    }
}

impl WorkTurns {
    /// `None` if the tenant has too much.
    fn add(
        self: &Arc<Self>,
        tenant: &TenantId,
        future: Pin<Box<dyn Future<Output = ()> + Send>>,
        limit: usize,
    ) -> Option<Arc<SkillWork>> {
        let work = Arc::new(SkillWork {
            tenant: tenant.clone(),
            turns: Arc::downgrade(self),
            state: AtomicU8::new(READY),
            is_dropped: AtomicBool::new(false),
            future: Mutex::new(Some(future)),
        });
        let mut state = self.state.lock();
        let free = limit.saturating_sub(state.held.values().sum());
        let held = state.held.entry(tenant.clone()).or_default();
        if *held >= free {
            if *held == 0 {
                state.held.remove(tenant);
            }
            return None;
        }
        *held += 1;
        state.push(Arc::clone(&work));
        drop(state);
        self.changed.notify_one();
        Some(work)
    }

    /// What each thread does.
    fn work(&self) {
        while let Some(work) = self.next() {
            let has_ended = work.poll();
            let mut state = self.state.lock();
            forget_one(&mut state.busy, &work.tenant);
            if has_ended {
                forget_one(&mut state.held, &work.tenant);
            } else if !work.goes_to_sleep() {
                state.push(work);
            }
            // Work that had to wait because its tenant had its threads may be next for a thread that waits.
            let more = !state.order.is_empty();
            drop(state);
            if more {
                self.changed.notify_one();
            }
        }
    }

    /// The work whose turn it is. `None` when the threads end.
    fn next(&self) -> Option<Arc<SkillWork>> {
        let mut state = self.state.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(work) = state.take(self.of_a_tenant) {
                return Some(work);
            }
            self.changed.wait(&mut state);
        }
    }
}

impl TurnState {
    fn push(&mut self, work: Arc<SkillWork>) {
        let ready = self.ready.entry(work.tenant.clone()).or_default();
        if ready.is_empty() {
            self.order.push_back(work.tenant.clone());
        }
        ready.push_back(work);
    }

    fn take(&mut self, of_a_tenant: usize) -> Option<Arc<SkillWork>> {
        let may_go = |tenant: &TenantId| self.busy.get(tenant).is_none_or(|busy| *busy < of_a_tenant);
        let at = self.order.iter().position(may_go)?;
        let tenant = self.order.remove(at)?;
        let ready = self.ready.get_mut(&tenant)?;
        let work = ready.pop_front();
        if ready.is_empty() {
            self.ready.remove(&tenant);
        } else {
            self.order.push_back(tenant.clone());
        }
        *self.busy.entry(tenant).or_default() += 1;
        work
    }
}

fn forget_one(counts: &mut HashMap<TenantId, usize>, tenant: &TenantId) {
    if let Some(count) = counts.get_mut(tenant) {
        *count -= 1;
        if *count == 0 {
            counts.remove(tenant);
        }
    }
}

impl SkillWork {
    /// One turn. True if the work has ended.
    fn poll(self: &Arc<Self>) -> bool {
        self.state.store(POLLED, Ordering::Release);
        let mut future = self.future.lock();
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let Some(work) = future.as_mut().filter(|_| !self.is_dropped.load(Ordering::Acquire)) else {
                return Poll::Ready(());
            };
            work.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(self))))
        }));
        if matches!(polled, Ok(Poll::Pending)) {
            return false;
        }
        if polled.is_err() {
            tracing::error!(tenant = %self.tenant, "work on a skill panicked");
        }
        let ended = future.take();
        drop(future);
        if catch_unwind(AssertUnwindSafe(|| drop(ended))).is_err() {
            tracing::error!(tenant = %self.tenant, "work on a skill panicked when it was dropped");
        }
        true
    }

    /// False if it was woken during its turn, so that it is ready again.
    fn goes_to_sleep(&self) -> bool {
        let slept = self.state.compare_exchange(POLLED, WAITING, Ordering::AcqRel, Ordering::Acquire);
        if slept.is_err() {
            self.state.store(READY, Ordering::Release);
        }
        slept.is_ok()
    }
}

impl Wake for SkillWork {
    fn wake(self: Arc<Self>) {
        let woken = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| match state {
            WAITING => Some(READY),
            POLLED => Some(POLLED_AND_WOKEN),
            _ => None,
        });
        if woken == Ok(WAITING)
            && let Some(turns) = self.turns.upgrade()
        {
            turns.state.lock().push(self);
            turns.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;

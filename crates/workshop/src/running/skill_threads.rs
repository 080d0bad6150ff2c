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
    limit: usize,
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
        let (result, ended) = oneshot::channel();
        let future = Box::pin(async move {
            // If nobody waits any more, the result is of no use.
            let _ = result.send(work.await);
        });
        let work = self.turns().add(tenant, future).ok_or(NoTurn::Full)?;
        let _dropped_with_caller = CallerWaits(work);
        ended.await.map_err(|_| NoTurn::Broken)
    }

    fn turns(&self) -> &Arc<WorkTurns> {
        self.started.get_or_init(|| {
            let turns = Arc::new(WorkTurns {
                state: Mutex::default(),
                changed: Condvar::new(),
                of_a_tenant: self.threads.saturating_sub(1).max(1),
                limit: self.limit,
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
    ) -> Option<Arc<SkillWork>> {
        let work = Arc::new(SkillWork {
            tenant: tenant.clone(),
            turns: Arc::downgrade(self),
            state: AtomicU8::new(READY),
            is_dropped: AtomicBool::new(false),
            future: Mutex::new(Some(future)),
        });
        let mut state = self.state.lock();
        let free = self.limit.saturating_sub(state.held.values().sum());
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
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn tenants() -> (TenantId, TenantId) {
        ("acme".into(), "zen".into())
    }

    /// Work that keeps its thread until the sender is dropped. The second part says that it has begun.
    fn blocking() -> (impl Future<Output = ()> + Send + 'static, mpsc::Sender<()>, mpsc::Receiver<()>) {
        let (end, until) = mpsc::channel::<()>();
        let (begins, begun) = mpsc::channel();
        let work = async move {
            let _ = begins.send(());
            let _ = until.recv();
        };
        (work, end, begun)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn while_one_tenant_blocks_its_threads_another_ones_work_is_done() {
        let threads = Arc::new(SkillThreads::new(2, 100));
        let (acme, zen) = tenants();
        let (work, end, begun) = blocking();
        let mut blocked = vec![];
        let spawn = |work: Pin<Box<dyn Future<Output = ()> + Send>>| {
            let (threads, acme) = (Arc::clone(&threads), acme.clone());
            tokio::spawn(async move { threads.run(&acme, work).await })
        };
        blocked.push(spawn(Box::pin(work)));
        tokio::task::spawn_blocking(move || begun.recv()).await.unwrap().unwrap();
        // More of the same tenant waits, although a thread is free.
        let (late, late_end, late_begun) = blocking();
        blocked.push(spawn(Box::pin(late)));
        assert_eq!(threads.run(&zen, async { "done" }).await, Ok("done"));
        assert!(late_begun.try_recv().is_err(), "a tenant has at most one of two threads");
        drop((end, late_end));
        for work in blocked {
            assert_eq!(work.await.unwrap(), Ok(()));
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn with_one_thread_tenants_take_turns_however_much_one_of_them_has() {
        let threads = SkillThreads::new(1, 100);
        let (acme, zen) = tenants();
        let turns = Arc::new(Mutex::new(Vec::new()));
        let (work, end, begun) = blocking();
        let turn = |tenant: &'static str| {
            let turns = Arc::clone(&turns);
            async move {
                for _ in 0..2 {
                    turns.lock().push(tenant);
                    tokio::task::yield_now().await;
                }
            }
        };
        // Everything is ready before the first turn.
        let start = async {
            tokio::task::spawn_blocking(move || begun.recv()).await.unwrap().unwrap();
            while threads.turns().state.lock().held.values().sum::<usize>() < 5 {
                tokio::task::yield_now().await;
            }
            drop(end);
        };
        let (a, b, c) =
            (threads.run(&acme, turn("a")), threads.run(&acme, turn("a")), threads.run(&acme, turn("a")));
        let first = threads.run(&acme, work);
        let z = threads.run(&zen, turn("z"));
        let (ended, ..) = tokio::join!(first, a, b, c, z, start);
        assert_eq!(ended, Ok(()));
        let turns = turns.lock();
        let of_zen: Vec<usize> = (0..turns.len()).filter(|at| turns[*at] == "z").collect();
        assert_eq!(turns.len(), 8);
        assert!(of_zen[0] <= 1 && of_zen[1] <= 3, "{turns:?}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_tenant_with_too_much_work_is_refused_and_another_one_is_not() {
        let threads = SkillThreads::new(2, 4);
        let (acme, zen) = tenants();
        let (begin, begins) = tokio::sync::watch::channel(());
        let waits = || {
            let mut begins = begins.clone();
            async move { drop(begins.changed().await) }
        };
        let two = async { tokio::join!(threads.run(&acme, waits()), threads.run(&acme, waits())) };
        let others = async {
            while threads.turns().state.lock().held.get(&acme) != Some(&2) {
                tokio::task::yield_now().await;
            }
            assert_eq!(threads.run(&acme, async {}).await, Err(NoTurn::Full));
            assert_eq!(threads.run(&zen, async {}).await, Ok(()));
            drop(begin);
        };
        let (ended, ()) = tokio::join!(two, others);
        assert_eq!(ended, (Ok(()), Ok(())));
        // A result comes shortly before the thread has counted its end.
        while !threads.turns().state.lock().held.is_empty() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn work_is_dropped_with_its_caller_and_a_panic_ends_only_itself() {
        let threads = Arc::new(SkillThreads::new(2, 4));
        let (acme, _) = tenants();
        let (kept, dropped) = oneshot::channel::<()>();
        let waiting = {
            let (threads, acme) = (Arc::clone(&threads), acme.clone());
            tokio::spawn(async move {
                let endless = async move {
                    std::future::pending::<()>().await;
                    drop(kept);
                };
                threads.run(&acme, endless).await
            })
        };
        while threads.turns().state.lock().held.is_empty() {
            tokio::task::yield_now().await;
        }
        waiting.abort();
        assert!(dropped.await.is_err(), "the work is dropped");
        let panics = async { panic!("a mistake in the work") };
        assert_eq!(threads.run(&acme, panics).await, Err::<(), _>(NoTurn::Broken));
        let timer = async { tokio::time::sleep(std::time::Duration::from_millis(1)).await };
        assert_eq!(threads.run(&acme, timer).await, Ok(()), "timers of the server work here");
    }
}

//! Write queue: the jobs that wait for the writer, fair between tenants.
//!
//! Jobs that wait together are committed together, and every caller in a batch waits for the whole batch.
//! Without limits, many jobs of one tenant would make the commits of all others slow. So tenants take turns,
//! a batch holds a limited number of jobs of one tenant, and a tenant with too many waiting jobs has to wait
//! before it can add another.

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::HashMap;
use parking_lot::{Condvar, Mutex};
use tokio::sync::Semaphore;

use crate::Fault;

/// Jobs of one owner that may wait. A caller that adds another waits until one of them is taken.
const WAITING: usize = 1024;
/// Jobs in one batch. Past a few hundred, a longer batch only adds latency.
const BATCH: usize = 512;
/// Jobs of one owner in one batch: about a millisecond of work, a few times the cost of a commit itself.
const SHARE: usize = 32;

/// The tenant that a job is for. None: work of the server itself, which has no limited share.
pub(super) type JobTenant = Option<Arc<str>>;

pub(super) struct WriteQueue<J> {
    state: Mutex<QueueState<J>>,
    added: Condvar,
}

struct QueueState<J> {
    owners: HashMap<JobTenant, WaitingJobs<J>>,
    /// Owners with waiting jobs, in the order of their turns.
    turns: VecDeque<JobTenant>,
    closed: bool,
}

/// The waiting jobs of one owner.
struct WaitingJobs<J> {
    jobs: VecDeque<J>,
    /// Callers that have added a job or are about to. At zero the owner is removed.
    callers: usize,
    places: Arc<Semaphore>,
}

impl<J> WriteQueue<J> {
    pub fn new() -> Self {
        let state = QueueState { owners: HashMap::default(), turns: VecDeque::new(), closed: false };
        Self { state: Mutex::new(state), added: Condvar::new() }
    }

    /// Adds a job as soon as its owner has a place for it.
    pub async fn add(&self, owner: JobTenant, job: J) -> Result<(), Fault> {
        let waits = self.state.lock().enter(&owner, job)?;
        if let Some((job, places)) = waits {
            let caller = PendingAdd { queue: self, owner, added: false };
            places.acquire().await.map_err(|_| Fault::Closed)?.forget();
            return caller.add(job);
        }
        self.added.notify_one();
        Ok(())
    }

    /// Moves the next jobs into `batch`, and waits if there are none. False when the queue is closed and
    /// empty.
    pub fn take(&self, batch: &mut Vec<J>) -> bool {
        let mut state = self.state.lock();
        loop {
            state.take(batch);
            if !batch.is_empty() {
                return true;
            }
            if state.closed {
                return false;
            }
            self.added.wait(&mut state);
        }
    }

    /// Closes the queue: nothing can be added, but jobs that were added before are still taken.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.owners.values().for_each(|waiting| waiting.places.close());
        drop(state);
        self.added.notify_all();
    }

    /// Closes the queue and drops every job in it, when nobody is left to take them.
    pub fn abandon(&self) {
        self.close();
        let mut state = self.state.lock();
        let (jobs, _) = (std::mem::take(&mut state.owners), std::mem::take(&mut state.turns));
        // Dropping a job wakes its caller, which must not happen under the lock.
        drop(state);
        drop(jobs);
    }
}

impl<J> QueueState<J> {
    /// Adds a job. If the queue of its tenant is full, returns the job with the semaphore to wait for; its caller is
    /// already counted.
    fn enter(&mut self, owner: &JobTenant, job: J) -> Result<Option<(J, Arc<Semaphore>)>, Fault> {
        if self.closed {
            return Err(Fault::Closed);
        }
        let waiting = self.owners.entry(owner.clone()).or_insert_with(|| WaitingJobs {
            jobs: VecDeque::new(),
            callers: 0,
            places: Arc::new(Semaphore::new(WAITING)),
        });
        waiting.callers += 1;
        match waiting.places.try_acquire() {
            Ok(place) => place.forget(),
            Err(_) => return Ok(Some((job, Arc::clone(&waiting.places)))),
        }
        waiting.push(job, owner, &mut self.turns);
        Ok(None)
    }

    fn leave(&mut self, owner: &JobTenant) {
        if let Some(waiting) = self.owners.get_mut(owner) {
            waiting.callers -= 1;
            if waiting.callers == 0 {
                self.owners.remove(owner);
            }
        }
    }

    /// Takes one job of each owner in turn, until the batch is full or every owner has used its share.
    fn take(&mut self, batch: &mut Vec<J>) {
        for round in 0..BATCH {
            let mut took_none = true;
            for _ in 0..self.turns.len() {
                if batch.len() == BATCH {
                    return;
                }
                let Some(owner) = self.turns.pop_front() else { return };
                let mut has_more = true;
                if owner.is_none() || round < SHARE {
                    has_more = self.take_one(&owner, batch);
                    took_none = false;
                }
                if has_more {
                    self.turns.push_back(owner);
                }
            }
            if took_none {
                return;
            }
        }
    }

    /// Takes one job of an owner. True if the owner has more.
    fn take_one(&mut self, owner: &JobTenant, batch: &mut Vec<J>) -> bool {
        let Some(waiting) = self.owners.get_mut(owner) else { return false };
        batch.extend(waiting.jobs.pop_front());
        waiting.places.add_permits(1);
        waiting.callers -= 1;
        if waiting.callers == 0 {
            self.owners.remove(owner);
            return false;
        }
        !waiting.jobs.is_empty()
    }
}

impl<J> WaitingJobs<J> {
    fn push(&mut self, job: J, owner: &JobTenant, turns: &mut VecDeque<JobTenant>) {
        if self.jobs.is_empty() {
            turns.push_back(owner.clone());
        }
        self.jobs.push_back(job);
    }
}

/// A caller that waits for a place. If it is dropped before its job is added, it is no longer counted.
struct PendingAdd<'a, J> {
    queue: &'a WriteQueue<J>,
    owner: JobTenant,
    added: bool,
}

impl<J> PendingAdd<'_, J> {
    fn add(mut self, job: J) -> Result<(), Fault> {
        let mut state = self.queue.state.lock();
        if state.closed {
            drop(state);
            return Err(Fault::Closed);
        }
        let QueueState { owners, turns, .. } = &mut *state;
        let waiting = owners.get_mut(&self.owner).expect("an owner exists while it has a caller");
        waiting.push(job, &self.owner, turns);
        self.added = true;
        drop(state);
        self.queue.added.notify_one();
        Ok(())
    }
}

impl<J> Drop for PendingAdd<'_, J> {
    fn drop(&mut self) {
        if !self.added {
            self.queue.state.lock().leave(&self.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn tenant(name: &str) -> JobTenant {
        Some(name.into())
    }

    fn taken(queue: &WriteQueue<u32>) -> Vec<u32> {
        let mut batch = Vec::new();
        assert!(queue.take(&mut batch));
        batch
    }

    #[tokio::test]
    async fn a_flood_of_one_tenant_makes_no_batch_longer_than_its_share() {
        let queue = WriteQueue::new();
        for number in 0..100 {
            queue.add(tenant("loud"), number).await.unwrap();
        }
        assert_eq!(taken(&queue), (0..32).collect::<Vec<_>>(), "in the order they came");
        queue.add(tenant("quiet"), 1000).await.unwrap();
        let next = taken(&queue);
        assert_eq!(next.len(), 33);
        assert_eq!(next[1], 1000, "the other tenant's job is in the very next batch");
    }

    #[tokio::test]
    async fn work_of_the_server_itself_has_no_share() {
        let queue = WriteQueue::new();
        for number in 0..100 {
            queue.add(None, number).await.unwrap();
        }
        queue.add(tenant("acme"), 1000).await.unwrap();
        let batch = taken(&queue);
        assert_eq!((batch.len(), batch[1]), (101, 1000));
    }

    #[tokio::test]
    async fn many_tenants_share_a_batch_and_whoever_did_not_fit_in_is_next() {
        let queue = WriteQueue::new();
        for owner in 0..600_u32 {
            for _ in 0..2 {
                queue.add(tenant(&owner.to_string()), owner).await.unwrap();
            }
        }
        let mut batch = Vec::new();
        queue.take(&mut batch);
        assert_eq!(batch, (0..512).collect::<Vec<_>>());
        batch.clear();
        queue.take(&mut batch);
        assert_eq!(batch[..88], (512..600).collect::<Vec<_>>());
        assert_eq!(batch[88..], (0..424).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_tenant_with_too_many_jobs_waits_and_another_does_not() {
        let queue = WriteQueue::new();
        for number in 0..WAITING as u32 {
            queue.add(tenant("loud"), number).await.unwrap();
        }
        let mut refused = Box::pin(queue.add(tenant("loud"), 7000));
        assert!(refused.as_mut().now_or_never().is_none());
        queue.add(tenant("quiet"), 8000).await.unwrap();
        assert!(taken(&queue).contains(&8000));
        assert!(refused.as_mut().now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_caller_that_goes_away_leaves_nothing_behind() {
        let queue = WriteQueue::new();
        for number in 0..WAITING as u32 {
            queue.add(tenant("loud"), number).await.unwrap();
        }
        let mut gone = Box::pin(queue.add(tenant("loud"), 7000));
        assert!(gone.as_mut().now_or_never().is_none());
        drop(gone);
        let mut all = Vec::new();
        while all.len() < WAITING {
            all.extend(taken(&queue));
        }
        assert_eq!(all.len(), WAITING);
        let state = queue.state.lock();
        assert!(state.owners.is_empty() && state.turns.is_empty());
    }

    #[tokio::test]
    async fn what_was_added_before_the_close_is_taken_and_nothing_after_it() {
        let queue = WriteQueue::new();
        queue.add(tenant("acme"), 1).await.unwrap();
        queue.close();
        assert!(matches!(queue.add(tenant("acme"), 2).await, Err(Fault::Closed)));
        assert_eq!(taken(&queue), [1]);
        assert!(!queue.take(&mut Vec::new()));
    }
}

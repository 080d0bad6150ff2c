//! Fair queue between tenants: tenants take turns, and none holds more than its share of the places.

use std::collections::{HashMap, VecDeque};

use posthouse_wire::TenantId;

/// Work that waits for one of a limited number of places.
pub(crate) struct FairQueue<T> {
    places: usize,
    /// Maximum number of places per tenant.
    share: usize,
    waiting: HashMap<TenantId, VecDeque<T>>,
    /// Tenants with waiting work, in the order of their turns.
    turns: VecDeque<TenantId>,
    /// Number of places that each tenant holds.
    held: HashMap<TenantId, usize>,
    taken: usize,
}

impl<T> FairQueue<T> {
    pub fn new(places: usize, share: usize) -> Self {
        let (waiting, held) = (HashMap::new(), HashMap::new());
        Self { places, share, waiting, turns: VecDeque::new(), held, taken: 0 }
    }

    /// Amount of waiting work of this tenant.
    pub fn waiting(&self, tenant: &TenantId) -> usize {
        self.waiting.get(tenant).map_or(0, VecDeque::len)
    }

    pub fn push(&mut self, tenant: TenantId, work: T) {
        let waiting = self.waiting.entry(tenant.clone()).or_default();
        if waiting.is_empty() {
            self.turns.push_back(tenant);
        }
        waiting.push_back(work);
    }

    /// Takes the next work item that has a place. The caller gives the place back with [`FairQueue::done`].
    pub fn take(&mut self) -> Option<(TenantId, T)> {
        if self.taken >= self.places {
            return None;
        }
        let has_share = |tenant: &TenantId| self.held.get(tenant).is_none_or(|held| *held < self.share);
        let at = self.turns.iter().position(has_share)?;
        let tenant = self.turns.remove(at)?;
        let waiting = self.waiting.get_mut(&tenant)?;
        let work = waiting.pop_front()?;
        if waiting.is_empty() {
            self.waiting.remove(&tenant);
        } else {
            self.turns.push_back(tenant.clone());
        }
        *self.held.entry(tenant.clone()).or_default() += 1;
        self.taken += 1;
        Some((tenant, work))
    }

    pub fn done(&mut self, tenant: &TenantId) {
        self.taken = self.taken.saturating_sub(1);
        if let Some(held) = self.held.get_mut(tenant) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_that_fills_the_queue_leaves_another_its_share() {
        let (loud, quiet) = (TenantId::new("ten_loud"), TenantId::new("ten_quiet"));
        let mut queue = FairQueue::new(4, 3);
        for number in 0..100 {
            queue.push(loud.clone(), number);
        }
        let taken: Vec<_> = std::iter::from_fn(|| queue.take()).collect();
        assert_eq!(taken.len(), 3, "one place stays free for others");
        queue.push(quiet.clone(), 1);
        assert_eq!(queue.take(), Some((quiet.clone(), 1)));
        assert_eq!(queue.take(), None);
        // With a place free both take turns.
        queue.push(quiet.clone(), 2);
        queue.done(&loud);
        let next = queue.take().unwrap().0;
        queue.done(&quiet);
        assert_ne!(queue.take().unwrap().0, next);
    }

    #[test]
    fn what_is_done_leaves_nothing_behind() {
        let tenant = TenantId::new("ten_acme");
        let mut queue = FairQueue::new(2, 1);
        for number in 0..10 {
            queue.push(tenant.clone(), number);
        }
        for number in 0..10 {
            assert_eq!(queue.take(), Some((tenant.clone(), number)));
            assert_eq!(queue.take(), None);
            queue.done(&tenant);
        }
        assert_eq!((queue.waiting.len(), queue.turns.len(), queue.held.len(), queue.taken), (0, 0, 0, 0));
    }
}

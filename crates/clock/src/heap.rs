//! The near future in memory: two numbers an arm. The ledger is the truth; an entry whose arm has been
//! replaced or cancelled simply finds nothing when its time comes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ledger::{ArmKey, Due};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Who is due when, earliest first.
pub(crate) struct Heap {
    near: Mutex<Near>,
    /// Told when something earlier than everything else came in.
    pub nudge: Notify,
}

struct Near {
    heap: BinaryHeap<Reverse<Due>>,
    /// Everything due before this is in the heap; what lies beyond waits in the ledger.
    reaches_us: i64,
}

impl Heap {
    pub fn new() -> Self {
        let near = Near { heap: BinaryHeap::new(), reaches_us: i64::MIN };
        Self { near: Mutex::new(near), nudge: Notify::new() }
    }

    /// Takes in one arm, unless it lies beyond what is held.
    pub fn push(&self, due: Due) {
        let mut near = self.near.lock();
        if due.next_us >= near.reaches_us {
            return;
        }
        let is_earliest = near.heap.peek().is_none_or(|Reverse(first)| due.next_us < first.next_us);
        near.heap.push(Reverse(due));
        drop(near);
        if is_earliest {
            self.nudge.notify_one();
        }
    }

    /// Says that everything before `reaches_us` has been or is being pushed. What commits from now on is
    /// pushed by whoever commits it, so the pages that follow miss nothing.
    pub fn reach(&self, reaches_us: i64) {
        let mut near = self.near.lock();
        near.reaches_us = near.reaches_us.max(reaches_us);
    }

    /// What lies beyond could not be fetched after all.
    pub fn fall_back(&self, reaches_us: i64) {
        self.near.lock().reaches_us = reaches_us;
    }

    pub fn reaches_us(&self) -> i64 {
        self.near.lock().reaches_us
    }

    pub fn extend(&self, page: Vec<Due>) {
        let mut near = self.near.lock();
        near.heap.extend(page.into_iter().map(Reverse));
    }

    pub fn earliest_us(&self) -> Option<i64> {
        self.near.lock().heap.peek().map(|Reverse(due)| due.next_us)
    }

    /// Those due before `until_us`, oldest first.
    pub fn pop(&self, until_us: i64, at_most: usize) -> Vec<ArmKey> {
        let mut near = self.near.lock();
        let mut popped = Vec::new();
        while popped.len() < at_most
            && near.heap.peek().is_some_and(|Reverse(due)| due.next_us < until_us)
            && let Some(Reverse(due)) = near.heap.pop()
        {
            popped.push(due.key);
        }
        popped
    }

    pub fn len(&self) -> usize {
        self.near.lock().heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(next_us: i64, key: i64) -> Due {
        Due { next_us, key: ArmKey(key) }
    }

    #[test]
    fn what_lies_beyond_the_horizon_waits_in_the_ledger() {
        let heap = Heap::new();
        heap.push(due(10, 1));
        assert_eq!(heap.len(), 0);
        heap.reach(100);
        for (at, key) in [(50, 1), (20, 2), (100, 3), (20, 4)] {
            heap.push(due(at, key));
        }
        assert_eq!(heap.earliest_us(), Some(20));
        assert_eq!(heap.pop(50, 9), [ArmKey(2), ArmKey(4)]);
        assert_eq!(heap.pop(51, 9), [ArmKey(1)]);
        assert_eq!(heap.len(), 0);
    }
}

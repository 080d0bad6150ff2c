//! Heap of due times of the near future, with two numbers per arm.
//!
//! The ledger is authoritative: an entry whose arm was replaced or cancelled finds nothing when it is claimed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ledger::{ArmKey, Due};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Arms by due time, earliest first.
pub(crate) struct Heap {
    near: Mutex<HeapState>,
    /// Notified when an entry arrives that is earlier than all others.
    pub nudge: Notify,
}

struct HeapState {
    heap: BinaryHeap<Reverse<Due>>,
    /// Everything due before this is in the heap. Later arms are only in the ledger.
    reaches_us: i64,
}

impl Heap {
    pub fn new() -> Self {
        let near = HeapState { heap: BinaryHeap::new(), reaches_us: i64::MIN };
        Self { near: Mutex::new(near), nudge: Notify::new() }
    }

    /// Adds one arm, unless it is due beyond the range of the heap.
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

    /// Extends the range to `reaches_us`. Call it before the pages of that range are read: arms that commit
    /// from now on are pushed by the code that commits them, so nothing is missed.
    pub fn reach(&self, reaches_us: i64) {
        let mut near = self.near.lock();
        near.reaches_us = near.reaches_us.max(reaches_us);
    }

    /// Shrinks the range again, because reading the pages failed.
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

    /// Removes and returns arms that are due before `until_us`, oldest first.
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

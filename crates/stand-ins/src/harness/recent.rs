//! Bounded map: it removes its oldest entries, for all state that grows with use.

use std::collections::{HashMap, VecDeque};

/// The most entries of one map.
const MOST: usize = 20_000;

/// A map that removes its oldest entries when it is full.
pub(crate) struct Recent<V> {
    entries: HashMap<String, V>,
    order: VecDeque<String>,
}

impl<V> Default for Recent<V> {
    fn default() -> Recent<V> {
        Recent { entries: HashMap::new(), order: VecDeque::new() }
    }
}

impl<V> Recent<V> {
    pub fn insert(&mut self, id: String, value: V) {
        if self.entries.insert(id.clone(), value).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }

    pub fn get(&self, id: &str) -> Option<&V> {
        self.entries.get(id)
    }

    pub fn get_mut(&mut self, id: &str) -> Option<&mut V> {
        self.entries.get_mut(id)
    }

    pub fn remove(&mut self, id: &str) -> Option<V> {
        self.order.retain(|kept| kept != id);
        self.entries.remove(id)
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.order.iter().filter_map(|id| self.entries.get(id))
    }
}

//! Cache of records from the ledger. A record is found only while nothing that it depends on has changed.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use posthouse_time::Instant;

use crate::roster_versions::{RosterChange, RosterVersions};

/// Records by key.
pub(crate) struct RecordCache<K, V> {
    records: Cache<K, Arc<CachedRecord<V>>>,
    /// It bounds how long a change on another node goes unnoticed if its notification was lost.
    lifetime: Duration,
}

struct CachedRecord<V> {
    value: V,
    depends_on: Vec<RosterChange>,
    read: ReadMark,
}

/// When a record was read: taken before the read, so that a change during the read makes the record stale.
#[derive(Clone, Copy)]
pub(crate) struct ReadMark {
    pub version: u64,
    pub at: Instant,
}

impl<K, V> RecordCache<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    pub fn new(capacity: u64, lifetime: Duration) -> Self {
        Self { records: Cache::builder().max_capacity(capacity).time_to_live(lifetime).build(), lifetime }
    }

    pub fn get(&self, key: &K, versions: &RosterVersions, now: Instant) -> Option<V> {
        let cached = self.records.get(key)?;
        let is_fresh = now.since(cached.read.at) < self.lifetime
            && !versions.changed_since(cached.read.version, &cached.depends_on);
        is_fresh.then(|| cached.value.clone())
    }

    pub fn insert(&self, key: K, value: V, depends_on: Vec<RosterChange>, read: ReadMark) {
        self.records.insert(key, Arc::new(CachedRecord { value, depends_on, read }));
    }
}

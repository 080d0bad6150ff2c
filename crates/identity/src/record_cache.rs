//! Cache of records from the ledger. A record is found only while nothing that it depends on has changed.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use posthouse_time::Instant;
use quick_cache::Equivalent;
use quick_cache::sync::Cache;

use crate::roster_versions::{RosterChange, RosterVersions};

/// Records by key. Several are looked up for every message, so this is the cache with the cheapest lookup.
pub(crate) struct RecordCache<K, V> {
    records: Cache<K, Arc<CachedRecord<V>>>,
    /// Older records are not found. A newer one takes their place. It bounds how long a change on another node goes unnoticed if its notification was lost.
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
    K: Hash + Eq,
    V: Clone,
{
    pub fn new(capacity: usize, lifetime: Duration) -> Self {
        Self { records: Cache::new(capacity), lifetime }
    }

    pub fn get<Q>(&self, key: &Q, versions: &RosterVersions, now: Instant) -> Option<V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let cached = self.records.get(key)?;
        let is_fresh = now.since(cached.read.at) < self.lifetime
            && !versions.changed_since(cached.read.version, &cached.depends_on);
        is_fresh.then(|| cached.value.clone())
    }

    pub fn insert(&self, key: K, value: V, depends_on: Vec<RosterChange>, read: ReadMark) {
        self.records.insert(key, Arc::new(CachedRecord { value, depends_on, read }));
    }
}

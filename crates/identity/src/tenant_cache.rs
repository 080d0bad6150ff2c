//! Cache for records of tenants that another crate builds, such as connectors. A change of the tenant makes its record
//! stale before the command that changes it answers.

use std::time::Duration;

use posthouse_wire::TenantId;

use crate::RosterView;
use crate::record_cache::RecordCache;
use crate::roster_versions::RosterChange;

/// Records by tenant.
pub struct TenantCache<V> {
    roster: RosterView,
    records: RecordCache<TenantId, V>,
}

impl<V: Clone> TenantCache<V> {
    /// `lifetime` bounds how long a change on another node goes unnoticed if its notification was lost.
    pub fn new(roster: RosterView, capacity: usize, lifetime: Duration) -> Self {
        Self { roster, records: RecordCache::new(capacity, lifetime) }
    }

    /// The record of a tenant. `read` runs only if no current one is cached.
    pub async fn get<E>(&self, tenant: &TenantId, read: impl Future<Output = Result<V, E>>) -> Result<V, E> {
        if let Some(known) = self.roster.cached(&self.records, tenant) {
            return Ok(known);
        }
        let mark = self.roster.read_mark();
        let found = read.await?;
        let depends_on = vec![RosterChange::Tenant(tenant.clone())];
        self.records.insert(tenant.clone(), found.clone(), depends_on, mark);
        Ok(found)
    }
    /// The same for a record that can be refused. A refusal is not cached, because its reason may be gone the next time.
    pub async fn get_unless_refused<R, E>(
        &self,
        tenant: &TenantId,
        read: impl Future<Output = Result<Result<V, R>, E>>,
    ) -> Result<Result<V, R>, E> {
        let found = self.get(tenant, async {
            match read.await {
                Ok(Ok(record)) => Ok(record),
                Ok(Err(refusal)) => Err(Ok(refusal)),
                Err(fault) => Err(Err(fault)),
            }
        });
        found.await.map(Ok).or_else(|not_found| not_found.map(Err))
    }
}

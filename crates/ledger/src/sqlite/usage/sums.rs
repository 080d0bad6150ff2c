//! The sums themselves, in memory: what each tenant stores, its limit, and the changes of the open transaction.

use std::sync::Arc;

use foldhash::HashMap;
use rusqlite::{Connection, Row};

use super::agent_media::AgentMedia;
use super::statements::RECOUNT;
use crate::data::DATA_BYTES;
use crate::usage::{MEDIA_BYTES, TENANT_BYTES, TenantStorage};

/// Rows of each kind of history past which tenants with more than their share lose their oldest.
const HISTORY_ROWS: i64 = 5_000_000;

/// The sums of all tenants, and the changes to them by the open transaction.
pub(super) struct Sums {
    pub tenants: HashMap<Arc<str>, TenantUsage>,
    /// Includes removed agents as long as they have rows.
    pub tenant_of: HashMap<Box<str>, Arc<str>>,
    pub totals: StorageUse,
    pub agent_media: AgentMedia,
    /// Changes by the open transaction.
    pub changes: HashMap<Arc<str>, StorageUse>,
    /// Rows of `tenant_usage` that the open transaction has inserted.
    pub inserted: Vec<(Arc<str>, i64)>,
    pub default_limit: i64,
    pub default_media_limit: i64,
    pub default_data_limit: i64,
    pub history_rows: i64,
    /// The row of each history after which the next pass starts.
    pub walked: [i64; 3],
}

/// The sums and the limit of one tenant.
#[derive(Default)]
pub(super) struct TenantUsage {
    pub used: StorageUse,
    pub limit: Option<i64>,
    pub media_limit: Option<i64>,
    pub data_limit: Option<i64>,
    /// Its row of `tenant_usage`. Updating by row number takes a fraction of the time that the id would take.
    pub row: Option<i64>,
}

/// Stored bytes in the ledger, rows of each history, bytes in files, and bytes of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StorageUse {
    pub bytes: i64,
    pub rows: [i64; 3],
    pub media: i64,
    pub data: i64,
}

impl StorageUse {
    pub fn add(&mut self, change: StorageUse) {
        self.bytes += change.bytes;
        self.media += change.media;
        self.data += change.data;
        for (rows, more) in self.rows.iter_mut().zip(change.rows) {
            *rows += more;
        }
    }

    /// Reads the columns after the tenant.
    pub fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(StorageUse {
            bytes: row.get(1)?,
            rows: [row.get(2)?, row.get(3)?, row.get(4)?],
            media: row.get(5)?,
            data: row.get(6)?,
        })
    }

    pub fn negated(self) -> StorageUse {
        StorageUse {
            bytes: -self.bytes,
            rows: self.rows.map(|rows| -rows),
            media: -self.media,
            data: -self.data,
        }
    }
}

impl Sums {
    pub fn read(db: &Connection) -> rusqlite::Result<Self> {
        let mut sums = Sums {
            tenants: HashMap::default(),
            tenant_of: HashMap::default(),
            totals: StorageUse::default(),
            agent_media: AgentMedia::read(db)?,
            changes: HashMap::default(),
            inserted: Vec::new(),
            default_limit: TENANT_BYTES,
            default_media_limit: MEDIA_BYTES,
            default_data_limit: DATA_BYTES,
            history_rows: HISTORY_ROWS,
            walked: [0; 3],
        };
        let mut stored = db
            .prepare("SELECT tenant, bytes, entries, actions, fires, media, data, rowid FROM tenant_usage")?;
        let mut rows = stored.query([])?;
        while let Some(row) = rows.next()? {
            let tenant =
                TenantUsage { used: StorageUse::read(row)?, row: row.get(7)?, ..TenantUsage::default() };
            sums.totals.add(tenant.used);
            sums.tenants.insert(row.get::<_, String>(0)?.into(), tenant);
        }
        // Nothing is stored, or sums have never been stored.
        if sums.tenants.is_empty() {
            for (tenant, used) in recount(db)? {
                sums.change(tenant, used);
            }
        }
        let mut limits = db.prepare(
            "SELECT id, storage_bytes, media_bytes, data_bytes FROM tenants
             WHERE coalesce(storage_bytes, media_bytes, data_bytes) IS NOT NULL",
        )?;
        let mut rows = limits.query([])?;
        while let Some(row) = rows.next()? {
            let tenant = sums.tenants.entry(row.get::<_, String>(0)?.into()).or_default();
            (tenant.limit, tenant.media_limit, tenant.data_limit) = (row.get(1)?, row.get(2)?, row.get(3)?);
        }
        let mut agents =
            db.prepare("SELECT id, tenant FROM instances UNION ALL SELECT id, tenant FROM former_agents")?;
        let mut rows = agents.query([])?;
        while let Some(row) = rows.next()? {
            sums.agent_of(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
        }
        Ok(sums)
    }

    pub fn storage(&self, tenant: &str) -> TenantStorage {
        let (used, own) =
            self.tenants.get(tenant).map_or((0, None), |tenant| (tenant.used.bytes, tenant.limit));
        TenantStorage { used, limit: own.unwrap_or(self.default_limit), own_limit: own.is_some() }
    }

    pub fn media(&self, tenant: &str) -> TenantStorage {
        let (used, own) =
            self.tenants.get(tenant).map_or((0, None), |tenant| (tenant.used.media, tenant.media_limit));
        TenantStorage { used, limit: own.unwrap_or(self.default_media_limit), own_limit: own.is_some() }
    }

    pub fn data(&self, tenant: &str) -> TenantStorage {
        let (used, own) =
            self.tenants.get(tenant).map_or((0, None), |tenant| (tenant.used.data, tenant.data_limit));
        TenantStorage { used, limit: own.unwrap_or(self.default_data_limit), own_limit: own.is_some() }
    }

    /// The one copy of a tenant's id that all maps share.
    pub fn tenant_named(&self, tenant: &str) -> Arc<str> {
        self.tenants.get_key_value(tenant).map_or_else(|| Arc::from(tenant), |(known, _)| Arc::clone(known))
    }

    pub fn agent_of(&mut self, agent: &str, tenant: &str) {
        let tenant = self.tenant_named(tenant);
        self.tenants.entry(Arc::clone(&tenant)).or_default();
        self.tenant_of.insert(agent.into(), tenant);
    }

    pub fn change(&mut self, tenant: Arc<str>, change: StorageUse) {
        self.changes.entry(Arc::clone(&tenant)).or_default().add(change);
        self.add(tenant, change);
    }

    pub fn add(&mut self, tenant: Arc<str>, change: StorageUse) {
        self.totals.add(change);
        self.tenants.entry(tenant).or_default().used.add(change);
    }
}

/// Counts everything that is stored.
pub(super) fn recount(db: &Connection) -> rusqlite::Result<HashMap<Arc<str>, StorageUse>> {
    db.prepare(RECOUNT)?
        .query_map([], |row| Ok((row.get::<_, String>(0)?.into(), StorageUse::read(row)?)))?
        .collect()
}

//! Sums of the storage of each tenant, kept in memory beside the one writer.
//!
//! Every change is counted in the transaction that makes it, which also writes the changed sums to
//! `tenant_usage`. A rollback reverts them, too. The statements that run for every message report their
//! changes themselves ([`count_for_tenant`]), or call `counted_fire`. Triggers on the writer's connection report
//! all others. Writing to a table with triggers is expensive: for each statement SQLite then keeps a copy of
//! every page that the statement changes, to undo it alone. In debug builds the sums are compared with a
//! recount when the ledger is closed.

mod agent_media;
mod statements;
mod sums;

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use posthouse_wire::{InstanceId, TenantId};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, OptionalExtension, params};

#[cfg(debug_assertions)]
use self::agent_media::AgentMedia;
use self::statements::TRIGGERS;
use self::sums::{StorageUse, Sums, TenantUsage};
use super::Sqlite;
use crate::Fault;
use crate::usage::{TenantStorage, Usage};

/// The tables of history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum History {
    Entries,
    Actions,
    Fires,
}

/// A history with too many rows.
pub(super) struct OverShare {
    /// The number of rows beyond the limit.
    pub rows: i64,
    /// The tenants whose oldest rows are deleted.
    pub tenants: HashSet<Arc<str>>,
}

pub(super) struct UsageSums(Mutex<Sums>);

impl UsageSums {
    /// Reads the sums and follows all later changes by `db`, the writer's connection.
    pub(super) fn attach(db: &Connection) -> Result<Arc<Self>, Fault> {
        let sums = Arc::new(Self(Mutex::new(Sums::read(db)?)));
        sums.follow(db)?;
        // A first count is stored by itself: a transaction that is rolled back takes back what it changed.
        let first_count = db.unchecked_transaction()?;
        sums.store(&first_count)?;
        first_count.commit()?;
        sums.committed();
        Ok(sums)
    }

    fn follow(self: &Arc<Self>, db: &Connection) -> Result<(), Fault> {
        let sums = Arc::clone(self);
        db.create_scalar_function("agent_storage", 5, FunctionFlags::SQLITE_UTF8, move |row| {
            let rows = [row.get(2)?, row.get(3)?, row.get(4)?];
            let change = StorageUse { bytes: row.get(1)?, rows, ..StorageUse::default() };
            sums.change(row.get_raw(0).as_str()?, change);
            Ok(true)
        })?;
        // Counts a new row of `fires` and returns its number, so that the INSERT itself counts the row.
        let sums = Arc::clone(self);
        db.create_scalar_function("counted_fire", 2, FunctionFlags::SQLITE_UTF8, move |row| {
            let change = StorageUse { rows: [0, 0, 1], ..StorageUse::default() };
            sums.change(row.get_raw(0).as_str()?, change);
            row.get::<i64>(1)
        })?;
        let sums = Arc::clone(self);
        db.create_scalar_function(
            "tenant_storage",
            2,
            FunctionFlags::SQLITE_UTF8,
            move |row: &Context<'_>| {
                // A reply whose receipt is gone was subtracted together with it.
                if let Some(tenant) = row.get_raw(0).as_str_or_null()? {
                    let mut sums = sums.0.lock();
                    let tenant = sums.tenant_named(tenant);
                    sums.change(tenant, StorageUse { bytes: row.get(1)?, ..StorageUse::default() });
                }
                Ok(true)
            },
        )?;
        let sums = Arc::clone(self);
        db.create_scalar_function("media_storage", 3, FunctionFlags::SQLITE_UTF8, move |row| {
            let (agent, media) = (row.get_raw(1).as_str()?, row.get(2)?);
            let mut sums = sums.0.lock();
            let tenant = sums.tenant_named(row.get_raw(0).as_str()?);
            sums.change(tenant, StorageUse { media, ..StorageUse::default() });
            sums.agent_media.change(agent, media);
            Ok(true)
        })?;
        let sums = Arc::clone(self);
        db.create_scalar_function("data_storage", 2, FunctionFlags::SQLITE_UTF8, move |row| {
            let mut sums = sums.0.lock();
            let tenant = sums.tenant_named(row.get_raw(0).as_str()?);
            sums.change(tenant, StorageUse { data: row.get(1)?, ..StorageUse::default() });
            Ok(true)
        })?;
        let sums = Arc::clone(self);
        db.create_scalar_function("agent_of", 2, FunctionFlags::SQLITE_UTF8, move |row| {
            sums.0.lock().agent_of(row.get_raw(0).as_str()?, row.get_raw(1).as_str()?);
            Ok(true)
        })?;
        Ok(db.execute_batch(TRIGGERS)?)
    }

    /// Counts one more entry (`sign` 1), or one whose event is no longer stored (`sign` -1).
    pub(super) fn entry(&self, agent: &str, sign: i64, size: i64) {
        let more = i64::from(sign > 0);
        self.change(
            agent,
            StorageUse { bytes: sign * (size + ROW), rows: [more, 0, 0], ..StorageUse::default() },
        );
    }

    pub(super) fn action(&self, agent: &str) {
        self.change(agent, StorageUse { rows: [0, 1, 0], ..StorageUse::default() });
    }

    /// Rows of an agent that was removed before its tenant was recorded count for nobody.
    fn change(&self, agent: &str, change: StorageUse) {
        let mut sums = self.0.lock();
        if let Some(tenant) = sums.tenant_of.get(agent).cloned() {
            sums.change(tenant, change);
        }
    }

    /// Writes the changes of the open transaction.
    pub(super) fn store(&self, db: &Connection) -> rusqlite::Result<()> {
        let mut sums = self.0.lock();
        if sums.changes.is_empty() {
            return Ok(());
        }
        let mut update = db.prepare_cached(
            "UPDATE tenant_usage SET bytes = ?2, entries = ?3, actions = ?4, fires = ?5, media = ?6, data = ?7
             WHERE rowid = ?1",
        )?;
        let mut inserted = Vec::new();
        for tenant in sums.changes.keys() {
            let Some(TenantUsage { used: StorageUse { bytes, rows, media, data }, row, .. }) =
                sums.tenants.get(tenant)
            else {
                continue;
            };
            let [entries, actions, fires] = rows;
            match row {
                Some(row) => update.execute([row, bytes, entries, actions, fires, media, data]).map(drop)?,
                None => {
                    db.prepare_cached(
                        "INSERT INTO tenant_usage (tenant, bytes, entries, actions, fires, media, data)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                    )?
                    .execute(params![&**tenant, bytes, entries, actions, fires, media, data])?;
                    inserted.push((Arc::clone(tenant), db.last_insert_rowid()));
                }
            }
        }
        sums.inserted = inserted;
        Ok(())
    }

    /// Panics if a change was not counted.
    #[cfg(debug_assertions)]
    pub(super) fn check(&self, db: &Connection) -> rusqlite::Result<()> {
        let mut counted = sums::recount(db)?;
        for (tenant, TenantUsage { used, .. }) in &self.0.lock().tenants {
            assert_eq!(*used, counted.remove(tenant).unwrap_or_default(), "what {tenant} stores");
        }
        assert!(counted.is_empty(), "what {:?} store was never counted", counted.keys());
        assert_eq!(self.0.lock().agent_media, AgentMedia::read(db)?, "the files of each agent");
        Ok(())
    }

    pub(super) fn committed(&self) {
        let mut sums = self.0.lock();
        sums.changes.clear();
        sums.agent_media.committed();
        for (tenant, row) in std::mem::take(&mut sums.inserted) {
            sums.tenants.entry(tenant).or_default().row = Some(row);
        }
    }

    pub(super) fn rolled_back(&self) {
        let mut sums = self.0.lock();
        sums.inserted.clear();
        for (tenant, change) in std::mem::take(&mut sums.changes) {
            sums.add(tenant, change.negated());
        }
        sums.agent_media.rolled_back();
    }

    pub(super) fn set_default_limit(&self, bytes: i64) {
        self.0.lock().default_limit = bytes;
    }

    pub(super) fn set_default_media_limit(&self, bytes: i64) {
        self.0.lock().default_media_limit = bytes;
    }

    pub(super) fn set_default_data_limit(&self, bytes: i64) {
        self.0.lock().default_data_limit = bytes;
    }

    pub(super) fn data_of_tenant(&self, tenant: &str) -> TenantStorage {
        self.0.lock().data(tenant)
    }

    pub(super) fn set_history_rows(&self, rows: i64) {
        self.0.lock().history_rows = rows;
    }

    /// While a history has too many rows: the tenants that have more of them than their share.
    pub(super) fn over_share(&self, history: History) -> Option<OverShare> {
        let sums = self.0.lock();
        let kind = history as usize;
        let rows = sums.totals.rows[kind] - sums.history_rows;
        if rows <= 0 {
            return None;
        }
        let holders = || sums.tenants.iter().filter(|(_, tenant)| tenant.used.rows[kind] > 0);
        let share = sums.history_rows / i64::try_from(holders().count()).unwrap_or(i64::MAX).max(1);
        let over = holders().filter(|(_, tenant)| tenant.used.rows[kind] > share);
        Some(OverShare { rows, tenants: over.map(|(name, _)| Arc::clone(name)).collect() })
    }

    pub(super) fn tenant_of(&self, agent: &str) -> Option<Arc<str>> {
        self.0.lock().tenant_of.get(agent).cloned()
    }

    /// The row of a history after which the next pass starts.
    pub(super) fn walked(&self, history: History) -> i64 {
        self.0.lock().walked[history as usize]
    }

    pub(super) fn walked_to(&self, history: History, seq: i64) {
        self.0.lock().walked[history as usize] = seq;
    }

    pub(super) fn of_tenant(&self, tenant: &str) -> TenantStorage {
        self.0.lock().storage(tenant)
    }

    pub(super) fn has_room_for(&self, agent: &str) -> bool {
        let sums = self.0.lock();
        sums.tenant_of.get(agent).is_none_or(|tenant| sums.storage(tenant).has_room())
    }
}

#[async_trait]
impl Usage for Sqlite {
    fn of_tenant(&self, tenant: &TenantId) -> TenantStorage {
        self.usage.of_tenant(tenant.as_str())
    }

    fn has_room_for(&self, agent: &InstanceId) -> bool {
        self.usage.has_room_for(agent.as_str())
    }

    async fn set_tenant_limit(&self, tenant: &TenantId, bytes: Option<i64>) -> Result<(), Fault> {
        self.set_limit("storage_bytes", tenant, bytes, |usage| &mut usage.limit).await
    }

    fn media_of_tenant(&self, tenant: &TenantId) -> TenantStorage {
        self.usage.0.lock().media(tenant.as_str())
    }

    fn media_of_agent(&self, agent: &InstanceId) -> i64 {
        self.usage.0.lock().agent_media.of(agent.as_str())
    }

    async fn set_media_limit(&self, tenant: &TenantId, bytes: Option<i64>) -> Result<(), Fault> {
        self.set_limit("media_bytes", tenant, bytes, |usage| &mut usage.media_limit).await
    }

    fn data_of_tenant(&self, tenant: &TenantId) -> TenantStorage {
        self.usage.data_of_tenant(tenant.as_str())
    }

    async fn set_data_limit(&self, tenant: &TenantId, bytes: Option<i64>) -> Result<(), Fault> {
        self.set_limit("data_bytes", tenant, bytes, |usage| &mut usage.data_limit).await
    }
}

impl Sqlite {
    /// Stores a limit in its column of `tenants`, and then in memory.
    async fn set_limit(
        &self,
        column: &'static str,
        tenant: &TenantId,
        bytes: Option<i64>,
        in_memory: fn(&mut TenantUsage) -> &mut Option<i64>,
    ) -> Result<(), Fault> {
        let (stored, usage) = (tenant.clone(), Arc::clone(&self.usage));
        self.write_then(
            None,
            move |db| {
                db.prepare_cached(&format!("UPDATE tenants SET {column} = ?2 WHERE id = ?1 RETURNING id"))?
                    .query_row(params![stored.as_str(), bytes], |row| row.get::<_, String>(0))
                    .optional()
            },
            move |changed| {
                if let Some(tenant) = changed {
                    let mut sums = usage.0.lock();
                    let tenant = sums.tenant_named(tenant);
                    *in_memory(sums.tenants.entry(tenant).or_default()) = bytes;
                }
            },
        )
        .await
        .map(drop)
    }
}

/// Counts inserted bytes of a tenant, in the open transaction.
pub(super) fn count_for_tenant(db: &Connection, tenant: &str, bytes: i64) -> rusqlite::Result<()> {
    db.prepare_cached("SELECT tenant_storage(?1, ?2)")?.query_row(params![tenant, bytes], |_| Ok(()))
}

/// Counts inserted bytes of a tenant's data, in the open transaction.
pub(super) fn count_data(db: &Connection, tenant: &str, bytes: i64) -> rusqlite::Result<()> {
    db.prepare_cached("SELECT data_storage(?1, ?2)")?.query_row(params![tenant, bytes], |_| Ok(()))
}

/// Counts the bytes of an agent's new file, in the open transaction.
pub(super) fn count_media(db: &Connection, tenant: &str, agent: &str, bytes: i64) -> rusqlite::Result<()> {
    db.prepare_cached("SELECT media_storage(?1, ?2, ?3)")?
        .query_row(params![tenant, agent, bytes], |_| Ok(()))
}

/// Bytes that a row counts beside its texts: about what it and its index entries take up.
pub(super) const ROW: i64 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    /// A tenant with one agent and one unread entry of ten bytes, none of it counted yet.
    fn uncounted() -> Connection {
        let mut db = Connection::open_in_memory().unwrap();
        super::super::migrate::run(&mut db).unwrap();
        db.execute_batch(
            "INSERT INTO tenants (id, name, created) VALUES ('ten_acme', 'acme', 0);
             INSERT INTO instances (id, tenant, name, generation, idle, created)
             VALUES ('inst_heron', 'ten_acme', 'heron', 'auto', 0, 0);",
        )
        .unwrap();
        insert_entry(&db, 1);
        db
    }

    fn insert_entry(db: &Connection, number: u8) {
        db.execute(
            "INSERT INTO entries (id, instance, platform, bot, chat, size, accepted, durable, counted)
             VALUES (?1, 'inst_heron', 'web', 'heron', 'web-1', 10, 0, 0, 0)",
            [vec![number; 16]],
        )
        .unwrap();
    }

    #[test]
    fn the_first_start_with_sums_counts_what_is_there_and_the_next_reads_it() {
        let db = uncounted();
        let sums = UsageSums::attach(&db).unwrap();
        // The first transaction fails, and takes nothing of it back.
        sums.rolled_back();
        assert_eq!(sums.of_tenant("ten_acme").used, 10 + ROW);
        db.execute_batch("DROP TRIGGER temp.usage_entry_gone; DELETE FROM entries").unwrap();
        assert_eq!(Sums::read(&db).unwrap().storage("ten_acme").used, 10 + ROW);
    }

    #[test]
    #[should_panic(expected = "what ten_acme stores")]
    fn a_row_that_nobody_counted_is_found_by_the_check() {
        let db = uncounted();
        let sums = UsageSums::attach(&db).unwrap();
        sums.check(&db).unwrap();
        insert_entry(&db, 2);
        sums.check(&db).unwrap();
    }
}

//! Bringing the index of a tenant up to date with the ledger.

use std::time::Duration;

use posthouse_wire::TenantId;
use rusqlite::{OptionalExtension, params};

use super::data_prune::prune_times;
use crate::Fault;
use crate::sqlite::Sqlite;
use crate::sqlite::data_index::{IndexAnswer, IndexRow, IndexState};

/// Entries and bytes that are added to an index at a time.
const BATCH_ROWS: u32 = 500;
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// How long a search waits while a large index is made again.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) enum CaughtUp {
    Done,
    /// The index is not complete yet.
    NotYet,
    TooMany,
}

impl Sqlite {
    /// Adds to the index what it does not have yet.
    pub(super) async fn catch_up(&self, tenant: &TenantId) -> Result<CaughtUp, Fault> {
        if self.indexes.position(tenant.as_str()).is_up_to_date() {
            return Ok(CaughtUp::Done);
        }
        let start = self.timepiece.instant();
        let lock = self.indexes.catching_up(tenant.as_str());
        let _alone = lock.lock().await;
        while self.timepiece.instant().since(start) < PATIENCE {
            if self.indexes.position(tenant.as_str()).is_up_to_date() {
                return Ok(CaughtUp::Done);
            }
            match self.add_batch(tenant).await? {
                Added::All => return Ok(CaughtUp::Done),
                Added::Some => {}
                Added::TooMany => return Ok(CaughtUp::TooMany),
            }
        }
        Ok(CaughtUp::NotYet)
    }

    /// Adds one batch for a writer, unless somebody else is at it. The entry of the writer is stored already, so a
    /// fault is not the writer's: the next search meets it again.
    pub(super) async fn catch_up_a_little(&self, tenant: &TenantId) {
        let lock = self.indexes.catching_up(tenant.as_str());
        let Ok(_alone) = lock.try_lock() else { return };
        if let Err(fault) = self.add_batch(tenant).await {
            tracing::warn!(%fault, "cannot add entries to the search index of a tenant");
        }
    }

    async fn add_batch(&self, tenant: &TenantId) -> Result<Added, Fault> {
        let indexed = match self.indexes.position(tenant.as_str()).indexed {
            Some(indexed) => indexed,
            None => match self.indexes.state(tenant.as_str()).await? {
                IndexAnswer::Done(state) if self.is_of_this_ledger(state).await? => state.indexed,
                IndexAnswer::Done(_) => {
                    tracing::warn!(%tenant, "the search index of a tenant belongs to another ledger and is rebuilt");
                    self.indexes.reset(tenant.as_str()).await?;
                    0
                }
                IndexAnswer::Lost => 0,
                IndexAnswer::TooMany => return Ok(Added::TooMany),
            },
        };
        let rows = self.rows_after(tenant, indexed).await?;
        if rows.is_empty() {
            self.indexes.caught_up(tenant.as_str(), indexed);
            return Ok(Added::All);
        }
        let (now, count) = (prune_times(self.timepiece.now(), &self.clock), rows.len());
        match self.indexes.add(tenant.as_str(), rows, now).await? {
            IndexAnswer::Done(_) => {
                self.indexes.added(tenant.as_str(), count);
                Ok(Added::Some)
            }
            IndexAnswer::Lost => Ok(Added::Some),
            IndexAnswer::TooMany => Ok(Added::TooMany),
        }
    }

    /// Whether an index was made from this ledger. After a backup was restored, an index can have entries that the
    /// ledger does not have, under numbers that the ledger then gives to others.
    async fn is_of_this_ledger(&self, state: IndexState) -> Result<bool, Fault> {
        let Some(id) = state.last_id else { return Ok(state.indexed == 0) };
        self.read(move |db| {
            let stored: Option<[u8; 16]> = db
                .prepare_cached("SELECT id FROM data WHERE seq = ?1")?
                .query_row([state.indexed], |row| row.get(0))
                .optional()?;
            match stored {
                Some(stored) => Ok(stored == id),
                // The entry has expired, unless the ledger never had one with this number.
                None => db
                    .prepare_cached(
                        "SELECT coalesce(max(seq), 0) >= ?1 FROM sqlite_sequence WHERE name = 'data'",
                    )?
                    .query_row([state.indexed], |row| row.get(0)),
            }
        })
        .await
    }

    async fn rows_after(&self, tenant: &TenantId, seq: i64) -> Result<Vec<IndexRow>, Fault> {
        let of = tenant.clone();
        self.read(move |db| {
            let mut after = db.prepare_cached(
                "SELECT seq, id, content, tags, expires, ends FROM data
                 WHERE tenant = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
            )?;
            let mut rows = after.query(params![of.as_str(), seq, BATCH_ROWS])?;
            let (mut batch, mut bytes) = (Vec::new(), 0);
            while bytes < BATCH_BYTES
                && let Some(row) = rows.next()?
            {
                let content: String = row.get(2)?;
                bytes += content.len();
                let (expires, ends): (Option<i64>, Option<i64>) = (row.get(4)?, row.get(5)?);
                batch.push(IndexRow {
                    seq: row.get(0)?,
                    id: row.get(1)?,
                    content,
                    tags: row.get(3)?,
                    expiry: expires.zip(ends),
                });
            }
            Ok(batch)
        })
        .await
    }
}

enum Added {
    All,
    Some,
    TooMany,
}

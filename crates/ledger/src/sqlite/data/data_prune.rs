//! Deletion of data: of entries that have expired, and of removed tenants.

use std::time::Duration;

use posthouse_time::Moment;
use rusqlite::{Connection, params};

use crate::Fault;
use crate::sqlite::Sqlite;
use crate::sqlite::data_index::PruneTimes;
use crate::sqlite::ledger_time::LedgerClock;

/// How long an expired entry is kept. It is not found any more, but comes back if the wall clock was wrong.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// Entries that are deleted at a time. Each can have a text of 1 MiB.
const A_FEW: u32 = 50;

/// A wall clock that is wrong must not delete anything, so both clocks must have passed the expiry.
pub(in crate::sqlite) const ENDED_DATA: &str = "DELETE FROM data WHERE seq IN
    (SELECT seq FROM data WHERE ends < ?1 AND expires < ?3 ORDER BY ends LIMIT ?2)";

const DATA_OF_REMOVED: &str = "DELETE FROM data WHERE seq IN
    (SELECT data.seq FROM data_to_delete CROSS JOIN data ON data.tenant = data_to_delete.tenant LIMIT ?1)";

/// The times before which an expiry must be for its entry to be deleted.
pub(super) fn prune_times(wall: Moment, clock: &LedgerClock) -> PruneTimes {
    let kept = i64::try_from(KEPT.as_millis()).unwrap_or(i64::MAX);
    PruneTimes { wall: wall.millis().saturating_sub(kept), ledger: (clock.now() - KEPT).millis() }
}

/// Deletes a few entries. True when there may be more.
pub(in crate::sqlite) fn prune(db: &Connection, clock: &LedgerClock, wall: Moment) -> rusqlite::Result<bool> {
    let before = prune_times(wall, clock);
    let ended = db.prepare_cached(ENDED_DATA)?.execute(params![before.ledger, A_FEW, before.wall])?;
    let of_removed = db.prepare_cached(DATA_OF_REMOVED)?.execute([A_FEW])?;
    Ok(ended.max(of_removed) == A_FEW as usize)
}

impl Sqlite {
    /// Deletes the indexes of removed tenants whose entries are all deleted.
    pub(in crate::sqlite) async fn forget_removed_indexes(&self) -> Result<(), Fault> {
        let emptied: Vec<String> = self
            .read(|db| {
                db.prepare_cached(
                    "SELECT tenant FROM data_to_delete WHERE NOT EXISTS
                       (SELECT 1 FROM data WHERE data.tenant = data_to_delete.tenant)",
                )?
                .query_map([], |row| row.get(0))?
                .collect()
            })
            .await?;
        for tenant in emptied {
            // The row goes last, so that a crash in between leaves no file behind.
            self.indexes.remove(&tenant).await?;
            self.write(move |db| {
                db.execute("DELETE FROM data_to_delete WHERE tenant = ?1", [&tenant]).map(drop)
            })
            .await?;
        }
        Ok(())
    }
}

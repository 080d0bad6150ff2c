//! SQL of the audit log: one row per change, in order.

use async_trait::async_trait;
use posthouse_time::Moment;
use rusqlite::{Row, params};

use super::Sqlite;
use crate::Fault;
use crate::audit::{Audit, AuditEntry};

#[async_trait]
impl Audit for Sqlite {
    async fn record(&self, entry: AuditEntry) -> Result<(), Fault> {
        self.write(move |db| {
            db.prepare_cached(
                "INSERT INTO audit (at, operation, about, caller, status, counted)
                 VALUES (?1, ?2, ?3, ?4, ?5, ledger_time())",
            )?
            .execute(params![
                entry.at.millis(),
                entry.operation,
                entry.about,
                entry.caller.map(|caller| caller.to_string()),
                entry.status,
            ])
            .map(drop)
        })
        .await
    }

    async fn entries(&self, before: Option<i64>, at_most: u32) -> Result<Vec<(i64, AuditEntry)>, Fault> {
        self.read(move |db| {
            db.prepare_cached(
                "SELECT seq, at, operation, about, caller, status FROM audit WHERE seq < ?1
                 ORDER BY seq DESC LIMIT ?2",
            )?
            .query_map(params![before.unwrap_or(i64::MAX), at_most], entry)?
            .collect()
        })
        .await
    }
}

fn entry(row: &Row<'_>) -> rusqlite::Result<(i64, AuditEntry)> {
    let entry = AuditEntry {
        at: Moment::from_millis(row.get(1)?),
        operation: row.get(2)?,
        about: row.get(3)?,
        caller: row.get::<_, Option<String>>(4)?.and_then(|caller| caller.parse().ok()),
        status: row.get(5)?,
    };
    Ok((row.get(0)?, entry))
}

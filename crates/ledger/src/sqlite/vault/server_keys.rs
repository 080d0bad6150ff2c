//! SQL of the server's own keys.

use async_trait::async_trait;
use posthouse_time::Moment;
use rusqlite::{Connection, params};

use super::sealed;
use crate::Fault;
use crate::sqlite::Sqlite;
use crate::vault::{ServerKey, ServerKeyKind, ServerKeys};

#[async_trait]
impl ServerKeys for Sqlite {
    async fn server_keys(&self, kind: ServerKeyKind) -> Result<Vec<ServerKey>, Fault> {
        self.read(move |db| {
            db.prepare_cached(
                "SELECT name, algorithm, created, starts, min(ends, wall_time_at(ends_ledger)), key_id, blob FROM house_keys
                 WHERE kind = ?1 ORDER BY id",
            )?
            .query_map([kind.word()], |row| {
                Ok(ServerKey {
                    kind,
                    name: row.get(0)?,
                    algorithm: row.get(1)?,
                    created: Moment::from_millis(row.get(2)?),
                    starts: Moment::from_millis(row.get(3)?),
                    ends: row.get::<_, Option<i64>>(4)?.map(Moment::from_millis),
                    sealed: sealed(row, 5)?,
                })
            })?
            .collect()
        })
        .await
    }

    async fn begin_server_keys(&self, key: ServerKey) -> Result<(), Fault> {
        self.write(move |db| {
            let begun: bool = db.query_row(
                "SELECT EXISTS (SELECT 1 FROM house_keys WHERE kind = ?1)",
                [key.kind.word()],
                |row| row.get(0),
            )?;
            if begun { Ok(()) } else { insert(db, &key) }
        })
        .await
    }

    async fn succeed_server_key(&self, key: ServerKey, older_end: Moment) -> Result<(), Fault> {
        self.write(move |db| {
            end(db, key.kind, older_end)?;
            insert(db, &key)
        })
        .await
    }

    async fn end_server_keys(&self, kind: ServerKeyKind, at: Moment) -> Result<bool, Fault> {
        self.write(move |db| end(db, kind, at).map(|ended| ended > 0)).await
    }

    async fn forget_server_keys(&self, kind: ServerKeyKind) -> Result<(), Fault> {
        self.write(move |db| {
            db.execute(
                "DELETE FROM house_keys WHERE kind = ?1 AND ends_ledger <= ledger_time()",
                [kind.word()],
            )
            .map(drop)
        })
        .await
    }
}

fn end(db: &Connection, kind: ServerKeyKind, at: Moment) -> rusqlite::Result<usize> {
    db.execute(
        "UPDATE house_keys SET ends = min(coalesce(ends, ?2), ?2),
           ends_ledger = min(coalesce(ends_ledger, ledger_time_at(?2)), ledger_time_at(?2)) WHERE kind = ?1",
        params![kind.word(), at.millis()],
    )
}

fn insert(db: &Connection, key: &ServerKey) -> rusqlite::Result<()> {
    db.execute(
        "INSERT INTO house_keys (kind, name, algorithm, created, starts, ends, ends_ledger, key_id, blob)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ledger_time_at(?6), ?7, ?8)",
        params![
            key.kind.word(),
            key.name,
            key.algorithm,
            key.created.millis(),
            key.starts.millis(),
            key.ends.map(Moment::millis),
            key.sealed.key_id,
            key.sealed.blob,
        ],
    )
    .map(drop)
}

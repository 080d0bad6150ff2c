//! SQL of the data of tenants, and its search.

mod catch_up;
mod data_prune;
mod text_scores;

use std::sync::Arc;

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{DataId, TenantId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use self::catch_up::CaughtUp;
use super::data_index::{IndexAnswer, IndexHit, IndexHits, IndexSearch};
use super::usage::{ROW, UsageSums, count_data};
use super::{Sqlite, owner};
use crate::Fault;
use crate::data::{
    DataEntries, DataFound, DataRecord, DataSearch, DataSeq, DataWritten, FOUND_BYTES, FoundData,
};
use crate::full_text::TextQuery;
#[cfg(test)]
pub(super) use data_prune::ENDED_DATA;
pub(super) use data_prune::prune;

const COLUMNS: &str = "seq, id, content, tags, attributes, metadata, created, expires";

/// Times that a search begins again after its index was lost or closed.
const ATTEMPTS: u32 = 3;

#[async_trait]
impl DataEntries for Sqlite {
    async fn write_data(&self, tenant: &TenantId, new: DataRecord) -> Result<DataWritten, Fault> {
        let (of, usage) = (tenant.clone(), Arc::clone(&self.usage));
        let (indexes, named) = (Arc::clone(&self.indexes), tenant.clone());
        let wrote = self
            .write_then(
                owner(tenant),
                move |db| write(db, &usage, &of, &new),
                // On the writer's thread, so that it is reported even if the caller goes away.
                move |wrote| {
                    if let Wrote::Row(seq) = wrote {
                        indexes.wrote(named.as_str(), *seq);
                    }
                },
            )
            .await?;
        if self.indexes.is_behind(tenant.as_str()) {
            self.catch_up_a_little(tenant).await;
        }
        Ok(match wrote {
            Wrote::Row(_) | Wrote::Repeat => DataWritten::Written,
            Wrote::Full { limit } => DataWritten::Full { limit },
            Wrote::NoTenant => DataWritten::NoTenant,
        })
    }

    async fn data_entry(&self, tenant: &TenantId, id: &DataId) -> Result<Option<DataRecord>, Fault> {
        let Some(id) = id.bytes() else { return Ok(None) };
        let (of, now) = (tenant.clone(), self.timepiece.now());
        self.read(move |db| {
            db.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM data
                 WHERE id = ?2 AND tenant = ?1 AND (expires IS NULL OR expires > ?3)"
            ))?
            .query_row(params![of.as_str(), id, now.millis()], record)
            .optional()
        })
        .await
    }

    async fn search_data(&self, tenant: &TenantId, search: DataSearch) -> Result<DataFound, Fault> {
        if search.text == TextQuery::Newest && search.any_tag.is_none() {
            return self.newest(tenant, &search).await;
        }
        let expression = search.text.expression();
        if expression.is_none() && search.text != TextQuery::Newest {
            return Ok(DataFound::BadExpression("the expression cannot be read".to_owned()));
        }
        let now = self.timepiece.now();
        let words = match search.text {
            TextQuery::Words(words) => Some(words),
            TextQuery::Newest | TextQuery::Raw(_) => None,
        };
        let mut search = IndexSearch {
            expression,
            words,
            any_tag: search.any_tag.map(|tags| serde_json::Value::from(tags).to_string()),
            before: search.before.map(|DataSeq(seq)| seq),
            now: now.millis(),
            limit: search.limit,
        };
        for _ in 0..ATTEMPTS {
            match self.catch_up(tenant).await? {
                CaughtUp::Done => {}
                CaughtUp::NotYet => return Ok(DataFound::Indexing),
                CaughtUp::TooMany => return Ok(DataFound::TooMany),
            }
            match self.indexes.search(tenant.as_str(), search.clone()).await? {
                IndexAnswer::Done(IndexHits::Hits(hits)) => return self.found(tenant, hits, now).await,
                IndexAnswer::Done(IndexHits::RareWord(texts)) => {
                    match self.best_by_text(tenant, texts, now, search.limit).await? {
                        Some(found) => return Ok(found),
                        // The texts cannot be scored here, so the index does it.
                        None => search.words = None,
                    }
                }
                IndexAnswer::Done(IndexHits::BadExpression(why)) => return Ok(DataFound::BadExpression(why)),
                IndexAnswer::Done(IndexHits::TooSlow) => return Ok(DataFound::TooSlow),
                IndexAnswer::TooMany => return Ok(DataFound::TooMany),
                IndexAnswer::Lost | IndexAnswer::Done(IndexHits::Closed) => {}
            }
        }
        Ok(DataFound::Indexing)
    }
}

impl Sqlite {
    /// The newest entries. This needs no index.
    async fn newest(&self, tenant: &TenantId, search: &DataSearch) -> Result<DataFound, Fault> {
        let (of, now, limit) = (tenant.clone(), self.timepiece.now(), search.limit);
        let before = search.before.map_or(i64::MAX, |DataSeq(seq)| seq);
        self.read(move |db| {
            let mut newest = db.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM data
                 WHERE tenant = ?1 AND seq < ?2 AND (expires IS NULL OR expires > ?3)
                 ORDER BY seq DESC LIMIT ?4"
            ))?;
            let mut rows = newest.query(params![of.as_str(), before, now.millis(), limit])?;
            let mut found = FoundRows::default();
            while let Some(row) = rows.next()? {
                if !found.add(row, None)? {
                    return Ok(DataFound::TooLarge);
                }
            }
            Ok(DataFound::Found(found.rows))
        })
        .await
    }

    /// The entries that the index found. One that was deleted meanwhile is left out.
    async fn found(&self, tenant: &TenantId, hits: Vec<IndexHit>, now: Moment) -> Result<DataFound, Fault> {
        let of = tenant.clone();
        self.read(move |db| found_rows(db, &of, &hits, now)).await
    }
}

fn found_rows(db: &Connection, of: &TenantId, hits: &[IndexHit], now: Moment) -> rusqlite::Result<DataFound> {
    let mut row_of = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM data WHERE seq = ?1 AND tenant = ?2 AND (expires IS NULL OR expires > ?3)"
    ))?;
    let mut found = FoundRows::default();
    for hit in hits {
        let mut rows = row_of.query(params![hit.seq, of.as_str(), now.millis()])?;
        if let Some(row) = rows.next()?
            && !found.add(row, hit.score)?
        {
            return Ok(DataFound::TooLarge);
        }
    }
    Ok(DataFound::Found(found.rows))
}

/// Entries that were found, up to a number of bytes.
#[derive(Default)]
struct FoundRows {
    rows: Vec<FoundData>,
    bytes: usize,
}

impl FoundRows {
    /// False if the entries are too large together.
    fn add(&mut self, row: &Row<'_>, score: Option<f64>) -> rusqlite::Result<bool> {
        let length =
            |column| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_str_or_null()?.map_or(0, str::len));
        self.bytes += length(2)? + length(4)? + length(5)?;
        if self.bytes > FOUND_BYTES {
            return Ok(false);
        }
        self.rows.push(FoundData { seq: DataSeq(row.get(0)?), record: record(row)?, score });
        Ok(true)
    }
}

#[derive(Clone, Copy)]
enum Wrote {
    Row(i64),
    Repeat,
    Full { limit: i64 },
    NoTenant,
}

fn write(db: &Connection, usage: &UsageSums, of: &TenantId, new: &DataRecord) -> rusqlite::Result<Wrote> {
    let exists: bool = db
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM tenants WHERE id = ?1)")?
        .query_row([of.as_str()], |row| row.get(0))?;
    if !exists {
        return Ok(Wrote::NoTenant);
    }
    let tags = (!new.tags.is_empty()).then(|| serde_json::Value::from(new.tags.clone()).to_string());
    let texts = [tags.as_deref(), new.attributes.as_deref(), new.metadata.as_deref()];
    let length = new.content.len() + texts.into_iter().flatten().map(str::len).sum::<usize>();
    let bytes = ROW + i64::try_from(length).unwrap_or(i64::MAX - ROW);
    // The sums have what the open transaction wrote, so the limit is exact.
    let storage = usage.data_of_tenant(of.as_str());
    if storage.used.saturating_add(bytes) > storage.limit {
        return Ok(Wrote::Full { limit: storage.limit });
    }
    let inserted = db
        .prepare_cached(
            "INSERT INTO data (tenant, id, content, tags, attributes, metadata, created, expires, ends)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ledger_time_at(?8)) ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![
            of.as_str(),
            new.id.bytes(),
            new.content,
            tags,
            new.attributes,
            new.metadata,
            new.created.millis(),
            new.expires.map(Moment::millis),
        ])?;
    if inserted == 0 {
        return Ok(Wrote::Repeat);
    }
    let seq = db.last_insert_rowid();
    count_data(db, of.as_str(), bytes)?;
    Ok(Wrote::Row(seq))
}

/// Deletes the data of a removed tenant. There can be millions of entries, so pruning deletes them a little at a time.
/// Nobody can read them meanwhile, because ids of tenants are never used again.
pub(super) fn remove_all_later(db: &Connection, of: &TenantId) -> rusqlite::Result<()> {
    db.execute(
        "INSERT INTO data_to_delete (tenant) SELECT ?1 WHERE EXISTS (SELECT 1 FROM data WHERE tenant = ?1)
         ON CONFLICT DO NOTHING",
        [of.as_str()],
    )
    .map(drop)
}

fn record(row: &Row<'_>) -> rusqlite::Result<DataRecord> {
    let tags: Option<String> = row.get(3)?;
    Ok(DataRecord {
        id: DataId::from_bytes(row.get(1)?),
        content: row.get(2)?,
        tags: tags.and_then(|tags| serde_json::from_str(&tags).ok()).unwrap_or_default(),
        attributes: row.get(4)?,
        metadata: row.get(5)?,
        created: Moment::from_millis(row.get(6)?),
        expires: row.get::<_, Option<i64>>(7)?.map(Moment::from_millis),
    })
}

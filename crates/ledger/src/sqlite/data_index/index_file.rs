//! Search index of one tenant: a SQLite file with an FTS5 table.

use std::path::{Path, PathBuf};
use std::time::Duration;

use posthouse_time::Timepiece;
use rusqlite::{Connection, ErrorCode, OpenFlags, params};

use super::IndexAnswer;
use super::bm25::TextSums;
use super::rare_word::{RareWordTexts, rare_word_texts};
use super::tokenizer::Tokenizer;
use super::word_counts::WordCounts;
use crate::Fault;
use crate::data::summary_of;

/// The version of the tables below. An index of another version is made again.
const FORMAT: i64 = 1;

/// How long a search may take.
const SEARCH_TIME: Duration = Duration::from_secs(5);
/// Steps of SQLite's virtual machine between two looks at the clock.
const STEPS: i32 = 20_000;
/// Expired entries that are removed from the index at a time, at most.
const A_FEW: u32 = 1_000;
/// Expired entries are removed once they are one in this many of all entries. A removal invalidates the counts of
/// words, so it must not happen at every search.
const EXPIRED_PART: i64 = 1_000;

/// `texts` has no copy of the texts. It has both columns, like the table of the reference runtime, so scores are the
/// same as there.
const TABLES: &str = "
    CREATE TABLE state (
      one     INTEGER PRIMARY KEY CHECK (one = 1),
      indexed INTEGER NOT NULL,
      last_id BLOB
    ) STRICT;
    INSERT INTO state VALUES (1, 0, NULL);
    CREATE TABLE tags (
      tag TEXT NOT NULL,
      seq INTEGER NOT NULL,
      PRIMARY KEY (tag, seq)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE expiring (
      seq     INTEGER PRIMARY KEY,
      expires INTEGER NOT NULL,
      ends    INTEGER NOT NULL,
      tags    TEXT
    ) STRICT;
    CREATE INDEX expiring_ends ON expiring (ends);
    CREATE VIRTUAL TABLE texts USING fts5 (summary, detail, content = '', contentless_delete = 1);";

/// An entry as the index reads it.
#[derive(Clone, Debug)]
pub(in super::super) struct IndexRow {
    pub seq: i64,
    pub id: [u8; 16],
    pub content: String,
    /// A JSON list.
    pub tags: Option<String>,
    /// Wall time and ledger time of its expiry.
    pub expiry: Option<(i64, i64)>,
}

/// The current times by both clocks, from which on expired entries are removed.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct PruneTimes {
    pub wall: i64,
    pub ledger: i64,
}

/// How far an index is: the number and the id of its last entry.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct IndexState {
    pub indexed: i64,
    pub last_id: Option<[u8; 16]>,
}

#[derive(Clone, Debug)]
pub(in super::super) struct IndexSearch {
    /// An FTS5 expression. None: the newest.
    pub expression: Option<String>,
    /// The words, if the expression requires all of them and their texts may be scored one by one.
    pub words: Option<Vec<String>>,
    /// A JSON list of tags, any of which an entry must have.
    pub any_tag: Option<String>,
    pub before: Option<i64>,
    /// The wall time.
    pub now: i64,
    pub limit: u32,
}

pub(in super::super) struct IndexHit {
    pub seq: i64,
    pub score: Option<f64>,
}

pub(in super::super) enum IndexHits {
    Hits(Vec<IndexHit>),
    /// One of the words is so rare that it is faster to score the texts that have it.
    RareWord(RareWordTexts),
    BadExpression(String),
    TooSlow,
    /// The index was closed after it was brought up to date, so the search has to start again.
    Closed,
}

/// The index of a tenant, opened at its first use.
pub(super) struct TenantIndex {
    /// None: in memory.
    file: Option<PathBuf>,
    db: Option<Connection>,
    indexed: Option<i64>,
    word_counts: WordCounts,
}

impl TenantIndex {
    pub fn new(folder: Option<&Path>, tenant: &str) -> Self {
        let file = folder.map(|folder| folder.join(file_name(tenant)));
        Self { file, db: None, indexed: None, word_counts: WordCounts::default() }
    }

    /// The number of the last entry, if the index is open.
    pub fn indexed(&self) -> Option<i64> {
        self.indexed
    }

    /// Runs a piece of work. A damaged index is deleted.
    pub fn run<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> rusqlite::Result<T>,
    ) -> Result<IndexAnswer<T>, Fault> {
        match work(self) {
            Ok(done) => Ok(IndexAnswer::Done(done)),
            Err(error) => {
                // After an error it is uncertain how far the index is.
                self.close();
                if !is_damaged(&error) {
                    return Err(error.into());
                }
                tracing::warn!(%error, file = ?self.file, "the search index of a tenant is damaged and is rebuilt");
                self.remove().map_err(Fault::from)?;
                Ok(IndexAnswer::Lost)
            }
        }
    }

    pub fn state(&mut self) -> rusqlite::Result<IndexState> {
        let state = self
            .open()?
            .prepare_cached("SELECT indexed, last_id FROM state")?
            .query_row([], |row| Ok(IndexState { indexed: row.get(0)?, last_id: row.get(1)? }))?;
        self.indexed = Some(state.indexed);
        Ok(state)
    }

    pub fn reset(&mut self) -> rusqlite::Result<()> {
        self.remove()?;
        self.state().map(drop)
    }

    fn close(&mut self) {
        (self.db, self.indexed) = (None, None);
        self.word_counts.clear();
    }

    pub fn remove(&mut self) -> rusqlite::Result<()> {
        self.close();
        let Some(file) = &self.file else { return Ok(()) };
        for end in ["", "-wal", "-shm", "-journal"] {
            let mut name = file.as_os_str().to_owned();
            name.push(end);
            match std::fs::remove_file(&name) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(rusqlite::Error::ToSqlConversionFailure(Box::new(error)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds entries, in order, and removes a few that have expired. Both in one transaction.
    pub fn add(&mut self, rows: &[IndexRow], now: PruneTimes) -> rusqlite::Result<i64> {
        let indexed = match self.indexed {
            Some(indexed) => indexed,
            None => self.state()?.indexed,
        };
        let db = self.open()?;
        let together = db.unchecked_transaction()?;
        let mut last = (indexed, None);
        for row in rows.iter().filter(|row| row.seq > indexed) {
            add_row(&together, row)?;
            last = (row.seq, Some(row.id));
        }
        if let (seq, Some(id)) = last {
            together
                .prepare_cached("UPDATE state SET indexed = ?1, last_id = ?2")?
                .execute(params![seq, id])?;
        }
        let removed = remove_expired(&together, now)?;
        together.commit()?;
        self.indexed = Some(last.0);
        if removed {
            self.word_counts.clear();
        }
        Ok(last.0)
    }

    pub fn search(
        &mut self,
        search: &IndexSearch,
        tokenizer: &Tokenizer,
        timepiece: &Timepiece,
    ) -> rusqlite::Result<IndexHits> {
        let Some(indexed) = self.indexed else { return Ok(IndexHits::Closed) };
        let mut word_counts = std::mem::take(&mut self.word_counts);
        let db = self.open()?;
        let (clock, start) = (timepiece.clone(), timepiece.instant());
        db.progress_handler(STEPS, Some(move || clock.instant().since(start) > SEARCH_TIME))?;
        let found = match (&search.expression, &search.words) {
            (Some(expression), Some(words)) => {
                match rare_word_texts(db, &mut word_counts, tokenizer, words, search, indexed) {
                    Ok(Some(texts)) => Ok(IndexHits::RareWord(texts)),
                    Ok(None) => best(db, expression, search).map(IndexHits::Hits),
                    Err(error) => Err(error),
                }
            }
            (Some(expression), None) => best(db, expression, search).map(IndexHits::Hits),
            (None, _) => newest(db, search).map(IndexHits::Hits),
        };
        db.progress_handler(0, None::<fn() -> bool>)?;
        self.word_counts = word_counts;
        match found {
            Ok(hits) => Ok(hits),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
                Ok(IndexHits::TooSlow)
            }
            // FTS5 reports a bad expression like a bad statement. Ours are good.
            Err(rusqlite::Error::SqliteFailure(cause, Some(why))) if cause.code == ErrorCode::Unknown => {
                Ok(IndexHits::BadExpression(why))
            }
            Err(error) => Err(error),
        }
    }

    fn open(&mut self) -> rusqlite::Result<&mut Connection> {
        if self.db.is_none() {
            let db = open(self.file.as_deref())?;
            let format: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
            if format != FORMAT {
                drop(db);
                self.remove()?;
                self.db = Some(create(self.file.as_deref())?);
            } else {
                self.db = Some(db);
            }
        }
        self.db.as_mut().ok_or(rusqlite::Error::InvalidQuery)
    }
}

fn open(file: Option<&Path>) -> rusqlite::Result<Connection> {
    let Some(file) = file else { return Connection::open_in_memory() };
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if let Some(folder) = file.parent() {
        // If this fails, the file cannot be opened either, and that error is reported.
        let _ = std::fs::create_dir_all(folder);
    }
    let db = Connection::open_with_flags(file, flags)?;
    // Nobody else opens the file: the folder of the ledger is locked.
    db.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    // A power loss may take the latest entries, which are then added again, but it damages nothing.
    db.pragma_update(None, "synchronous", "NORMAL")?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    db.pragma_update(None, "cache_size", -2_000)?;
    db.pragma_update(None, "journal_size_limit", 4 << 20)?;
    Ok(db)
}

fn create(file: Option<&Path>) -> rusqlite::Result<Connection> {
    let db = open(file)?;
    let together = db.unchecked_transaction()?;
    together.execute_batch(TABLES)?;
    together.pragma_update(None, "user_version", FORMAT)?;
    together.commit()?;
    Ok(db)
}

fn add_row(db: &Connection, row: &IndexRow) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT INTO texts (rowid, summary, detail) VALUES (?1, ?2, ?3)")?.execute(params![
        row.seq,
        summary_of(&row.content),
        row.content
    ])?;
    if let Some(tags) = &row.tags {
        db.prepare_cached("INSERT OR IGNORE INTO tags SELECT value, ?1 FROM json_each(?2)")?
            .execute(params![row.seq, tags])?;
    }
    if let Some((expires, ends)) = row.expiry {
        db.prepare_cached("INSERT INTO expiring (seq, expires, ends, tags) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![row.seq, expires, ends, row.tags])?;
    }
    Ok(())
}

/// Removes entries that have expired by both clocks, so that they no longer count in scores. In a large index it waits
/// until enough have expired. Returns whether it has removed any.
fn remove_expired(db: &Connection, now: PruneTimes) -> rusqlite::Result<bool> {
    let expired: Vec<(i64, Option<String>)> = db
        .prepare_cached(
            "SELECT seq, tags FROM expiring WHERE ends < ?1 AND expires < ?2 ORDER BY ends LIMIT ?3",
        )?
        .query_map(params![now.ledger, now.wall, A_FEW], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let enough = TextSums::read(db)?.map_or(1, |sums| sums.texts / EXPIRED_PART).clamp(1, A_FEW.into());
    if i64::try_from(expired.len()).unwrap_or(i64::MAX) < enough {
        return Ok(false);
    }
    for (seq, tags) in expired {
        db.prepare_cached("DELETE FROM texts WHERE rowid = ?1")?.execute([seq])?;
        db.prepare_cached("DELETE FROM tags WHERE seq = ?1 AND tag IN (SELECT value FROM json_each(?2))")?
            .execute(params![seq, tags])?;
        db.prepare_cached("DELETE FROM expiring WHERE seq = ?1")?.execute([seq])?;
    }
    Ok(true)
}

impl IndexSearch {
    /// The condition on tags and expiry, with the parameters ?1 and ?2 that [`IndexSearch::tags_and_now`] returns.
    pub(super) fn condition(&self) -> &'static str {
        match self.any_tag {
            Some(_) => {
                "EXISTS (SELECT 1 FROM tags WHERE seq = texts.rowid AND tag IN (SELECT value FROM json_each(?1)))
                 AND NOT EXISTS (SELECT 1 FROM expiring WHERE seq = texts.rowid AND expires <= ?2)"
            }
            None => {
                "?1 IS NULL
                 AND NOT EXISTS (SELECT 1 FROM expiring WHERE seq = texts.rowid AND expires <= ?2)"
            }
        }
    }

    pub(super) fn tags_and_now(&self) -> (&Option<String>, i64) {
        (&self.any_tag, self.now)
    }
}

/// The best entries by BM25. Of equal ones, the newer comes first.
fn best(db: &Connection, expression: &str, search: &IndexSearch) -> rusqlite::Result<Vec<IndexHit>> {
    let (tags, now) = search.tags_and_now();
    db.prepare_cached(&format!(
        "SELECT rowid, bm25(texts) AS score FROM texts WHERE {} AND texts MATCH ?3
         ORDER BY score, rowid DESC LIMIT ?4",
        search.condition()
    ))?
    .query_map(params![tags, now, expression, search.limit], |row| {
        Ok(IndexHit { seq: row.get(0)?, score: row.get(1)? })
    })?
    .collect()
}

/// The newest entries with one of the tags.
fn newest(db: &Connection, search: &IndexSearch) -> rusqlite::Result<Vec<IndexHit>> {
    db.prepare_cached(
        "SELECT DISTINCT seq FROM tags
         WHERE tag IN (SELECT value FROM json_each(?1)) AND seq < ?2
           AND NOT EXISTS (SELECT 1 FROM expiring WHERE expiring.seq = tags.seq AND expires <= ?3)
         ORDER BY seq DESC LIMIT ?4",
    )?
    .query_map(params![search.any_tag, search.before.unwrap_or(i64::MAX), search.now, search.limit], |row| {
        Ok(IndexHit { seq: row.get(0)?, score: None })
    })?
    .collect()
}

fn is_damaged(error: &rusqlite::Error) -> bool {
    let damaged = [ErrorCode::DatabaseCorrupt, ErrorCode::NotADatabase];
    error.sqlite_error_code().is_some_and(|code| damaged.contains(&code))
}

/// The name of a tenant's file. Bytes that could mean something in a path are written as their numbers.
fn file_name(tenant: &str) -> String {
    let mut name = String::new();
    for byte in tenant.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => name.push(char::from(byte)),
            _ => name.push_str(&format!("%{byte:02x}")),
        }
    }
    name + ".db"
}

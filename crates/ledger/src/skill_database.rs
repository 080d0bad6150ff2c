//! Skills in a SQLite file of the reference runtime.
//!
//! The file may belong to another program, which may write to it at the same time. Tables are created only if the file
//! is new; existing tables are never altered. The server's own skills are in [`crate::Skills`].

pub(crate) mod shape;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use crate::Fault;
use crate::file_threads::FileThreads;

/// How long a call waits while another program writes.
const BUSY: Duration = Duration::from_secs(5);

const COLUMNS: &str =
    "name, current_version, content_hash, status, source, description, metadata_json, created_at,
     updated_at, status_changed_at";

/// A skill as the file has it. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillDatabaseRow {
    pub name: String,
    pub version: String,
    pub content_hash: String,
    pub status: String,
    pub source: String,
    pub description: Option<String>,
    /// JSON. The author is in it.
    pub metadata: Option<String>,
    pub created: i64,
    pub updated: i64,
    pub status_changed: Option<i64>,
}

/// A version as the file has it. There is one row for each version, however often it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillVersionRow {
    pub version: String,
    pub content_hash: String,
    pub status: String,
    pub previous_status: Option<String>,
    pub changed: i64,
    pub changed_by: Option<String>,
}

/// The result of opening a file.
pub enum OpenedSkillDatabase {
    Opened(SkillDatabase),
    /// The file is something else. The text says what.
    OtherShape(String),
}

/// Name, status and version of a skill, from which a change token is made.
pub type SkillFingerprint = (String, String, String);

/// An open file. Calls run on file threads, one at a time.
#[derive(Clone)]
pub struct SkillDatabase {
    db: Arc<Mutex<Connection>>,
    threads: Arc<FileThreads>,
}

impl SkillDatabase {
    /// Opens a file, or creates it with its folder.
    pub async fn open(file: PathBuf, threads: Arc<FileThreads>) -> Result<OpenedSkillDatabase, Fault> {
        let those = Arc::clone(&threads);
        threads.work(move || open(&file, those)).await?
    }

    /// The same open file, whose calls run on these threads.
    pub fn on(&self, threads: Arc<FileThreads>) -> Self {
        Self { db: Arc::clone(&self.db), threads }
    }

    pub async fn row(&self, name: &str) -> Result<Option<SkillDatabaseRow>, Fault> {
        let name = name.to_owned();
        self.run(move |db| find(db, &name)).await
    }

    /// Rows after this name, in the order of the bytes of their names.
    pub async fn rows(&self, after: Option<&str>, limit: u32) -> Result<Vec<SkillDatabaseRow>, Fault> {
        let after = after.map(str::to_owned);
        self.run(move |db| {
            db.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM skills WHERE ?1 IS NULL OR name > ?1
                 ORDER BY name COLLATE BINARY LIMIT ?2"
            ))?
            .query_map(params![after, limit], skill_row)?
            .collect()
        })
        .await
    }

    /// Content hash and text of a version.
    pub async fn version_source(&self, name: &str, version: &str) -> Result<Option<(String, String)>, Fault> {
        let (name, version) = (name.to_owned(), version.to_owned());
        self.run(move |db| {
            db.prepare_cached(
                "SELECT content_hash, source FROM skill_versions WHERE name = ?1 AND version = ?2",
            )?
            .query_row([name, version], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
        })
        .await
    }

    /// The versions of a skill, oldest first.
    pub async fn versions(&self, name: &str) -> Result<Vec<SkillVersionRow>, Fault> {
        let name = name.to_owned();
        self.run(move |db| {
            db.prepare_cached(
                "SELECT version, content_hash, status, previous_status, changed_at, changed_by
                 FROM skill_versions WHERE name = ?1 ORDER BY changed_at, rowid",
            )?
            .query_map([name], version_row)?
            .collect()
        })
        .await
    }

    /// Writes a skill if its row is still as the caller read it; None stands for no row. False, with nothing written, if
    /// it has changed. A version that was written before gets its row updated. Repeating it gives false.
    pub async fn replace(
        &self,
        expected: Option<SkillDatabaseRow>,
        new: SkillDatabaseRow,
        line: SkillVersionRow,
    ) -> Result<bool, Fault> {
        self.run(move |db| {
            let together = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            if find(&together, &new.name)? != expected {
                return Ok(false);
            }
            write_row(&together, &new)?;
            write_version(&together, &new, &line)?;
            together.commit()?;
            Ok(true)
        })
        .await
    }

    /// Deletes a skill with its versions. False if there is none.
    pub async fn delete(&self, name: &str) -> Result<bool, Fault> {
        let name = name.to_owned();
        self.run(move |db| {
            let together = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let deleted = together.execute("DELETE FROM skills WHERE name = ?1", [&name])?;
            together.execute("DELETE FROM skill_versions WHERE name = ?1", [&name])?;
            together.commit()?;
            Ok(deleted > 0)
        })
        .await
    }

    /// All skills, in the order of the bytes of their names.
    pub async fn fingerprints(&self) -> Result<Vec<SkillFingerprint>, Fault> {
        self.run(move |db| {
            db.prepare_cached(
                "SELECT name, status, current_version FROM skills ORDER BY name COLLATE BINARY",
            )?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
            .collect()
        })
        .await
    }

    async fn run<T, W>(&self, work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let db = Arc::clone(&self.db);
        self.threads.work(move || work(&mut db.lock()).map_err(Fault::from)).await?
    }
}

fn open(file: &Path, threads: Arc<FileThreads>) -> Result<OpenedSkillDatabase, Fault> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|error| Fault::Storage(format!("{}: {error}", folder.display())))?;
    }
    let db = Connection::open(file)?;
    db.busy_timeout(BUSY)?;
    if let Some(problem) = shape::problem(&db)? {
        return Ok(OpenedSkillDatabase::OtherShape(format!("{}: {problem}", file.display())));
    }
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;
    shape::create_tables(&db)?;
    Ok(OpenedSkillDatabase::Opened(SkillDatabase { db: Arc::new(Mutex::new(db)), threads }))
}

fn find(db: &Connection, name: &str) -> rusqlite::Result<Option<SkillDatabaseRow>> {
    db.prepare_cached(&format!("SELECT {COLUMNS} FROM skills WHERE name = ?1"))?
        .query_row([name], skill_row)
        .optional()
}

fn write_row(db: &Connection, new: &SkillDatabaseRow) -> rusqlite::Result<()> {
    db.prepare_cached(&format!(
        "INSERT INTO skills ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
         ON CONFLICT (name) DO UPDATE SET current_version = excluded.current_version,
           content_hash = excluded.content_hash, status = excluded.status, source = excluded.source,
           description = excluded.description, metadata_json = excluded.metadata_json,
           updated_at = excluded.updated_at, status_changed_at = excluded.status_changed_at"
    ))?
    .execute(params![
        new.name,
        new.version,
        new.content_hash,
        new.status,
        new.source,
        new.description,
        new.metadata,
        new.created,
        new.updated,
        new.status_changed,
    ])
    .map(drop)
}

/// A line with a previous status is a change of status, which has no author.
fn write_version(db: &Connection, new: &SkillDatabaseRow, line: &SkillVersionRow) -> rusqlite::Result<()> {
    let updated = match line.previous_status {
        Some(_) => "previous_status = excluded.previous_status",
        None => "changed_by = excluded.changed_by",
    };
    db.prepare_cached(&format!(
        "INSERT INTO skill_versions
           (name, version, content_hash, source, status, previous_status, changed_at, changed_by)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
         ON CONFLICT (name, version) DO UPDATE SET source = excluded.source, status = excluded.status,
           changed_at = excluded.changed_at, {updated}"
    ))?
    .execute(params![
        new.name,
        line.version,
        line.content_hash,
        new.source,
        line.status,
        line.previous_status,
        line.changed,
        line.changed_by,
    ])
    .map(drop)
}

fn skill_row(row: &Row<'_>) -> rusqlite::Result<SkillDatabaseRow> {
    Ok(SkillDatabaseRow {
        name: row.get(0)?,
        version: row.get(1)?,
        content_hash: row.get(2)?,
        status: row.get(3)?,
        source: row.get(4)?,
        description: row.get(5)?,
        metadata: row.get(6)?,
        created: row.get(7)?,
        updated: row.get(8)?,
        status_changed: row.get(9)?,
    })
}

fn version_row(row: &Row<'_>) -> rusqlite::Result<SkillVersionRow> {
    Ok(SkillVersionRow {
        version: row.get(0)?,
        content_hash: row.get(1)?,
        status: row.get(2)?,
        previous_status: row.get(3)?,
        changed: row.get(4)?,
        changed_by: row.get(5)?,
    })
}

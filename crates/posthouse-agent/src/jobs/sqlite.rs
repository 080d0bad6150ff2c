//! Job store in a SQLite file.

use std::fmt;
use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use posthouse_wire::id::JobId;
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};

use super::rules::{RecordChange, RuleResult};
use super::verbs::Backend;
use super::{Fault, Job, JobStoreSettings, Tick};

/// Longest wait for the lock of another process.
const PATIENCE: Duration = Duration::from_secs(30);
const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS jobs (
        place INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        version INTEGER NOT NULL,
        record TEXT NOT NULL
    ) STRICT";

/// Job store for replicas that share a disk but no stock agent. A claim is one conditional `UPDATE` on the
/// version of the record that was read, so only one of several claimants succeeds.
#[derive(Clone)]
pub struct SqliteFile {
    store_settings: JobStoreSettings,
    path: PathBuf,
    db: Arc<Mutex<Connection>>,
}

/// A record as it was read.
struct JobRow {
    place: i64,
    version: i64,
    job: Job,
}

impl SqliteFile {
    /// Opens the store. A missing file is created, readable by its owner only.
    pub fn open(path: impl AsRef<Path>, store_settings: JobStoreSettings) -> Result<Self, Fault> {
        let path = path.as_ref().to_owned();
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        // Created before SQLite does it, because SQLite gives its log the same permissions.
        OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
        let db = Connection::open(&path)?;
        db.busy_timeout(PATIENCE)?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        // A claim must survive a power failure, because somebody acts on it.
        db.pragma_update(None, "synchronous", "FULL")?;
        db.execute_batch(SCHEMA)?;
        Ok(Self { store_settings, path, db: Arc::new(Mutex::new(db)) })
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let db = Arc::clone(&self.db);
        let done = tokio::task::spawn_blocking(move || work(&db.lock())).await;
        done.map_err(|ended| Fault::Io(ended.to_string()))?
    }
}

impl Backend for SqliteFile {
    fn store_settings(&self) -> &JobStoreSettings {
        &self.store_settings
    }

    async fn insert(&self, job: Job) -> Result<(), Fault> {
        self.with(move |db| {
            let insert = "INSERT INTO jobs (id, version, record) VALUES (?1, 0, ?2)";
            db.prepare_cached(insert)?.execute(params![job.id().as_str(), text_of(&job)])?;
            Ok(())
        })
        .await
    }

    async fn one(&self, id: &JobId) -> Result<Option<Job>, Fault> {
        let id = id.clone();
        self.with(move |db| Ok(find(db, &id)?.map(|row| row.job))).await
    }

    async fn all(&self) -> Result<Vec<Job>, Fault> {
        self.with(|db| {
            let mut all = db.prepare_cached("SELECT record FROM jobs ORDER BY place")?;
            let records = all.query_map([], |row| row.get::<_, String>(0))?;
            records.map(|record| job_of(&record?)).collect()
        })
        .await
    }

    async fn edit<T, R>(&self, id: &JobId, rule: R) -> Result<Option<T>, Fault>
    where
        T: Send + 'static,
        R: Fn(&Job) -> RuleResult<T> + Send + Sync + 'static,
    {
        let id = id.clone();
        self.with(move |db| {
            // The loop ends: a changed version means that another writer has made progress.
            while let Some(row) = find(db, &id)? {
                let step = rule(&row.job);
                if apply(db, &row, step.change)? {
                    return Ok(Some(step.answer));
                }
            }
            Ok(None)
        })
        .await
    }

    async fn scan<T, R>(&self, rule: R) -> Result<Vec<T>, Fault>
    where
        T: Send + 'static,
        R: Fn(&Job) -> RuleResult<Option<T>> + Send + Sync + 'static,
    {
        self.with(move |db| {
            let ids: Vec<String> = {
                let mut all = db.prepare_cached("SELECT id FROM jobs ORDER BY place")?;
                all.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?
            };
            let mut answers = Vec::new();
            for id in ids {
                let id = JobId::from(id);
                while let Some(row) = find(db, &id)? {
                    let step = rule(&row.job);
                    if apply(db, &row, step.change)? {
                        answers.extend(step.answer);
                        break;
                    }
                }
            }
            Ok(answers)
        })
        .await
    }

    /// No lock: no stock agent reads this file, and claims are enough between our own tickers.
    async fn tick(&self) -> Result<Option<Tick>, Fault> {
        Ok(Some(Tick(None)))
    }
}

fn find(db: &Connection, id: &JobId) -> Result<Option<JobRow>, Fault> {
    let mut one = db.prepare_cached("SELECT place, version, record FROM jobs WHERE id = ?1")?;
    let row = one.query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, String>(2)?)));
    let Some((place, version, record)) = row.optional()? else { return Ok(None) };
    Ok(Some(JobRow { place, version, job: job_of(&record)? }))
}

/// False if the record has changed since it was read.
fn apply(db: &Connection, row: &JobRow, change: RecordChange) -> Result<bool, Fault> {
    let changed = match change {
        RecordChange::Same => return Ok(true),
        RecordChange::Keep(job) | RecordChange::Touch(job) => {
            let update =
                "UPDATE jobs SET record = ?3, version = version + 1 WHERE place = ?1 AND version = ?2";
            db.prepare_cached(update)?.execute(params![row.place, row.version, text_of(&job)])?
        }
        RecordChange::Remove => {
            let delete = "DELETE FROM jobs WHERE place = ?1 AND version = ?2";
            db.prepare_cached(delete)?.execute(params![row.place, row.version])?
        }
    };
    Ok(changed == 1)
}

fn job_of(record: &str) -> Result<Job, Fault> {
    let fields = serde_json::from_str(record).map_err(|error| Fault::Unreadable(error.to_string()))?;
    Ok(Job { fields })
}

fn text_of(job: &Job) -> String {
    serde_json::to_string(&job.fields).expect("a map of JSON values can be written as JSON")
}

impl fmt::Debug for SqliteFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite").field("file", &self.path).finish_non_exhaustive()
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Fault::Locked,
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                Fault::Unreadable(error.to_string())
            }
            _ => Fault::Io(error.to_string()),
        }
    }
}

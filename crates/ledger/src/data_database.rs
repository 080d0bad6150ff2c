//! Data in a SQLite file of the reference runtime.
//!
//! The file may belong to another program, which may write to it at the same time. Existing tables are never altered.
//! The server's own data is in [`crate::DataEntries`].

mod data_shape;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use posthouse_time::Timepiece;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, TransactionBehavior, params};

use crate::Fault;
use crate::data::FOUND_BYTES;
use crate::file_threads::FileThreads;
use crate::full_text::TextQuery;

/// How long a call waits while another program writes.
const BUSY: Duration = Duration::from_secs(5);
/// How long a search may take.
const SEARCH_TIME: Duration = Duration::from_secs(5);
/// Steps of SQLite's virtual machine between two looks at the clock.
const STEPS: i32 = 20_000;

const COLUMNS: &str = "m.id, m.summary, m.detail, m.tags, m.created_at, m.metadata";

/// An entry as the file has it. The time is in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct DataDatabaseRow {
    pub id: String,
    pub summary: String,
    pub detail: Option<String>,
    /// A JSON list.
    pub tags: Option<String>,
    pub created: i64,
    /// A JSON object.
    pub metadata: Option<String>,
    /// BM25; smaller is better. None if the search had no words.
    pub score: Option<f64>,
}

/// The result of opening a file.
pub enum OpenedDataDatabase {
    Opened(DataDatabase),
    /// The file is something else. The text says what.
    OtherShape(String),
}

/// What a search in the file found.
#[derive(Clone, Debug, PartialEq)]
pub enum DataDatabaseFound {
    Found(Vec<DataDatabaseRow>),
    /// The expression is not in the syntax of FTS5. The text says why.
    BadExpression(String),
    /// The search took too long and was ended.
    TooSlow,
    /// The texts together have more than [`FOUND_BYTES`].
    TooLarge,
}

/// An open file. Calls run on file threads, one at a time.
#[derive(Clone)]
pub struct DataDatabase {
    db: Arc<Mutex<Connection>>,
    threads: Arc<FileThreads>,
    timepiece: Timepiece,
}

impl DataDatabase {
    /// Opens a file, or creates it with its folder.
    pub async fn open(
        file: PathBuf,
        threads: Arc<FileThreads>,
        timepiece: Timepiece,
    ) -> Result<OpenedDataDatabase, Fault> {
        let those = Arc::clone(&threads);
        threads.work(move || open(&file, those, timepiece)).await?
    }

    /// The same open file, whose calls run on these threads.
    pub fn on(&self, threads: Arc<FileThreads>) -> Self {
        Self { threads, ..self.clone() }
    }

    pub async fn row(&self, id: &str) -> Result<Option<DataDatabaseRow>, Fault> {
        let id = id.to_owned();
        self.run(move |db| {
            db.prepare_cached(&format!("SELECT {COLUMNS}, NULL FROM memories m WHERE m.id = ?1"))?
                .query_row([id], database_row)
                .optional()
        })
        .await
    }

    /// Adds an entry with its tags.
    pub async fn insert(&self, new: DataDatabaseRow, tags: Vec<String>) -> Result<(), Fault> {
        self.run(move |db| {
            let together = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            together.execute(
                "INSERT INTO memories (id, summary, detail, tags, created_at, metadata)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![new.id, new.summary, new.detail, new.tags, new.created, new.metadata],
            )?;
            for tag in &tags {
                together.execute("INSERT OR IGNORE INTO memory_tags VALUES (?1, ?2)", [&new.id, tag])?;
            }
            together.commit()
        })
        .await
    }

    /// Entries that match, the best first; or all, newest first. `any_tag`: only those with one of these tags.
    pub async fn search(
        &self,
        text: &TextQuery,
        any_tag: Option<&[String]>,
        limit: u32,
    ) -> Result<DataDatabaseFound, Fault> {
        let expression = text.expression();
        if expression.is_none() && *text != TextQuery::Newest {
            return Ok(DataDatabaseFound::BadExpression("the expression cannot be read".to_owned()));
        }
        let tags = any_tag.map(|tags| serde_json::Value::from(tags).to_string());
        let clock = self.timepiece.clone();
        self.run(move |db| {
            let start = clock.instant();
            db.progress_handler(STEPS, Some(move || clock.instant().since(start) > SEARCH_TIME))?;
            let found = search(db, expression.as_deref(), tags.as_deref(), limit);
            db.progress_handler(0, None::<fn() -> bool>)?;
            match found {
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
                    Ok(DataDatabaseFound::TooSlow)
                }
                Err(rusqlite::Error::SqliteFailure(cause, Some(why)))
                    if cause.code == ErrorCode::Unknown && expression.is_some() =>
                {
                    Ok(DataDatabaseFound::BadExpression(why))
                }
                other => other,
            }
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

fn open(file: &Path, threads: Arc<FileThreads>, timepiece: Timepiece) -> Result<OpenedDataDatabase, Fault> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|error| Fault::Storage(format!("{}: {error}", folder.display())))?;
    }
    let db = Connection::open(file)?;
    db.busy_timeout(BUSY)?;
    if let Some(problem) = data_shape::problem(&db)? {
        return Ok(OpenedDataDatabase::OtherShape(format!("{}: {problem}", file.display())));
    }
    db.pragma_update(None, "synchronous", "FULL")?;
    data_shape::create_tables(&db)?;
    Ok(OpenedDataDatabase::Opened(DataDatabase { db: Arc::new(Mutex::new(db)), threads, timepiece }))
}

fn search(
    db: &Connection,
    expression: Option<&str>,
    tags: Option<&str>,
    limit: u32,
) -> rusqlite::Result<DataDatabaseFound> {
    const TAGGED: &str = "(?2 IS NULL OR EXISTS (SELECT 1 FROM memory_tags t
        WHERE t.memory_id = m.id AND t.tag IN (SELECT value FROM json_each(?2))))";
    // Of equal entries, the order is that of the reference: first written, first listed.
    let sql = match expression {
        Some(_) => format!(
            "SELECT {COLUMNS}, bm25(memories_fts) AS score
             FROM memories_fts JOIN memories m ON memories_fts.rowid = m.rowid
             WHERE memories_fts MATCH ?1 AND {TAGGED} ORDER BY score, m.rowid LIMIT ?3"
        ),
        None => format!(
            "SELECT {COLUMNS}, NULL FROM memories m
             WHERE ?1 IS NULL AND {TAGGED} ORDER BY m.created_at DESC, m.rowid LIMIT ?3"
        ),
    };
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query(params![expression, tags, limit])?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let row = database_row(row)?;
        bytes += row.detail.as_ref().map_or(0, String::len) + row.metadata.as_ref().map_or(0, String::len);
        if bytes > FOUND_BYTES {
            return Ok(DataDatabaseFound::TooLarge);
        }
        found.push(row);
    }
    Ok(DataDatabaseFound::Found(found))
}

fn database_row(row: &Row<'_>) -> rusqlite::Result<DataDatabaseRow> {
    Ok(DataDatabaseRow {
        id: row.get(0)?,
        summary: row.get(1)?,
        detail: row.get(2)?,
        tags: row.get(3)?,
        created: row.get(4)?,
        metadata: row.get(5)?,
        score: row.get(6)?,
    })
}

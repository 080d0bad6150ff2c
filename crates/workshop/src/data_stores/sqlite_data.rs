//! A data store in a SQLite file of the reference runtime.
//!
//! The file keeps its own semantics: recipients and expiry are in the metadata, and nothing expires.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use ledger::{DataDatabase, DataDatabaseFound, DataDatabaseRow, FileThreads, OpenedDataDatabase, summary_of};
use posthouse_time::Timepiece;
use posthouse_wire::DataId;
use serde_json::{Map, Value, json};
use tokio::sync::OnceCell;

use super::data_entry::{Curated, DataWrite, EntryExpiry, PortableData};
use super::data_refusal::{DataRefusal, DataRefusalReason};
use super::data_store::{DataAnswer, DataFeatures, DataStore, WrittenData};
use super::ledger_data::read_query;
use super::query_filters::{DOMAIN_TAGS, QueryFilters};
use crate::fault::Fault;
use crate::skill_store::StoreManifest;

const IMPLEMENTATION: &str = "SqliteDataStore";

/// The data in one file.
#[derive(Clone)]
pub struct SqliteDataStore {
    file: PathBuf,
    threads: Arc<FileThreads>,
    database: OnceCell<DataDatabase>,
    timepiece: Timepiece,
}

/// The result of opening a file.
pub enum OpenedSqliteData {
    Opened(SqliteDataStore),
    /// The file is something else. The text says what.
    OtherShape(String),
}

impl SqliteDataStore {
    /// Opens a file, or creates it with its folder. Its calls run on these threads.
    pub async fn open(
        file: PathBuf,
        threads: Arc<FileThreads>,
        timepiece: Timepiece,
    ) -> Result<OpenedSqliteData, Fault> {
        Ok(match DataDatabase::open(file.clone(), Arc::clone(&threads), timepiece.clone()).await? {
            OpenedDataDatabase::Opened(database) => {
                let database = OnceCell::from(database);
                OpenedSqliteData::Opened(Self { file, threads, database, timepiece })
            }
            OpenedDataDatabase::OtherShape(why) => OpenedSqliteData::OtherShape(why),
        })
    }

    /// The same file for a tenant whose calls run on these threads.
    pub fn on(&self, threads: Arc<FileThreads>) -> Self {
        let database = self.database.get().map(|database| database.on(Arc::clone(&threads)));
        Self { threads, database: OnceCell::new_with(database), ..self.clone() }
    }

    /// A store that opens its file at the first use, for a command that may never use it.
    pub fn at_first_use(file: PathBuf, threads: Arc<FileThreads>, timepiece: Timepiece) -> Self {
        Self { file, threads, database: OnceCell::new(), timepiece }
    }

    async fn database(&self) -> Result<&DataDatabase, Fault> {
        let open = async || {
            let (file, threads) = (self.file.clone(), Arc::clone(&self.threads));
            match DataDatabase::open(file, threads, self.timepiece.clone()).await? {
                OpenedDataDatabase::Opened(database) => Ok(database),
                OpenedDataDatabase::OtherShape(why) => {
                    Err(Fault::Io(format!("{}: {why}", self.file.display())))
                }
            }
        };
        self.database.get_or_try_init(open).await
    }
}

#[async_trait]
impl DataStore for SqliteDataStore {
    fn implementation(&self) -> &'static str {
        IMPLEMENTATION
    }

    fn features(&self) -> DataFeatures {
        DataFeatures { supports_writes: true, supports_tag_filter: true, ..DataFeatures::default() }
    }

    async fn supported_filters(&self) -> DataAnswer<Vec<String>> {
        Ok(Ok(vec![DOMAIN_TAGS.to_owned()]))
    }

    async fn query(&self, filters: &QueryFilters) -> DataAnswer<Vec<PortableData>> {
        let (text, any_tag) = match read_query(filters) {
            Ok(read) => read,
            Err(reason) => return Ok(refused(reason)),
        };
        Ok(match self.database().await?.search(&text, any_tag.as_deref(), filters.limit).await? {
            DataDatabaseFound::Found(rows) => Ok(rows.into_iter().map(portable).collect()),
            DataDatabaseFound::BadExpression(why) => refused(DataRefusalReason::BadExpression { why }),
            DataDatabaseFound::TooSlow => refused(DataRefusalReason::TooSlow),
            DataDatabaseFound::TooLarge => refused(DataRefusalReason::FoundTooLarge),
        })
    }

    async fn get(&self, id: &str) -> DataAnswer<Option<PortableData>> {
        Ok(Ok(self.database().await?.row(id).await?.map(portable)))
    }

    async fn write(&self, entry: DataWrite) -> DataAnswer<WrittenData> {
        if let Err(reason) = entry.check_sizes() {
            return Ok(refused(reason));
        }
        let (now, tags) = (self.timepiece.now(), entry.tags.unwrap_or_default());
        let mut metadata = entry.metadata.unwrap_or_default();
        if let Some(recipients) = entry.recipients {
            metadata.insert("recipients".to_owned(), json!(recipients));
        }
        if let EntryExpiry::At(seconds) = entry.expires {
            metadata.insert("expires_at".to_owned(), json!(seconds));
        }
        let row = DataDatabaseRow {
            id: DataId::mint(now.millis()).to_string(),
            summary: summary_of(&entry.content),
            detail: Some(entry.content),
            tags: (!tags.is_empty()).then(|| json!(tags).to_string()),
            created: now.seconds(),
            metadata: (!metadata.is_empty()).then(|| Value::Object(metadata).to_string()),
            score: None,
        };
        let written = WrittenData { id: row.id.clone(), created_at: row.created };
        self.database().await?.insert(row, tags).await?;
        Ok(Ok(written))
    }

    async fn manifest(&self) -> DataAnswer<StoreManifest> {
        Ok(Ok(StoreManifest {
            capabilities_version: "1",
            manifest: Map::from_iter([
                ("kind".to_owned(), json!("sqlite-fts")),
                ("supported_modes".to_owned(), json!(["fts"])),
                ("score_range".to_owned(), json!("unbounded")),
                ("supported_filters".to_owned(), json!([DOMAIN_TAGS])),
                ("tag_filter_semantic".to_owned(), json!("exact match via indexed memory_tags relation")),
                (
                    "fts_query_semantic".to_owned(),
                    json!("phrase-tokens (boolean ops disabled); use `raw:` prefix for FTS5 syntax"),
                ),
            ]),
        }))
    }
}

fn refused<T>(reason: DataRefusalReason) -> Result<T, DataRefusal> {
    Err(DataRefusal { implementation: IMPLEMENTATION, reason })
}

/// Another program may have written anything into the JSON columns. What cannot be read is left out.
fn portable(row: DataDatabaseRow) -> PortableData {
    PortableData {
        id: row.id,
        summary: row.summary,
        detail: row.detail,
        score: row.score,
        domain_tags: row.tags.and_then(|tags| serde_json::from_str(&tags).ok()),
        expires_at: None,
        created_at: row.created,
        curated: Curated::default(),
        metadata: row.metadata.and_then(|metadata| serde_json::from_str(&metadata).ok()),
    }
}

//! Skills in a SQLite file with the tables of the reference runtime.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use ledger::{FileThreads, OpenedSkillDatabase, SkillDatabase, SkillDatabaseRow, SkillVersionRow};
use posthouse_time::Timepiece;
use serde_json::{Map, Value, json};
use skill::{Status, status_of};

use super::{
    BackendAnswer, BackendBody, BackendReplaced, BackendSkill, BackendStore, BackendWrite, SkillBackend,
};
use crate::backend::change_token::token_of;
use crate::fault::Fault;
use crate::skill_meta::{SkillMeta, SkillSummary, VersionInfo};
use crate::skill_store::{SkillPage, SkillText, StoreFeatures};
use crate::write_rules::{WriteRules, is_skill_name};

/// Rows that are read at a time. They contain texts.
const PAGE: usize = 200;

/// The key of the author in the metadata bag, which is where the reference keeps it.
const AUTHOR: &str = "author";

/// Skills in a SQLite file.
pub type SqliteSkillStore = BackendStore<SqliteBackend>;

#[derive(Clone)]
pub struct SqliteBackend {
    database: SkillDatabase,
    rules: WriteRules,
}

/// The result of opening a file.
pub enum OpenedSqlite {
    Opened(SqliteSkillStore),
    /// The file is no skill database. The text says why.
    OtherShape(String),
}

impl SqliteSkillStore {
    /// Opens a file, or creates it. Its calls run on these threads.
    pub async fn open(
        file: PathBuf,
        threads: Arc<FileThreads>,
        timepiece: Timepiece,
    ) -> Result<OpenedSqlite, Fault> {
        Ok(match SkillDatabase::open(file, threads).await? {
            OpenedSkillDatabase::Opened(database) => {
                let rules = WriteRules { keeps_metadata: true, ..WriteRules::default() };
                OpenedSqlite::Opened(Self::new(SqliteBackend { database, rules }, timepiece))
            }
            OpenedSkillDatabase::OtherShape(why) => OpenedSqlite::OtherShape(why),
        })
    }
}

impl SqliteBackend {
    async fn rows(&self, after: Option<&str>, at_most: usize) -> Result<SkillPage<SkillDatabaseRow>, Fault> {
        let limit = at_most.min(PAGE);
        let rows = self.database.rows(after, u32::try_from(limit).unwrap_or(u32::MAX)).await?;
        let SkillPage { mut items, next } = SkillPage::up_to(limit, rows, |row| &row.name);
        // A name that breaks our rule can be in a foreign file. No verb would find it.
        items.retain(|row| is_skill_name(&row.name));
        Ok(SkillPage { items, next })
    }
}

#[async_trait]
impl SkillBackend for SqliteBackend {
    /// Other programs write rows without numbers, so the whole row is compared.
    type Mark = SkillDatabaseRow;

    fn implementation(&self) -> &'static str {
        "SqliteSkillStore"
    }

    fn features(&self) -> StoreFeatures {
        StoreFeatures::ALL
    }

    fn rules(&self) -> &WriteRules {
        &self.rules
    }

    fn on_threads(&self, threads: &Arc<FileThreads>) -> Option<Self> {
        Some(Self { database: self.database.on(Arc::clone(threads)), rules: self.rules.clone() })
    }

    async fn manifest(&self) -> BackendAnswer<Map<String, Value>> {
        Ok(Ok(Map::from_iter([
            ("kind".to_owned(), json!("sqlite")),
            ("tag_filter_note".to_owned(), json!("header and metadata_bag.tags; every skill is read")),
            // Names are compared outside of SQL.
            ("regexp_fallback_active".to_owned(), json!(true)),
        ])))
    }

    async fn find(&self, name: &str) -> BackendAnswer<Option<BackendSkill<SkillDatabaseRow>>> {
        let row = self.database.row(name).await?;
        Ok(Ok(row.map(|row| BackendSkill { meta: meta(&row), mark: row })))
    }

    async fn find_body(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> BackendAnswer<Option<BackendBody<SkillDatabaseRow>>> {
        let Some(row) = self.database.row(name).await? else { return Ok(Ok(None)) };
        let body = match version {
            Some(version) if version != row.version => {
                self.database.version_source(name, version).await?.map(|(_, source)| source)
            }
            _ => Some(row.source.clone()),
        };
        Ok(Ok(Some(BackendBody { skill: BackendSkill { meta: meta(&row), mark: row }, body })))
    }

    async fn list(&self, after: Option<&str>, at_most: usize) -> BackendAnswer<SkillPage<SkillMeta>> {
        let page = self.rows(after, at_most).await?;
        Ok(Ok(SkillPage { items: page.items.iter().map(meta).collect(), next: page.next }))
    }

    async fn texts(&self, after: Option<&str>, at_most: usize) -> BackendAnswer<SkillPage<SkillText>> {
        let page = self.rows(after, at_most).await?;
        let text = |row: SkillDatabaseRow| SkillText {
            name: row.name,
            content_hash: row.content_hash,
            text: row.source,
        };
        Ok(Ok(SkillPage { items: page.items.into_iter().map(text).collect(), next: page.next }))
    }

    async fn history(&self, name: &str) -> BackendAnswer<Vec<VersionInfo>> {
        if self.database.row(name).await?.is_none() {
            return Ok(Ok(Vec::new()));
        }
        let rows = self.database.versions(name).await?;
        Ok(Ok(rows.into_iter().map(|row| version_info(name, row)).collect()))
    }

    async fn replace(
        &self,
        expected: Option<SkillDatabaseRow>,
        write: BackendWrite,
    ) -> BackendAnswer<BackendReplaced> {
        let (row, line) = rows(write);
        let replaced = self.database.replace(expected, row, line).await?;
        Ok(Ok(if replaced { BackendReplaced::Replaced } else { BackendReplaced::Changed }))
    }

    async fn delete(&self, name: &str) -> BackendAnswer<bool> {
        Ok(Ok(self.database.delete(name).await?))
    }

    async fn token(&self) -> BackendAnswer<Option<String>> {
        let skills = self.database.fingerprints().await?;
        let lines = skills.iter().map(|(name, status, version)| format!("{name}:{status}:{version}"));
        Ok(Ok(Some(token_of(lines))))
    }
}

/// The status is that of the text, because the gate reads it there. The reference could leave another one in the row.
fn meta(row: &SkillDatabaseRow) -> SkillMeta {
    let bag = row.metadata.as_deref().and_then(|json| serde_json::from_str::<Map<String, Value>>(json).ok());
    let mut summary = SkillSummary::of(&row.source);
    summary.description = row.description.clone().or(summary.description);
    SkillMeta {
        name: row.name.clone(),
        version: row.version.clone(),
        content_hash: row.content_hash.clone(),
        status: status_of(&row.source).status(),
        summary,
        created_at: row.created,
        updated_at: row.updated,
        status_changed_at: row.status_changed,
        author: bag.as_ref().and_then(|bag| bag.get(AUTHOR)?.as_str()).map(str::to_owned),
        metadata_bag: bag.filter(|bag| !bag.is_empty()),
    }
}

fn version_info(name: &str, row: SkillVersionRow) -> VersionInfo {
    VersionInfo {
        name: name.to_owned(),
        version: row.version,
        content_hash: row.content_hash,
        status: Status::named(&row.status).unwrap_or(Status::Draft),
        previous_status: row.previous_status.as_deref().and_then(Status::named),
        changed_at: row.changed,
        changed_by: row.changed_by,
    }
}

fn rows(write: BackendWrite) -> (SkillDatabaseRow, SkillVersionRow) {
    let BackendWrite { meta, body, line, .. } = write;
    let mut bag = meta.metadata_bag.unwrap_or_default();
    if let Some(author) = meta.author {
        bag.insert(AUTHOR.to_owned(), Value::String(author));
    }
    let row = SkillDatabaseRow {
        name: meta.name,
        version: meta.version,
        content_hash: meta.content_hash,
        status: meta.status.to_string(),
        source: body,
        description: meta.summary.description,
        metadata: Some(bag).filter(|bag| !bag.is_empty()).map(|bag| Value::Object(bag).to_string()),
        created: meta.created_at,
        updated: meta.updated_at,
        status_changed: meta.status_changed_at,
    };
    let line = SkillVersionRow {
        version: line.version,
        content_hash: line.content_hash,
        status: line.status.to_string(),
        previous_status: line.previous_status.map(|status| status.to_string()),
        changed: line.changed_at,
        changed_by: line.changed_by,
    };
    (row, line)
}

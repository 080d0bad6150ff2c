//! The server's own data store: the data of one tenant, in the ledger.

use std::sync::Arc;

use async_trait::async_trait;
use ledger::{
    DataEntries, DataFound, DataRecord, DataSearch, DataSeq, DataWritten, FoundData, TextQuery,
    WORDS_OF_A_SEARCH,
};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::{DataId, TenantId};
use serde_json::{Map, Value, json};

use super::data_entry::{Curated, DataWrite, PortableData};
use super::data_refusal::{DataRefusal, DataRefusalReason};
use super::data_store::{DataAnswer, DataFeatures, DataStore, WrittenData};
use super::query_filters::{DOMAIN_TAGS, QueryFilters};
use crate::skill_store::StoreManifest;

const IMPLEMENTATION: &str = "LedgerDataStore";

/// The data of one tenant.
#[derive(Clone)]
pub struct LedgerDataStore {
    entries: Arc<dyn DataEntries>,
    tenant: TenantId,
    timepiece: Timepiece,
}

/// A page of the newest entries.
#[derive(Clone, Debug)]
pub struct DataPage {
    pub items: Vec<PortableData>,
    /// The position after which the next page begins, if there may be one.
    pub next: Option<DataSeq>,
}

impl LedgerDataStore {
    pub fn new(entries: Arc<dyn DataEntries>, tenant: TenantId, timepiece: Timepiece) -> Self {
        Self { entries, tenant, timepiece }
    }

    /// The newest entries, in pages.
    pub async fn page(
        &self,
        any_tag: Option<Vec<String>>,
        before: Option<DataSeq>,
        limit: u32,
    ) -> DataAnswer<DataPage> {
        let search = DataSearch { text: TextQuery::Newest, any_tag, before, limit };
        Ok(self.search(search).await?.map(|found| {
            let next = found.last().filter(|_| found.len() == limit as usize).map(|last| last.seq);
            DataPage { items: found.into_iter().map(portable).collect(), next }
        }))
    }

    async fn search(&self, search: DataSearch) -> DataAnswer<Vec<FoundData>> {
        Ok(match self.entries.search_data(&self.tenant, search).await? {
            DataFound::Found(found) => Ok(found),
            DataFound::BadExpression(why) => refused(DataRefusalReason::BadExpression { why }),
            DataFound::TooSlow => refused(DataRefusalReason::TooSlow),
            DataFound::TooLarge => refused(DataRefusalReason::FoundTooLarge),
            DataFound::TooMany => refused(DataRefusalReason::TooManySearches),
            DataFound::Indexing => refused(DataRefusalReason::Indexing),
        })
    }

    /// The record of a new entry.
    fn record(&self, mut entry: DataWrite, now: Moment) -> Result<DataRecord, DataRefusalReason> {
        entry.check_sizes()?;
        let curated = entry.take_curated()?;
        let expires = entry.expires_after(now)?;
        Ok(DataRecord {
            id: DataId::mint(now.millis()),
            content: entry.content,
            tags: entry.tags.unwrap_or_default(),
            attributes: (curated != Curated::default()).then(|| json!(curated).to_string()),
            metadata: entry.metadata.filter(|map| !map.is_empty()).map(|map| Value::Object(map).to_string()),
            created: now,
            expires,
        })
    }
}

#[async_trait]
impl DataStore for LedgerDataStore {
    fn implementation(&self) -> &'static str {
        IMPLEMENTATION
    }

    fn features(&self) -> DataFeatures {
        DataFeatures {
            supports_writes: true,
            supports_tag_filter: true,
            supports_pinning: true,
            ..DataFeatures::default()
        }
    }

    async fn supported_filters(&self) -> DataAnswer<Vec<String>> {
        Ok(Ok(vec![DOMAIN_TAGS.to_owned()]))
    }

    async fn query(&self, filters: &QueryFilters) -> DataAnswer<Vec<PortableData>> {
        let (text, any_tag) = match read_query(filters) {
            Ok(read) => read,
            Err(reason) => return Ok(refused(reason)),
        };
        let search = DataSearch { text, any_tag, before: None, limit: filters.limit };
        Ok(self.search(search).await?.map(|found| found.into_iter().map(portable).collect()))
    }

    async fn get(&self, id: &str) -> DataAnswer<Option<PortableData>> {
        let found = self.entries.data_entry(&self.tenant, &id.into()).await?;
        Ok(Ok(found.map(|record| portable(FoundData { seq: DataSeq(0), record, score: None }))))
    }

    async fn write(&self, entry: DataWrite) -> DataAnswer<WrittenData> {
        let record = match self.record(entry, self.timepiece.now()) {
            Ok(record) => record,
            Err(reason) => return Ok(refused(reason)),
        };
        let written = WrittenData { id: record.id.to_string(), created_at: record.created.seconds() };
        Ok(match self.entries.write_data(&self.tenant, record).await? {
            DataWritten::Written => Ok(written),
            DataWritten::Full { limit } => refused(DataRefusalReason::QuotaExceeded { limit }),
            DataWritten::NoTenant => {
                refused(DataRefusalReason::ReadOnly { why: "the tenant was removed".to_owned() })
            }
        })
    }

    async fn manifest(&self) -> DataAnswer<StoreManifest> {
        Ok(Ok(StoreManifest {
            capabilities_version: "1",
            manifest: Map::from_iter([
                ("kind".to_owned(), json!("house")),
                ("supported_modes".to_owned(), json!(["fts"])),
                ("score_range".to_owned(), json!("unbounded")),
                ("supported_filters".to_owned(), json!([DOMAIN_TAGS])),
                ("tag_filter_semantic".to_owned(), json!("exact match; a list means any of")),
                (
                    "fts_query_semantic".to_owned(),
                    json!("phrase-tokens (boolean ops disabled); use `raw:` prefix for FTS5 syntax"),
                ),
                ("regexp_fallback_active".to_owned(), json!(false)),
            ]),
        }))
    }
}

/// The text and the tags of a query, for a store that can only search by words.
pub(super) fn read_query(
    filters: &QueryFilters,
) -> Result<(TextQuery, Option<Vec<String>>), DataRefusalReason> {
    if filters.mode != "fts" {
        return Err(DataRefusalReason::UnsupportedMode { mode: filters.mode.clone() });
    }
    let text = TextQuery::read(&filters.query);
    if let TextQuery::Words(words) = &text
        && words.len() > WORDS_OF_A_SEARCH
    {
        let (count, limit) = (words.len(), WORDS_OF_A_SEARCH);
        return Err(DataRefusalReason::TooManyItems { field: "query", count, limit });
    }
    Ok((text, filters.any_tag()?))
}

fn refused<T>(reason: DataRefusalReason) -> Result<T, DataRefusal> {
    Err(DataRefusal { implementation: IMPLEMENTATION, reason })
}

fn portable(found: FoundData) -> PortableData {
    let FoundData { record, score, .. } = found;
    let json = |text: Option<String>| text.and_then(|text| serde_json::from_str(&text).ok());
    let curated = record.attributes.as_deref().and_then(|text| serde_json::from_str(text).ok());
    PortableData {
        id: record.id.to_string(),
        summary: record.summary(),
        score,
        domain_tags: Some(record.tags).filter(|tags| !tags.is_empty()),
        expires_at: record.expires.map(Moment::seconds),
        created_at: record.created.seconds(),
        curated: curated.unwrap_or_default(),
        metadata: json(record.metadata),
        detail: Some(record.content),
    }
}

//! Data in a remote store: an HTTP endpoint of the tenant's operator.
//!
//! The endpoint stores entries unchanged and searches them. The server checks sizes, modes and filters, splits off the
//! curated fields, and drops expired entries. An answer with entries that lack the requested tags, or with more entries
//! than requested, is a failure.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use posthouse_time::{Instant, Moment, Timepiece};
use posthouse_wire::DataId;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::data_entry::{BESIDE_METADATA, CONTENT_BYTES, Curated, DataWrite, PortableData};
use super::data_refusal::{DataRefusal, DataRefusalReason};
use super::data_store::{DataAnswer, DataFeatures, DataStore, WrittenData};
use super::query_filters::{DOMAIN_TAGS, QueryFilters};
use crate::backend::{ManifestAnswer, json_bytes};
use crate::remote_stores::{OperationAnswer, RemoteEndpoint, nullable, reason};
use crate::skill_store::StoreManifest;
use crate::store_failure::StoreFailure;
use crate::write_rules::{METADATA_BYTES, TAG_BYTES, TAGS};

const IMPLEMENTATION: &str = "RemoteDataStore";
/// The largest answer to a query.
const FOUND: usize = 8 * 1024 * 1024;
const SMALL: usize = 64 * 1024;
/// How long a manifest is cached.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Number of filters and modes that a manifest may declare, and the length of each.
const NAMES: usize = 64;
const NAME_BYTES: usize = 128;
/// The longest id that a store may choose.
const ID_BYTES: usize = 256;
/// The longest summary: 200 characters of up to four bytes.
const SUMMARY_BYTES: usize = 800;

/// The data of one tenant in a remote store.
pub struct RemoteDataStore {
    endpoint: Arc<RemoteEndpoint>,
    timepiece: Timepiece,
    manifest: Mutex<Option<(Instant, DeclaredManifest)>>,
}

/// What the manifest of a remote store declares.
#[derive(Clone, Default)]
struct DeclaredManifest {
    filters: Vec<String>,
    modes: Vec<String>,
    whole: Map<String, Value>,
}

#[derive(Deserialize)]
struct EntriesAnswer {
    entries: Vec<PortableData>,
}

#[derive(Deserialize)]
struct EntryAnswer {
    #[serde(deserialize_with = "nullable")]
    entry: Option<PortableData>,
}

impl RemoteDataStore {
    pub(crate) fn new(endpoint: Arc<RemoteEndpoint>, timepiece: Timepiece) -> Self {
        Self { endpoint, timepiece, manifest: Mutex::default() }
    }

    async fn declared(&self) -> DataAnswer<DeclaredManifest> {
        let now = self.timepiece.instant();
        if let Some((until, known)) = &*self.manifest.lock()
            && *until > now
        {
            return Ok(Ok(known.clone()));
        }
        let answer = self.endpoint.call("data.manifest", json!({}), SMALL).await?;
        let declared = answer.and_then(|ManifestAnswer { manifest }| DeclaredManifest::read(manifest));
        let declared = match declared {
            Ok(declared) => declared,
            Err(failure) => return Ok(refused(DataRefusalReason::Remote(failure))),
        };
        *self.manifest.lock() = Some((now + REMEMBERED, declared.clone()));
        Ok(Ok(declared))
    }

    /// The entries that have not expired.
    fn living(&self, entries: impl IntoIterator<Item = PortableData>) -> Vec<PortableData> {
        let now = self.timepiece.now().seconds();
        let lives = |entry: &PortableData| entry.expires_at.is_none_or(|expires| expires > now);
        entries.into_iter().filter(lives).collect()
    }
}

impl DeclaredManifest {
    fn read(mut manifest: Map<String, Value>) -> Result<Self, StoreFailure> {
        let names = |member: &str, default: &[&str]| match manifest.get(member) {
            None => Ok(default.iter().map(|name| (*name).to_owned()).collect()),
            Some(declared) => {
                let names: Option<Vec<String>> = serde_json::from_value(declared.clone()).ok();
                names
                    .filter(|names| names.len() <= NAMES && names.iter().all(|name| name.len() <= NAME_BYTES))
                    .ok_or_else(|| StoreFailure::bad_answer(format!("`{member}` must be a list of names")))
            }
        };
        let (filters, modes) = (names("supported_filters", &[])?, names("supported_modes", &["fts"])?);
        let kind = manifest.insert("kind".to_owned(), json!("remote"));
        if let Some(kind) = kind {
            manifest.insert("remote_kind".to_owned(), kind);
        }
        manifest.insert("supported_filters".to_owned(), json!(filters));
        manifest.insert("supported_modes".to_owned(), json!(modes));
        Ok(Self { filters, modes, whole: manifest })
    }
}

#[async_trait]
impl DataStore for RemoteDataStore {
    fn implementation(&self) -> &'static str {
        IMPLEMENTATION
    }

    /// What the last manifest declares.
    fn features(&self) -> DataFeatures {
        let known = self.manifest.lock();
        let declared = known.as_ref().map(|(_, declared)| declared);
        let filters =
            |name: &str| declared.is_some_and(|declared| declared.filters.iter().any(|one| one == name));
        let modes =
            |name: &str| declared.is_some_and(|declared| declared.modes.iter().any(|one| one == name));
        DataFeatures {
            supports_writes: true,
            supports_tag_filter: filters(DOMAIN_TAGS),
            supports_semantic: modes("semantic"),
            supports_rerank: modes("rerank"),
            supports_thread_status_filter: filters("thread_status"),
            supports_pinning: true,
            supports_decay_model: false,
        }
    }

    async fn supported_filters(&self) -> DataAnswer<Vec<String>> {
        Ok(self.declared().await?.map(|declared| declared.filters))
    }

    async fn query(&self, filters: &QueryFilters) -> DataAnswer<Vec<PortableData>> {
        let declared = match self.declared().await? {
            Ok(declared) => declared,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if !declared.modes.contains(&filters.mode) {
            return Ok(refused(DataRefusalReason::UnsupportedMode { mode: filters.mode.clone() }));
        }
        let any_tag = match filters.any_tag() {
            Ok(tags) => tags.filter(|_| declared.filters.iter().any(|filter| filter == DOMAIN_TAGS)),
            Err(reason) => return Ok(refused(reason)),
        };
        let QueryFilters { query, limit, mode, filters, .. } = filters;
        let arguments = json!({ "query": query, "limit": limit, "mode": mode, "filters": filters });
        let answer = self.endpoint.call("data.query", arguments, FOUND).await?;
        let entries = match answer {
            Ok(OperationAnswer::Done(EntriesAnswer { entries })) => entries,
            Ok(OperationAnswer::Refused { refused: why }) => {
                return Ok(refused(DataRefusalReason::BadExpression { why: reason(&why) }));
            }
            Err(failure) => return Ok(refused(DataRefusalReason::Remote(failure))),
        };
        let has_tag = |entry: &PortableData| match (&any_tag, &entry.domain_tags) {
            (Some(wanted), tags) => tags.iter().flatten().any(|tag| wanted.contains(tag)),
            (None, _) => true,
        };
        if let Some(failure) = entries.iter().find_map(|entry| check_entry(entry).err()) {
            return Ok(refused(DataRefusalReason::Remote(failure)));
        }
        if entries.len() > *limit as usize || !entries.iter().all(has_tag) {
            let failure = StoreFailure::bad_answer("it has entries that were not asked for");
            return Ok(refused(DataRefusalReason::Remote(failure)));
        }
        Ok(Ok(self.living(entries)))
    }

    async fn get(&self, id: &str) -> DataAnswer<Option<PortableData>> {
        if id.is_empty() || id.len() > ID_BYTES {
            return Ok(Ok(None));
        }
        let answer = self.endpoint.call("data.get", json!({ "id": id }), FOUND).await?;
        Ok(match answer {
            Ok(EntryAnswer { entry: Some(entry) }) if entry.id != id => {
                let failure = StoreFailure::bad_answer("it is another entry");
                refused(DataRefusalReason::Remote(failure))
            }
            Ok(EntryAnswer { entry }) => match entry.as_ref().map_or(Ok(()), check_entry) {
                Ok(()) => Ok(self.living(entry).pop()),
                Err(failure) => refused(DataRefusalReason::Remote(failure)),
            },
            Err(failure) => refused(DataRefusalReason::Remote(failure)),
        })
    }

    async fn write(&self, entry: DataWrite) -> DataAnswer<WrittenData> {
        let entry = match portable(entry, self.timepiece.now()) {
            Ok(entry) => entry,
            Err(reason) => return Ok(refused(reason)),
        };
        let answer = self.endpoint.call("data.write", json!({ "entry": entry }), SMALL).await?;
        Ok(match answer {
            Ok(OperationAnswer::Done(written)) => {
                let WrittenData { id, .. } = &written;
                match id.is_empty() || id.len() > ID_BYTES {
                    true => refused(DataRefusalReason::Remote(StoreFailure::bad_answer("its id is no id"))),
                    false => Ok(written),
                }
            }
            Ok(OperationAnswer::Refused { refused: why }) => {
                refused(DataRefusalReason::ReadOnly { why: reason(&why) })
            }
            Err(failure) => refused(DataRefusalReason::Remote(failure)),
        })
    }

    async fn manifest(&self) -> DataAnswer<StoreManifest> {
        let declared = self.declared().await?;
        Ok(declared.map(|declared| StoreManifest { capabilities_version: "1", manifest: declared.whole }))
    }
}

/// A new entry as the endpoint keeps it. The server chooses its id, so that a repeated request changes nothing.
fn portable(mut entry: DataWrite, now: Moment) -> Result<PortableData, DataRefusalReason> {
    entry.check_sizes()?;
    let curated = entry.take_curated()?;
    Ok(PortableData {
        id: DataId::mint(now.millis()).to_string(),
        summary: ledger::summary_of(&entry.content),
        expires_at: entry.expires_after(now)?.map(Moment::seconds),
        detail: Some(entry.content),
        score: None,
        domain_tags: entry.tags.filter(|tags| !tags.is_empty()),
        created_at: now.seconds(),
        curated,
        metadata: entry.metadata.filter(|metadata| !metadata.is_empty()),
    })
}

/// Refuses an entry that nobody could have written by this server: callers rely on its limits.
fn check_entry(entry: &PortableData) -> Result<(), StoreFailure> {
    let PortableData { id, summary, detail, domain_tags, curated, metadata, .. } = entry;
    let Curated { thread_status, payload_type, knowledge_type, recipients, agent_id, vault, .. } = curated;
    let size = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let is_short = |list: &Option<Vec<String>>| {
        let list = list.as_deref().unwrap_or_default();
        list.len() <= TAGS && list.iter().all(|item| item.len() <= TAG_BYTES)
    };
    let labels = [thread_status, payload_type, knowledge_type, agent_id, vault];
    let fits = (1..=ID_BYTES).contains(&id.len())
        && summary.len() <= SUMMARY_BYTES
        && size(detail) <= CONTENT_BYTES
        && metadata.as_ref().map_or(0, json_bytes) <= METADATA_BYTES
        && is_short(domain_tags)
        && is_short(recipients)
        && labels.into_iter().all(|label| size(label) <= METADATA_BYTES);
    if !fits {
        return Err(StoreFailure::bad_answer("an entry is larger than entries may be"));
    }
    let metadata = metadata.iter().flat_map(|metadata| metadata.keys());
    match metadata.into_iter().find(|name| BESIDE_METADATA.contains(&name.as_str())) {
        Some(name) => {
            Err(StoreFailure::bad_answer(format!("`{name}` must be beside the metadata of an entry")))
        }
        None => Ok(()),
    }
}

fn refused<T>(reason: DataRefusalReason) -> Result<T, DataRefusal> {
    Err(DataRefusal { implementation: IMPLEMENTATION, reason })
}

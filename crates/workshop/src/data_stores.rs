//! Data that is kept for agents: the contract of data stores, the stores, and the tools `data_read` and `data_write`.
//!
//! A [`DataStore`] keeps texts and finds them again. There are three of them: the server's own, which keeps the data of
//! one tenant in the ledger ([`LedgerDataStore`]), a SQLite file in the layout of the reference runtime
//! ([`SqliteDataStore`]), and a remote store. A custom build can add others.
//!
//! - `get` answers a miss with nothing, and `query` with an empty list. Neither is a refusal.
//! - A filter that a store does not declare is refused, with all others that it does not declare ([`DataBridge`]). A
//!   filter that it declares holds for every query. A value of the wrong shape is refused by name.
//! - Nothing expires unless its writer said when.

mod data_bridge;
mod data_entry;
mod data_refusal;
mod data_store;
mod ledger_data;
mod query_filters;
mod remote_data;
mod routes;
mod sqlite_data;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_kit::Problem;
use identity::{RosterView, TenantCache};
use ledger::{DataEntries, DataSeq, SkillApproval, TenantFileThreads};
use parking_lot::Mutex;
use posthouse_time::Timepiece;
use posthouse_wire::TenantId;
use serde::Serialize;
use serde_json::{Value, json};

use crate::config::Config;
use crate::custom_stores::CustomStores;
use crate::fault::Fault;
use crate::large_answers::{AnswerTurn, LargeAnswers};
use crate::long_json;
use crate::remote_stores::RemoteStores;
use crate::running::SkillThreads;
use crate::tenant_stores::StoreChoice;

pub use data_bridge::{BRIDGE, DataBridge};
pub use data_entry::{CONTENT_BYTES, Curated, DataWrite, EntryExpiry, PortableData};
pub use data_refusal::{DATA_CONNECTOR_TYPE, DataRefusal, DataRefusalReason};
pub use data_store::{DataAnswer, DataFeatures, DataStore, WrittenData};
pub use ledger_data::{DataPage, LedgerDataStore};
pub use query_filters::{LARGEST_LIMIT, QueryFilters};
pub use remote_data::RemoteDataStore;
pub use routes::{DATA_OPENAPI, DATA_OPERATIONS, data_routes};
pub use sqlite_data::{OpenedSqliteData, SqliteDataStore};

/// Lifetime of cached settings. A change on this node is visible at once.
const REMEMBERED: Duration = Duration::from_secs(5);
/// The store that a refusal names if no store could be opened.
const NO_STORE: &str = "DataStore";
const STORES: &str = "`ledger`, `sqlite:FILE`, `custom:NAME` or a URL";

/// Dependencies of the data stores.
pub(crate) struct DataParts {
    pub config: Config,
    pub entries: Arc<dyn DataEntries>,
    pub settings: Arc<dyn SkillApproval>,
    pub roster: RosterView,
    pub remote: Arc<RemoteStores>,
    pub custom: CustomStores,
    pub files: TenantFileThreads,
    pub answers: Arc<LargeAnswers>,
    pub threads: Arc<SkillThreads>,
    pub timepiece: Timepiece,
}

/// The data of all tenants. A cheap handle to clone.
#[derive(Clone)]
pub struct DataStores(Arc<OpenedDataStores>);

type OpenedByChoice = HashMap<(StoreChoice, TenantId), Arc<dyn DataStore>>;

struct OpenedDataStores {
    parts: DataParts,
    tenants: TenantCache<TenantData>,
    /// Open custom and remote stores of each tenant. Only settings of the operator add to them, and to the files.
    opened: Mutex<OpenedByChoice>,
    files: Mutex<HashMap<PathBuf, SqliteDataStore>>,
}

/// The data store of one tenant.
#[derive(Clone)]
pub struct TenantData {
    pub store: Arc<dyn DataStore>,
    /// The server's own store, if the tenant uses it.
    in_ledger: Option<LedgerDataStore>,
}

impl DataStores {
    pub(crate) fn new(parts: DataParts) -> Self {
        let tenants = TenantCache::new(parts.roster.clone(), 10_000, REMEMBERED);
        let (opened, files) = Default::default();
        Self(Arc::new(OpenedDataStores { parts, tenants, opened, files }))
    }

    /// The store of a tenant.
    pub async fn of(&self, tenant: &TenantId) -> DataAnswer<TenantData> {
        let opened = self.0.tenants.get_unless_refused(tenant, async {
            let (settings, _) = self.0.parts.settings.skill_settings(tenant).await?;
            match StoreChoice::read(&settings.data_store) {
                Some(choice) => self.open(tenant, &choice).await,
                None => Ok(Err(format!("`{}` is not {STORES}", settings.data_store))),
            }
        });
        Ok(opened.await?.map_err(|why| DataRefusal {
            implementation: NO_STORE,
            reason: DataRefusalReason::Unusable { why },
        }))
    }

    /// A body of a tenant, parsed where it delays nobody else.
    async fn parsed(&self, tenant: &TenantId, body: Bytes) -> Result<serde_json::Result<Value>, Problem> {
        long_json::parsed(&self.0.parts.threads, tenant, body, |body| serde_json::from_slice(body)).await
    }

    /// A list of entries of a tenant as JSON, written where it delays nobody else.
    pub(crate) async fn written(
        &self,
        tenant: &TenantId,
        list: impl Serialize + Send + 'static,
        length: usize,
    ) -> Result<String, Problem> {
        long_json::written(&self.0.parts.threads, tenant, list, length).await
    }

    /// Waits until a large answer may be built for a tenant.
    pub(crate) async fn answer_turn(&self, tenant: &TenantId) -> Result<AnswerTurn, Problem> {
        self.0.parts.answers.turn(tenant).await
    }

    /// The tools `data_read` and `data_write` over the store of a tenant.
    pub async fn bridge(&self, tenant: &TenantId) -> DataAnswer<DataBridge> {
        Ok(self.of(tenant).await?.map(|data| data.bridge()))
    }

    /// Checks that a tenant could use this store. The error is a text for the operator.
    pub(crate) async fn check(
        &self,
        tenant: &TenantId,
        choice: &str,
    ) -> Result<Result<StoreChoice, String>, Fault> {
        let Some(choice) = StoreChoice::read(choice) else {
            return Ok(Err(format!("`{choice}` is not {STORES}")));
        };
        if let StoreChoice::Remote(url) = &choice {
            let url = self.0.parts.remote.check(url);
            return Ok(url.map(|url| StoreChoice::Remote(url.to_string())));
        }
        Ok(self.open(tenant, &choice).await?.map(|_| choice))
    }

    async fn open(
        &self,
        tenant: &TenantId,
        choice: &StoreChoice,
    ) -> Result<Result<TenantData, String>, Fault> {
        let DataParts { config, entries, remote, custom, timepiece, .. } = &self.0.parts;
        let key = (choice.clone(), tenant.clone());
        if let Some(known) = self.0.opened.lock().get(&key) {
            return Ok(Ok(TenantData { store: Arc::clone(known), in_ledger: None }));
        }
        let store: Arc<dyn DataStore> = match choice {
            StoreChoice::Ledger => {
                let own = LedgerDataStore::new(Arc::clone(entries), tenant.clone(), timepiece.clone());
                return Ok(Ok(TenantData { store: Arc::new(own.clone()), in_ledger: Some(own) }));
            }
            StoreChoice::Filesystem(_) => return Ok(Err(format!("a data store is {STORES}"))),
            StoreChoice::Sqlite(file) => {
                return Ok(match config.check_place(file) {
                    Ok(()) => self
                        .open_file(tenant, file)
                        .await?
                        .map(|store| TenantData { store: Arc::new(store), in_ledger: None }),
                    Err(why) => Err(why),
                });
            }
            StoreChoice::Custom(name) => match custom.data(name) {
                Ok(open) => open(tenant),
                Err(why) => return Ok(Err(why)),
            },
            StoreChoice::Remote(url) => Arc::new(remote.data(tenant, url)),
        };
        // If two tasks opened it at the same time, the first one counts.
        let store = Arc::clone(self.0.opened.lock().entry(key).or_insert(store));
        Ok(Ok(TenantData { store, in_ledger: None }))
    }

    /// A file, opened once for all its tenants. The calls of each tenant run on its own threads.
    async fn open_file(
        &self,
        tenant: &TenantId,
        file: &Path,
    ) -> Result<Result<SqliteDataStore, String>, Fault> {
        let DataParts { files, timepiece, .. } = &self.0.parts;
        let threads = files.of(tenant);
        if let Some(known) = self.0.files.lock().get(file) {
            return Ok(Ok(known.on(threads)));
        }
        let opened = SqliteDataStore::open(file.to_owned(), Arc::clone(&threads), timepiece.clone()).await?;
        Ok(match opened {
            OpenedSqliteData::Opened(store) => {
                Ok(self.0.files.lock().entry(file.to_owned()).or_insert(store).on(threads))
            }
            OpenedSqliteData::OtherShape(why) => Err(why),
        })
    }
}

impl TenantData {
    /// The tools over this store.
    pub fn bridge(&self) -> DataBridge {
        DataBridge::new(Arc::clone(&self.store))
    }

    /// The newest entries. Only the server's own store has more than one page of them.
    pub async fn page(
        &self,
        any_tag: Option<Vec<String>>,
        before: Option<DataSeq>,
        limit: u32,
    ) -> DataAnswer<DataPage> {
        if let Some(in_ledger) = &self.in_ledger {
            return in_ledger.page(any_tag, before, limit).await;
        }
        if before.is_some() {
            let reason = DataRefusalReason::invalid("after", "cannot be used: the store has no pages");
            return Ok(Err(DataRefusal { implementation: self.store.implementation(), reason }));
        }
        let filters =
            any_tag.map(|tags| (query_filters::DOMAIN_TAGS.to_owned(), json!(tags))).into_iter().collect();
        let newest = QueryFilters { limit, filters, ..QueryFilters::text("") };
        let found = self.bridge().query(&newest).await?;
        Ok(found.map(|items| DataPage { items, next: None }))
    }
}

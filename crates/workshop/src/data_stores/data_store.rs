//! The contract of data stores.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::data_entry::{DataWrite, PortableData};
use super::data_refusal::DataRefusal;
use super::query_filters::QueryFilters;
use crate::fault::Fault;
use crate::skill_store::StoreManifest;

/// The answer or the refusal of a data store, or its fault.
pub type DataAnswer<T> = Result<Result<T, DataRefusal>, Fault>;

/// What a data store can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DataFeatures {
    pub supports_writes: bool,
    pub supports_tag_filter: bool,
    pub supports_semantic: bool,
    pub supports_rerank: bool,
    pub supports_thread_status_filter: bool,
    /// An entry can be marked as kept for ever, and shows it.
    pub supports_pinning: bool,
    pub supports_decay_model: bool,
}

/// The id and the time of a new entry, in seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenData {
    pub id: String,
    pub created_at: i64,
}

/// A store of data. A store of your own implements this trait and is registered in
/// [`CustomStores`](crate::CustomStores).
#[async_trait]
pub trait DataStore: Send + Sync {
    /// The name of the implementation, which refusals carry.
    fn implementation(&self) -> &'static str;
    fn features(&self) -> DataFeatures;
    /// The keys of the filters that `query` enforces: exactly those that the manifest declares.
    async fn supported_filters(&self) -> DataAnswer<Vec<String>>;
    /// The best first, or the newest first if the query is blank. Empty if nothing matches.
    async fn query(&self, filters: &QueryFilters) -> DataAnswer<Vec<PortableData>>;
    /// None if there is no such entry.
    async fn get(&self, id: &str) -> DataAnswer<Option<PortableData>>;
    /// Stores an entry durably. A repeat stores another.
    async fn write(&self, entry: DataWrite) -> DataAnswer<WrittenData>;
    async fn manifest(&self) -> DataAnswer<StoreManifest>;
}

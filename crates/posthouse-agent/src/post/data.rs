//! Data of the caller's tenant: writing entries and finding them again (`/v1/data`).

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::call::{ApiRequest, CallLimits};
use super::{Client, Fault, ListPage};

/// An entry as the server returns it. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredData {
    pub id: String,
    /// The first line of the text.
    pub summary: String,
    /// The whole text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Only in results of a search. How scores compare is up to the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain_tags: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
    pub created_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Everything else that the server says about it.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A new entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NewData {
    pub content: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<String>,
    /// Seconds since 1970. `Some(None)` says that the entry is kept for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Option<i64>>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl NewData {
    pub fn new(content: impl Into<String>) -> Self {
        Self { content: content.into(), ..Self::default() }
    }
}

/// The id and the time of a new entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataReceipt {
    pub id: String,
    pub created_at: i64,
}

/// A search.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DataQuery {
    /// Words that an entry must have. Blank finds the newest entries.
    pub query: String,
    /// 1 to 1000. The server's default is 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The server's default is `fts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Filters that the store supports, such as `domain_tags`. Others are refused.
    #[serde(flatten)]
    pub filters: Map<String, Value>,
}

impl DataQuery {
    pub fn new(query: impl Into<String>) -> Self {
        Self { query: query.into(), ..Self::default() }
    }
}

#[derive(Deserialize)]
struct FoundEntries {
    items: Vec<StoredData>,
}

impl Client {
    /// The newest entries, one page at a time. `after` is the `next` of the previous page.
    pub async fn data(&self, after: Option<&str>, limit: Option<u32>) -> Result<ListPage<StoredData>, Fault> {
        self.ask(|| ApiRequest::get(["data"]).asking("after", after).asking("limit", limit)).await
    }

    /// One entry.
    pub async fn data_entry(&self, id: &str) -> Result<StoredData, Fault> {
        self.ask(|| ApiRequest::get(["data", id])).await
    }

    /// Entries with these words, the best first.
    pub async fn query_data(&self, query: &DataQuery) -> Result<Vec<StoredData>, Fault> {
        let path = ["data", "query"];
        let found: FoundEntries =
            self.ask(|| ApiRequest::with_body(Method::POST, &path, Some(query))).await?;
        Ok(found.items)
    }

    /// Stores an entry durably. A second write would store another one, so this call is made once: after
    /// [`Fault::Unreachable`] with `sent`, the entry may be there.
    pub async fn write_data(&self, new: &NewData) -> Result<DataReceipt, Fault> {
        let limits = self.limits();
        let once = CallLimits { until: limits.begun, ..limits };
        self.connection.call(once, |_| ApiRequest::post("data", new)).await?.read()
    }

    /// What the data store can do: its manifest and features.
    pub async fn data_store(&self) -> Result<Value, Fault> {
        self.ask(|| ApiRequest::get(["data-store"])).await
    }
}

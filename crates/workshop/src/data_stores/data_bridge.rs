//! The tools `data_read` and `data_write` over a data store, as skills call them.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::data_entry::{DataWrite, PortableData};
use super::data_refusal::{DataRefusal, DataRefusalReason};
use super::data_store::{DataAnswer, DataStore, WrittenData};
use super::query_filters::QueryFilters;
use crate::skill_store::StoreManifest;

/// The name of the bridge in refusals, as the reference has it.
pub const BRIDGE: &str = "DataStoreMcpConnector";

/// The tools over one store.
#[derive(Clone)]
pub struct DataBridge(Arc<dyn DataStore>);

impl DataBridge {
    pub fn new(store: Arc<dyn DataStore>) -> Self {
        Self(store)
    }

    pub fn store(&self) -> &dyn DataStore {
        &*self.0
    }

    /// `data_read`: a search by the arguments of the tool.
    pub async fn data_read(&self, arguments: Map<String, Value>) -> DataAnswer<Vec<PortableData>> {
        match QueryFilters::read_tool(arguments) {
            Ok(filters) => self.query(&filters).await,
            Err(reason) => Ok(Err(self.refused(reason))),
        }
    }

    /// A search after the check of its filters. Every HTTP API and tool searches through here.
    pub async fn query(&self, filters: &QueryFilters) -> DataAnswer<Vec<PortableData>> {
        if !filters.filters.is_empty() {
            let supported = match self.0.supported_filters().await? {
                Ok(supported) => supported,
                Err(refusal) => return Ok(Err(refusal)),
            };
            if let Err(reason) = filters.check(&supported, BRIDGE) {
                return Ok(Err(self.refused(reason)));
            }
        }
        self.0.query(filters).await
    }

    /// `data_write`: a new entry by the arguments of the tool. `agent_id` is the writer, as the server knows it.
    pub async fn data_write(
        &self,
        arguments: Map<String, Value>,
        agent_id: Option<String>,
    ) -> DataAnswer<WrittenData> {
        match DataWrite::read_tool(arguments) {
            Ok(entry) => self.0.write(DataWrite { agent_id, ..entry }).await,
            Err(reason) => Ok(Err(self.refused(reason))),
        }
    }

    pub async fn manifest(&self) -> DataAnswer<StoreManifest> {
        let wrapped = match self.0.manifest().await? {
            Ok(wrapped) => wrapped,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let manifest = json!({"kind": "data-store-bridge", "wraps": wrapped.manifest});
        Ok(Ok(StoreManifest {
            capabilities_version: wrapped.capabilities_version,
            manifest: manifest.as_object().cloned().unwrap_or_default(),
        }))
    }

    fn refused(&self, reason: DataRefusalReason) -> DataRefusal {
        DataRefusal { implementation: self.0.implementation(), reason }
    }
}

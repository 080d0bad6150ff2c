//! Data that is kept for agents: the contract of data stores, the stores, and the tools `data_read` and `data_write`.
//!
//! A [`DataStore`] keeps texts and finds them again. There are two of them: the server's own, which keeps the data of one
//! tenant in the ledger ([`LedgerDataStore`]), and a SQLite file in the layout of the reference runtime
//! ([`SqliteDataStore`]).
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
mod routes;
mod sqlite_data;

use std::sync::Arc;

use ledger::DataEntries;
use posthouse_time::Timepiece;
use posthouse_wire::TenantId;

pub use data_bridge::{BRIDGE, DataBridge};
pub use data_entry::{CONTENT_BYTES, Curated, DataWrite, EntryExpiry, PortableData};
pub use data_refusal::{DATA_CONNECTOR_TYPE, DataRefusal, DataRefusalReason};
pub use data_store::{DataAnswer, DataFeatures, DataStore, WrittenData};
pub use ledger_data::{DataPage, LedgerDataStore};
pub use query_filters::{LARGEST_LIMIT, QueryFilters};
pub use routes::{DATA_OPENAPI, DATA_OPERATIONS, DataCaller, DataCallers, data_routes};
pub use sqlite_data::{OpenedSqliteData, SqliteDataStore};

/// The data of all tenants. A cheap handle to clone.
#[derive(Clone)]
pub struct DataStores {
    entries: Arc<dyn DataEntries>,
    timepiece: Timepiece,
}

impl DataStores {
    pub fn new(entries: Arc<dyn DataEntries>, timepiece: Timepiece) -> Self {
        Self { entries, timepiece }
    }

    /// The store of a tenant.
    pub fn of(&self, tenant: &TenantId) -> LedgerDataStore {
        LedgerDataStore::new(Arc::clone(&self.entries), tenant.clone(), self.timepiece.clone())
    }

    /// The tools `data_read` and `data_write` over the store of a tenant.
    pub fn bridge(&self, tenant: &TenantId) -> DataBridge {
        DataBridge::new(Arc::new(self.of(tenant)))
    }
}

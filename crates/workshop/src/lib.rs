//! Skills and data that are kept for agents: the stores, and the rules that every store follows.
//!
//! A [`SkillStore`] keeps skills with their history. There are three of them: the server's own, which keeps the skills of
//! one tenant in the ledger ([`LedgerSkillStore`]), a folder of files ([`FilesystemSkillStore`]) and a SQLite file
//! ([`SqliteSkillStore`]). The last two have the layout of the reference runtime, so its folders and files can be opened.
//!
//! A [`DataStore`] keeps texts that are searched. The module `data_stores` has its contract, its stores and its tools.
//!
//! - The status of a stored skill is the status that the approval gate reads in its text.
//! - A forced Draft beats every other rule about the status and removes the signature.
//! - The author of a skill never changes.
//! - A name that breaks the rule for names is refused when writing, and not found when reading.
//! - A write is decided from what was read, and repeated if somebody else wrote in between.
//! - A refusal is an answer: every verb returns a `Result` with the answer or the refusal, inside a `Result` with the
//!   fault.

mod approval_keys;
mod approval_log;
mod approval_policy;
mod backend;
mod catalogue;
mod config;
mod data_stores;
mod fault;
mod metrics;
mod routes;
mod skill_filter;
mod skill_meta;
mod skill_store;
mod skills;
mod store_refusal;
mod tenant_stores;
mod tools;
mod workshop;
mod write_rules;

pub use approval_keys::{ApprovalKeys, SettingsRefusal, approval_key_id};
pub use approval_policy::ApprovalPolicy;
pub use backend::{
    BackendStore, FilesystemBackend, FilesystemSettings, FilesystemSkillStore, LedgerBackend,
    LedgerSkillStore, OpenedSqlite, SkillRestored, SqliteBackend, SqliteSkillStore,
};
pub use catalogue::{Audience, Catalogue, CatalogueAnswer, CatalogueListing, CatalogueQuery, SkillCategory};
pub use config::Config;
pub use data_stores::{
    BRIDGE, CONTENT_BYTES, Curated, DATA_CONNECTOR_TYPE, DATA_OPENAPI, DATA_OPERATIONS, DataAnswer,
    DataBridge, DataCaller, DataCallers, DataFeatures, DataPage, DataRefusal, DataRefusalReason, DataStore,
    DataStores, DataWrite, EntryExpiry, LARGEST_LIMIT, LedgerDataStore, OpenedSqliteData, PortableData,
    QueryFilters, SqliteDataStore, WrittenData, data_routes,
};
pub use fault::Fault;
pub use metrics::Metrics;
pub use routes::{OPENAPI, OPERATIONS, routes};
pub use skill_filter::SkillFilter;
pub use skill_meta::{SkillMeta, SkillSource, SkillSummary, TriggerSummary, VersionInfo};
pub use skill_store::{
    SkillPage, SkillStore, SkillText, StoreAnswer, StoreFeatures, StoreManifest, StoreOptions,
};
pub use skills::{SkillWrite, StoreDescription, TenantSkills};
pub use store_refusal::{CONNECTOR_TYPE, RefusalReason, StoreRefusal, WriteConflict};
pub use tools::{
    RpcError, RpcMessage, RpcRequest, TOOL_OPENAPI, TOOL_OPERATIONS, ToolFailure, ToolList, ToolParts,
    ToolRunner, ToolSurface, Toolbox, UnreadMessage, rpc_response, tool_routes,
};
pub use workshop::{Parts, Workshop};
pub use write_rules::{BODY_BYTES, METADATA_BYTES, NAME_BYTES, TAG_BYTES, TAGS, is_skill_name};

//! Skills and data that are kept for agents: the stores, and the rules that every store follows.
//!
//! A [`SkillStore`] keeps skills with their history. There are four of them: the server's own, which keeps the skills
//! of one tenant in the ledger ([`LedgerSkillStore`]), a folder of files ([`FilesystemSkillStore`]), a SQLite file
//! ([`SqliteSkillStore`]) and a remote store, which is an HTTP endpoint. Folder and file have the layout of the
//! reference runtime, so its folders and files can be opened. A custom build can add others ([`CustomStores`]).
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
mod custom_stores;
mod data_stores;
mod fault;
mod large_answers;
mod long_json;
mod metrics;
mod remote_stores;
mod routes;
mod running;
mod skill_changes;
mod skill_filter;
mod skill_meta;
mod skill_store;
mod skills;
mod store_failure;
mod store_refusal;
mod store_walk;
mod tenant_stores;
mod tools;
mod workshop;
mod write_audit;
mod write_rules;

pub use approval_keys::{ApprovalKeys, EndpointSecrets, SettingsRefusal, approval_key_id};
pub use approval_policy::ApprovalPolicy;
pub use backend::{
    BackendAnswer, BackendBody, BackendReplaced, BackendSkill, BackendStore, BackendWrite, FilesystemBackend,
    FilesystemSettings, FilesystemSkillStore, LedgerBackend, LedgerSkillStore, OpenedSqlite, RemoteBackend,
    RemoteSkillStore, SkillBackend, SkillRestored, SqliteBackend, SqliteSkillStore,
};
pub use catalogue::{Audience, Catalogue, CatalogueAnswer, CatalogueListing, CatalogueQuery, SkillCategory};
pub use config::Config;
pub use custom_stores::CustomStores;
pub use data_stores::{
    BRIDGE, CONTENT_BYTES, Curated, DATA_CONNECTOR_TYPE, DATA_OPENAPI, DATA_OPERATIONS, DataAnswer,
    DataBridge, DataFeatures, DataPage, DataRefusal, DataRefusalReason, DataStore, DataStores, DataWrite,
    EntryExpiry, LARGEST_LIMIT, LedgerDataStore, OpenedSqliteData, PortableData, QueryFilters,
    RemoteDataStore, SqliteDataStore, TenantData, WrittenData, data_routes,
};
pub use fault::Fault;
pub use large_answers::{AnswerTurn, LargeAnswers};
pub use metrics::Metrics;
pub use remote_stores::RemoteStores;
pub use routes::{OPENAPI, OPERATIONS, routes};
pub use running::{
    AgentMessages, Commands, ConnectorClass, ConnectorsFile, EnableOutcome, EventOutcome, FileAccess,
    FileConnector, LocalModel, MissedRuns, RUN_OPENAPI, RUN_OPERATIONS, RefusedName, RefusedSkill,
    RegisterOutcome, RunHost, RunOrder, RunParts, RunRefusal, RunReport, RunResources, RunSecrets,
    RunSettings, RunSettingsRefusal, RunSkills, RunText, RunnerParts, Runs, SkillRunner, TenantResources,
    TenantRunSetup, ToolClientParts, ToolClients, Triggers, run_envelope, run_routes, trigger_id,
};
pub use skill_filter::SkillFilter;
pub use skill_meta::{SkillMeta, SkillSource, SkillSummary, TriggerSummary, VersionInfo};
pub use skill_store::{
    SkillPage, SkillStore, SkillText, StoreAnswer, StoreFeatures, StoreManifest, StoreOptions,
};
pub use skills::{SkillWrite, StoreDescription, TenantSkills};
pub use store_failure::StoreFailure;
pub use store_refusal::{CONNECTOR_TYPE, RefusalReason, StoreRefusal, WriteConflict};
pub use store_walk::{StoreWalk, WalkLimit};
pub use tools::{
    RpcError, RpcMessage, RpcRequest, TOOL_OPENAPI, TOOL_OPERATIONS, ToolFailure, ToolList, ToolParts,
    ToolRunner, ToolSurface, Toolbox, UnreadMessage, rpc_response, tool_routes,
};
pub use vault::NewSecret;
pub use workshop::{Parts, Workshop};
pub use write_audit::WriteAudit;
pub use write_rules::{BODY_BYTES, METADATA_BYTES, NAME_BYTES, TAG_BYTES, TAGS, WriteRules, is_skill_name};

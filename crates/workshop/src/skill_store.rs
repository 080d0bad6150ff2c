//! The contract of skill stores.

use async_trait::async_trait;
use serde::Serialize;
use serde_json::{Map, Value};
use skill::Status;

use crate::fault::Fault;
use crate::skill_filter::SkillFilter;
use crate::skill_meta::{SkillMeta, SkillSource, VersionInfo};
use crate::store_refusal::StoreRefusal;
use crate::store_walk::StoreWalk;
use crate::write_audit::WriteAudit;
pub use ledger::SkillText;

/// The answer or the refusal of a store, or its fault.
pub type StoreAnswer<T> = Result<Result<T, StoreRefusal>, Fault>;

/// What is given with the write of a skill.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreOptions {
    /// A label, which gives no rights. The first one stays the author for ever; another one later is refused.
    pub author: Option<String>,
    /// The status, whatever the text says.
    pub status: Option<Status>,
    /// The skill becomes a Draft without a signature, whatever the text, the status above and the stored skill say.
    pub force_draft: bool,
    /// Who writes: the author of a new skill that is written without one, and the name in the history.
    pub writer: Option<String>,
    /// The write is refused if there is such a skill already.
    pub only_new: bool,
    /// Replaces the metadata bag. Without it, the bag stays.
    pub metadata_bag: Option<Map<String, Value>>,
    /// The write is refused unless the skill has this version now.
    pub if_version: Option<String>,
}

/// A part of a list in the order of names, or of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillPage<T> {
    pub items: Vec<T>,
    /// The name or the cursor after which the list goes on. None at its end.
    pub next: Option<String>,
}

impl<T> SkillPage<T> {
    /// A page of items that were read up to a limit. A full page may be the last one; then the next one is empty.
    pub(crate) fn up_to(at_most: usize, items: Vec<T>, name: impl Fn(&T) -> &String) -> Self {
        let next = items.last().filter(|_| items.len() >= at_most).map(name).cloned();
        Self { items, next }
    }
}

/// What a store can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StoreFeatures {
    pub supports_writes: bool,
    /// Earlier versions can be loaded.
    pub supports_versioning: bool,
    pub supports_tag_filter: bool,
    pub supports_audit_trail: bool,
    pub supports_atomic_status_transitions: bool,
}

impl StoreFeatures {
    /// A store that can do everything.
    pub const ALL: Self = Self {
        supports_writes: true,
        supports_versioning: true,
        supports_tag_filter: true,
        supports_audit_trail: true,
        supports_atomic_status_transitions: true,
    };
}

/// What a store says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoreManifest {
    pub capabilities_version: &'static str,
    pub manifest: Map<String, Value>,
}

/// A store of skills, as callers use it. A store of your own implements [`SkillBackend`](crate::SkillBackend) instead.
#[async_trait]
pub trait SkillStore: Send + Sync {
    /// The name of the implementation, which refusals carry.
    fn implementation(&self) -> &'static str;
    fn features(&self) -> StoreFeatures;
    /// The current text, or that of a version which the store still holds.
    async fn load(&self, name: &str, version: Option<&str>) -> StoreAnswer<SkillSource>;
    /// In the order of the bytes of the names.
    async fn query(&self, filter: &SkillFilter) -> StoreAnswer<Vec<SkillMeta>>;
    /// Some skills after this name, as [`SkillStore::query`].
    async fn page(&self, after: Option<&str>) -> StoreAnswer<SkillPage<SkillMeta>>;
    async fn metadata(&self, name: &str) -> StoreAnswer<SkillMeta>;
    /// The whole history, oldest first.
    async fn versions(&self, name: &str) -> StoreAnswer<Vec<VersionInfo>>;
    /// A part of the history. Its `next` is the cursor after which the history goes on.
    async fn versions_page(
        &self,
        name: &str,
        after: Option<&str>,
        limit: usize,
    ) -> StoreAnswer<SkillPage<VersionInfo>>;
    /// Writes a skill. A repeat changes nothing except, in most stores, the history, which gets another line.
    async fn store(&self, name: &str, source: &str, options: StoreOptions) -> StoreAnswer<VersionInfo>;
    /// Deletes a skill with its history. The name is free at once. A store may keep the rows for a while, so that the
    /// skill can be restored.
    async fn delete(&self, name: &str) -> StoreAnswer<()>;
    /// Changes the status. `by` is the name in the history.
    async fn update_status(&self, name: &str, status: Status, by: Option<&str>) -> StoreAnswer<VersionInfo>;
    /// The same store for one write, which adds its row to the audit log.
    fn audited(&self, audit: WriteAudit) -> Box<dyn SkillStore>;
    /// Texts of the skills after this name, in the order of names. Skills that cannot be read are left out.
    async fn texts(&self, after: Option<&str>) -> StoreAnswer<SkillPage<SkillText>>;
    /// Begins to read the whole store.
    fn walk(&self) -> StoreWalk;
    async fn manifest(&self) -> StoreAnswer<StoreManifest>;
    /// A token that changes with every change that `query` shows. None if the store has none.
    async fn version(&self) -> StoreAnswer<Option<String>>;
}

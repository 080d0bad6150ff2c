//! Skill stores: one implementation of the contract for all of them, over a backend for each kind of store.
//!
//! A [`SkillBackend`] reads skills, and replaces a skill only if nobody has changed it since it was read.
//! [`BackendStore`] turns a backend into a store: it applies the shared rules to every write, and repeats the write if
//! the skill has changed.

mod backend_store;
mod change_token;
mod filesystem;
mod ledger_backend;
mod remote;
mod skill_folder;
mod sqlite;

use std::sync::Arc;

use async_trait::async_trait;
use ledger::{FileThreads, SkillAuditRow};
use serde_json::{Map, Value};

use crate::fault::Fault;
use crate::skill_meta::{SkillMeta, VersionInfo};
use crate::skill_store::{SkillPage, SkillText, StoreFeatures};
use crate::store_refusal::RefusalReason;
use crate::store_walk::WalkLimit;
use crate::write_rules::WriteRules;
pub use backend_store::BackendStore;
pub use filesystem::{FilesystemBackend, FilesystemSettings, FilesystemSkillStore};
pub use ledger_backend::{LedgerBackend, LedgerSkillStore, SkillRestored};
pub(crate) use remote::{ManifestAnswer, json_bytes};
pub use remote::{RemoteBackend, RemoteSkillStore};
pub use sqlite::{OpenedSqlite, SqliteBackend, SqliteSkillStore};

/// An answer or a refusal without the name of the store, or a fault.
pub type BackendAnswer<T> = Result<Result<T, RefusalReason>, Fault>;

/// A skill as a backend read it. The mark tells whether it was changed since.
pub struct BackendSkill<M> {
    pub meta: SkillMeta,
    pub mark: M,
}

/// A skill, and the text of the requested version if it is kept.
pub struct BackendBody<M> {
    pub skill: BackendSkill<M>,
    pub body: Option<String>,
}

/// A skill as it is to be written.
#[derive(Clone)]
pub struct BackendWrite {
    pub meta: SkillMeta,
    pub body: String,
    pub line: VersionInfo,
    /// A row of the server's audit log, for a backend that commits it together with the skill
    /// ([`SkillBackend::commits_audit`]).
    pub audit: Option<SkillAuditRow>,
}

pub enum BackendReplaced {
    Replaced,
    /// The skill is not as it was read.
    Changed,
}

/// Storage of skills. The caller has checked names, and has decided what is written.
///
/// A store of your own implements this trait and is registered in [`CustomStores`](crate::CustomStores).
#[async_trait]
pub trait SkillBackend: Send + Sync + 'static {
    /// A value that differs after every change of a skill.
    type Mark: Clone + Send + Sync;

    fn implementation(&self) -> &'static str;
    fn features(&self) -> StoreFeatures;
    fn rules(&self) -> &WriteRules;
    /// The store's description of itself.
    async fn manifest(&self) -> BackendAnswer<Map<String, Value>>;
    /// Limit for one reading of the whole store. None for a store whose size the server limits.
    fn walk_limit(&self) -> Option<WalkLimit> {
        None
    }
    /// Whether `replace` commits the audit row of a write together with the skill. Only the server's own store can.
    fn commits_audit(&self) -> bool {
        false
    }
    /// The same store for a caller whose blocking work runs on these threads. None if the store does no such work.
    fn on_threads(&self, _threads: &Arc<FileThreads>) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }
    /// Refuses if the tenant has no storage left.
    fn quota(&self) -> Result<(), RefusalReason> {
        Ok(())
    }
    async fn find(&self, name: &str) -> BackendAnswer<Option<BackendSkill<Self::Mark>>>;
    /// A skill with the text of this version, or with its current text.
    async fn find_body(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> BackendAnswer<Option<BackendBody<Self::Mark>>>;
    /// Skills after this name that can be read, in the order of the bytes of their names: at most this many.
    async fn list(&self, after: Option<&str>, at_most: usize) -> BackendAnswer<SkillPage<SkillMeta>>;
    /// Texts of the skills after this name, as [`SkillBackend::list`].
    async fn texts(&self, after: Option<&str>, at_most: usize) -> BackendAnswer<SkillPage<SkillText>>;
    /// A part of the history: at most this many lines after a cursor, which `next` of the previous part was. Without a
    /// cursor, it is empty if there is no such skill. By default the cursor is the number of lines before it.
    async fn history_page(
        &self,
        name: &str,
        after: Option<&str>,
        at_most: usize,
    ) -> BackendAnswer<SkillPage<VersionInfo>> {
        let lines = self.history(name).await?;
        let start: usize = after.and_then(|after| after.parse().ok()).unwrap_or(0);
        Ok(lines.map(|lines| {
            let end = lines.len().min(start.saturating_add(at_most));
            let next = (end < lines.len()).then(|| end.to_string());
            SkillPage { items: lines.into_iter().take(end).skip(start).collect(), next }
        }))
    }
    /// Empty if there is no such skill.
    async fn history(&self, name: &str) -> BackendAnswer<Vec<VersionInfo>>;
    /// Writes a skill if it is still as the mark says; `None` means that there must be no such skill yet.
    async fn replace(
        &self,
        expected: Option<Self::Mark>,
        write: BackendWrite,
    ) -> BackendAnswer<BackendReplaced>;
    /// False if there is no such skill.
    async fn delete(&self, name: &str) -> BackendAnswer<bool>;
    /// A token that changes with every change that lists show. None if the store has none.
    async fn token(&self) -> BackendAnswer<Option<String>>;
}

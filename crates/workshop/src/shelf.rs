//! The three stores: one implementation of the contract, over what differs between them.
//!
//! A [`Shelf`] reads skills and replaces one that nobody changed in between. [`ShelvedSkills`] makes a store of it: it
//! decides every write by the shared rules and repeats it if the skill was changed.

mod change_token;
mod filesystem;
mod house;
mod shelved_skills;
mod skill_folder;
mod sqlite;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::fault::Fault;
use crate::skill_meta::{SkillMeta, VersionInfo};
use crate::skill_store::StoreFeatures;
use crate::store_refusal::RefusalReason;
use crate::write_rules::WriteRules;
pub use filesystem::{FilesystemSettings, FilesystemShelf, FilesystemSkillStore};
pub use house::{HouseShelf, HouseSkillStore, SkillRestored};
pub use shelved_skills::ShelvedSkills;
pub use sqlite::{OpenedSqlite, SqliteShelf, SqliteSkillStore};

/// An answer or a refusal without the name of the store, or a fault.
pub type ShelfAnswer<T> = Result<Result<T, RefusalReason>, Fault>;

/// A skill as a shelf read it. The mark tells whether it was changed since.
pub struct ShelvedSkill<M> {
    pub meta: SkillMeta,
    pub mark: M,
}

/// A skill with a text: the one that was asked for, if the shelf holds it.
pub struct ShelvedBody<M> {
    pub skill: ShelvedSkill<M>,
    pub body: Option<String>,
}

/// A skill as it is to be written.
#[derive(Clone)]
pub struct ShelfWrite {
    pub meta: SkillMeta,
    pub body: String,
    pub line: VersionInfo,
}

pub enum ShelfReplaced {
    Replaced,
    /// The skill is not as it was read.
    Changed,
}

/// Where skills are kept. Names have been checked before they get here.
#[async_trait]
pub trait Shelf: Send + Sync + 'static {
    /// What tells whether a skill was changed.
    type Mark: Clone + Send + Sync;

    fn implementation(&self) -> &'static str;
    fn features(&self) -> StoreFeatures;
    fn rules(&self) -> &WriteRules;
    fn manifest(&self) -> Map<String, Value>;
    /// Why nothing more can be stored, if so.
    fn quota(&self) -> Result<(), RefusalReason> {
        Ok(())
    }
    async fn find(&self, name: &str) -> ShelfAnswer<Option<ShelvedSkill<Self::Mark>>>;
    /// A skill with the text of this version, or with its current text.
    async fn find_body(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> ShelfAnswer<Option<ShelvedBody<Self::Mark>>>;
    /// All skills that can be read, in the order of the bytes of their names.
    async fn list(&self) -> ShelfAnswer<Vec<SkillMeta>>;
    /// Empty if there is no such skill.
    async fn history(&self, name: &str) -> ShelfAnswer<Vec<VersionInfo>>;
    /// Writes a skill if it is still as the mark says; None stands for no skill.
    async fn replace(&self, expected: Option<Self::Mark>, write: ShelfWrite) -> ShelfAnswer<ShelfReplaced>;
    /// False if there is no such skill.
    async fn delete(&self, name: &str) -> ShelfAnswer<bool>;
    async fn token(&self) -> ShelfAnswer<String>;
}

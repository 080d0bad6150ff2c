//! Skills of tenants: texts with a status and their history.
//!
//! What a status means and who may be the author is decided by the callers. They read a skill, decide, and replace it
//! only if nobody changed it in between.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::TenantId;

use crate::Fault;
use crate::skill_approval::SkillAuditRow;

/// Number of skills that a tenant can have at a time.
pub const SKILLS_OF_A_TENANT: u32 = 100_000;

/// A page of skills ends with the row with which its texts reach this size, in bytes.
const PAGE_BYTES: usize = 8 << 20;

/// Whether rows of these sizes fill a page, so that others may follow.
pub fn is_full_page(sizes: impl Iterator<Item = usize>) -> bool {
    sizes.sum::<usize>() >= PAGE_BYTES
}

/// Number of hex digits of a content hash that name a version.
const VERSION_DIGITS: usize = 12;

/// The current state of a skill, without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillRecord {
    pub name: String,
    /// SHA-256 of the text in lower-case hex. Its first 12 digits are the version.
    pub content_hash: String,
    pub status: String,
    pub author: Option<String>,
    pub created: Moment,
    pub updated: Moment,
    pub status_changed: Moment,
    /// What lists show of the header of the text, as JSON.
    pub summary: String,
    /// Data of the author, as JSON.
    pub metadata: Option<String>,
}

impl SkillRecord {
    pub fn version(&self) -> &str {
        version_of(&self.content_hash)
    }

    /// The size of the texts.
    pub fn bytes(&self) -> usize {
        self.summary.len() + self.metadata.as_ref().map_or(0, String::len)
    }
}

/// A skill as it was read. The number changes with every write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSkill {
    pub seq: SkillSeq,
    pub record: SkillRecord,
}

/// Number of a line of history within its tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SkillSeq(pub i64);

/// The text of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillBody {
    pub content_hash: String,
    pub text: String,
}

/// A skill with the text that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillWithBody {
    pub skill: StoredSkill,
    /// None if the skill never had that version.
    pub body: Option<SkillBody>,
}

/// The name of a skill with its current text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillText {
    pub name: String,
    pub content_hash: String,
    pub text: String,
}

/// A skill that was deleted and can be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedSkill {
    pub name: String,
    pub content_hash: String,
    pub status: String,
    /// Its last change before it was deleted.
    pub updated: Moment,
}

/// A line of history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillHistoryLine {
    pub seq: SkillSeq,
    pub content_hash: String,
    pub status: String,
    pub previous_status: Option<String>,
    pub changed: Moment,
    pub changed_by: Option<String>,
}

impl SkillHistoryLine {
    pub fn version(&self) -> &str {
        version_of(&self.content_hash)
    }
}

/// A write of a skill. The line of history has the content hash and the status of the record.
#[derive(Clone, Debug)]
pub struct SkillReplacement {
    pub record: SkillRecord,
    pub body: String,
    pub previous_status: Option<String>,
    pub changed: Moment,
    pub changed_by: Option<String>,
    /// A row of the audit log, stored in the same transaction.
    pub audit: Option<SkillAuditRow>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplacedSkill {
    Replaced(SkillSeq),
    /// The skill is not as the caller read it.
    Changed,
    /// The tenant has as many skills as it may.
    TooMany,
    NoTenant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoredSkill {
    Restored,
    /// No skill of this name was deleted in the last 30 days.
    NotFound,
    /// Another skill has the name now.
    NameTaken,
    TooMany,
}

/// How often the skills of a tenant have changed. It also has the time of the last change, because a restored backup
/// could reuse the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkillRevision {
    pub number: i64,
    pub moved: Moment,
}

/// Skills of all tenants. A write increases the revision of its tenant if a list of the skills shows anything new.
#[async_trait]
pub trait Skills: Send + Sync {
    /// Writes a skill if it is still as the caller read it: `expected` is its number, or None for a name without a
    /// skill. Every write adds a line of history, even one that changes nothing else. Repeating it gives `Changed`.
    async fn replace_skill(
        &self,
        tenant: &TenantId,
        expected: Option<SkillSeq>,
        new: SkillReplacement,
    ) -> Result<ReplacedSkill, Fault>;
    async fn skill(&self, tenant: &TenantId, name: &str) -> Result<Option<StoredSkill>, Fault>;
    /// A skill with the text of this version, or with its current text.
    async fn skill_body(
        &self,
        tenant: &TenantId,
        name: &str,
        version: Option<&str>,
    ) -> Result<Option<SkillWithBody>, Fault>;
    /// Skills after this name, in the order of the bytes of their names: at most `limit`, or fewer if they fill a page
    /// ([`is_full_page`]).
    async fn skills(
        &self,
        tenant: &TenantId,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<SkillRecord>, Fault>;
    /// The texts of the skills after this name, in the same order and in pages of the same size.
    async fn skill_texts(
        &self,
        tenant: &TenantId,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<SkillText>, Fault>;
    /// Deleted skills after this name that can be restored: the one of each name that was deleted last.
    async fn deleted_skills(
        &self,
        tenant: &TenantId,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<DeletedSkill>, Fault>;
    /// The lines of a skill's history after this number, oldest first. A skill always has at least one line.
    async fn skill_history(
        &self,
        tenant: &TenantId,
        name: &str,
        after: SkillSeq,
        limit: u32,
    ) -> Result<Vec<SkillHistoryLine>, Fault>;
    /// Deletes a skill with its history; its name is free at once. It can be restored for 30 days. False if there is
    /// none, so repeating it is harmless.
    async fn delete_skill(&self, tenant: &TenantId, name: &str) -> Result<bool, Fault>;
    /// Restores the skill of this name that was deleted last, with its history.
    async fn restore_skill(&self, tenant: &TenantId, name: &str) -> Result<RestoredSkill, Fault>;
    async fn skill_revision(&self, tenant: &TenantId) -> Result<SkillRevision, Fault>;
}

fn version_of(content_hash: &str) -> &str {
    content_hash.get(..VERSION_DIGITS).unwrap_or(content_hash)
}

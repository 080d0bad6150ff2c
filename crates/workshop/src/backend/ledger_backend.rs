//! Ledger backend: the server's own store for the skills of one tenant.

use std::sync::Arc;

use async_trait::async_trait;
use ledger::{
    DeletedSkill, Ledger, ReplacedSkill, RestoredSkill, SkillHistoryLine, SkillRecord, SkillReplacement,
    SkillSeq, Skills, StoredSkill, Usage, is_full_page,
};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::TenantId;
use serde_json::{Map, Value, json};
use skill::Status;

use super::{
    BackendAnswer, BackendBody, BackendReplaced, BackendSkill, BackendStore, BackendWrite, SkillBackend,
};
use crate::fault::Fault;
use crate::skill_meta::{SkillMeta, VersionInfo};
use crate::skill_store::{SkillPage, SkillText, StoreFeatures};
use crate::store_refusal::{RefusalReason, StoreRefusal};
use crate::write_rules::{WriteRules, is_skill_name};

/// Lines of history that are read at a time.
const PAGE: usize = 1000;

/// The skills of one tenant in the ledger.
pub type LedgerSkillStore = BackendStore<LedgerBackend>;

pub struct LedgerBackend {
    skills: Arc<dyn Skills>,
    usage: Arc<dyn Usage>,
    tenant: TenantId,
    rules: WriteRules,
}

/// Whether a deleted skill came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkillRestored {
    Restored,
    /// Another skill has the name now.
    NameTaken,
}

impl LedgerSkillStore {
    pub fn open(ledger: &Ledger, tenant: TenantId, timepiece: Timepiece) -> Self {
        Self::over(ledger.skills(), ledger.usage(), tenant, timepiece)
    }

    /// The store of a tenant over these records.
    pub(crate) fn over(
        skills: Arc<dyn Skills>,
        usage: Arc<dyn Usage>,
        tenant: TenantId,
        timepiece: Timepiece,
    ) -> Self {
        let rules = WriteRules { keeps_metadata: true, ..WriteRules::default() };
        Self::new(LedgerBackend { skills, usage, tenant, rules }, timepiece)
    }

    /// Skills after this name that were deleted in the last 30 days.
    pub async fn deleted(&self, after: Option<&str>, at_most: usize) -> Result<Vec<DeletedSkill>, Fault> {
        Ok(self.backend.skills.deleted_skills(&self.backend.tenant, after, rows(at_most)).await?)
    }

    /// Restores a skill that was deleted in the last 30 days, with its history.
    pub async fn restore(&self, name: &str) -> Result<Result<SkillRestored, StoreRefusal>, Fault> {
        let restored = match is_skill_name(name) {
            true => self.backend.skills.restore_skill(&self.backend.tenant, name).await?,
            false => RestoredSkill::NotFound,
        };
        Ok(self.refused(match restored {
            RestoredSkill::Restored => Ok(SkillRestored::Restored),
            RestoredSkill::NameTaken => Ok(SkillRestored::NameTaken),
            RestoredSkill::NotFound => Err(RefusalReason::not_found(name)),
            RestoredSkill::TooMany => Err(TOO_MANY),
        }))
    }
}

const TOO_MANY: RefusalReason = RefusalReason::QuotaExceeded { what: "number of skills" };
const NO_ROOM: RefusalReason = RefusalReason::QuotaExceeded { what: "storage" };

#[async_trait]
impl SkillBackend for LedgerBackend {
    type Mark = SkillSeq;

    fn implementation(&self) -> &'static str {
        "LedgerSkillStore"
    }

    fn features(&self) -> StoreFeatures {
        StoreFeatures::ALL
    }

    fn rules(&self) -> &WriteRules {
        &self.rules
    }

    async fn manifest(&self) -> BackendAnswer<Map<String, Value>> {
        let days = ("restorable_days".to_owned(), json!(30));
        Ok(Ok(Map::from_iter([("kind".to_owned(), json!("house")), days])))
    }

    fn commits_audit(&self) -> bool {
        true
    }

    fn quota(&self) -> Result<(), RefusalReason> {
        if self.usage.of_tenant(&self.tenant).has_room() { Ok(()) } else { Err(NO_ROOM) }
    }

    async fn find(&self, name: &str) -> BackendAnswer<Option<BackendSkill<SkillSeq>>> {
        let found = self.skills.skill(&self.tenant, name).await?;
        Ok(found.map(backend_skill).transpose())
    }

    async fn find_body(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> BackendAnswer<Option<BackendBody<SkillSeq>>> {
        let found = self.skills.skill_body(&self.tenant, name, version).await?;
        Ok(found
            .map(|found| {
                Ok(BackendBody { skill: backend_skill(found.skill)?, body: found.body.map(|body| body.text) })
            })
            .transpose())
    }

    async fn list(&self, after: Option<&str>, at_most: usize) -> BackendAnswer<SkillPage<SkillMeta>> {
        let records = self.skills.skills(&self.tenant, after, rows(at_most)).await?;
        let is_full = records.len() >= at_most || is_full_page(records.iter().map(SkillRecord::bytes));
        let next = records.last().filter(|_| is_full).map(|record| record.name.clone());
        let metas = records.into_iter().map(meta).collect::<Result<_, _>>();
        Ok(metas.map(|items| SkillPage { items, next }))
    }

    async fn texts(&self, after: Option<&str>, at_most: usize) -> BackendAnswer<SkillPage<SkillText>> {
        let items = self.skills.skill_texts(&self.tenant, after, rows(at_most)).await?;
        let is_full = items.len() >= at_most || is_full_page(items.iter().map(|item| item.text.len()));
        let next = items.last().filter(|_| is_full).map(|item| item.name.clone());
        Ok(Ok(SkillPage { items, next }))
    }

    async fn history(&self, name: &str) -> BackendAnswer<Vec<VersionInfo>> {
        let (mut lines, mut after) = (Vec::new(), None::<String>);
        loop {
            let page = match self.history_page(name, after.as_deref(), PAGE).await? {
                Ok(page) => page,
                Err(refusal) => return Ok(Err(refusal)),
            };
            lines.extend(page.items);
            after = page.next;
            if after.is_none() {
                return Ok(Ok(lines));
            }
        }
    }

    /// The cursor is the number of a line.
    async fn history_page(
        &self,
        name: &str,
        after: Option<&str>,
        at_most: usize,
    ) -> BackendAnswer<SkillPage<VersionInfo>> {
        let after = SkillSeq(after.and_then(|after| after.parse().ok()).unwrap_or(0));
        let lines = self.skills.skill_history(&self.tenant, name, after, rows(at_most)).await?;
        let next = lines.last().filter(|_| lines.len() >= at_most).map(|line| line.seq.0.to_string());
        let items = lines.into_iter().map(|line| version_info(name, line)).collect::<Result<_, _>>();
        Ok(items.map(|items| SkillPage { items, next }))
    }

    async fn replace(
        &self,
        expected: Option<SkillSeq>,
        write: BackendWrite,
    ) -> BackendAnswer<BackendReplaced> {
        let replaced = self.skills.replace_skill(&self.tenant, expected, replacement(write)).await?;
        Ok(match replaced {
            ReplacedSkill::Replaced(_) => Ok(BackendReplaced::Replaced),
            ReplacedSkill::Changed => Ok(BackendReplaced::Changed),
            ReplacedSkill::TooMany => Err(TOO_MANY),
            ReplacedSkill::NoTenant => {
                Err(RefusalReason::ReadOnly { why: "the tenant was removed".to_owned() })
            }
        })
    }

    async fn delete(&self, name: &str) -> BackendAnswer<bool> {
        Ok(Ok(self.skills.delete_skill(&self.tenant, name).await?))
    }

    async fn token(&self) -> BackendAnswer<Option<String>> {
        let revision = self.skills.skill_revision(&self.tenant).await?;
        Ok(Ok(Some(format!("{}-{}", revision.number, revision.moved.millis()))))
    }
}

fn rows(at_most: usize) -> u32 {
    u32::try_from(at_most).unwrap_or(u32::MAX)
}

fn backend_skill(skill: StoredSkill) -> Result<BackendSkill<SkillSeq>, RefusalReason> {
    Ok(BackendSkill { mark: skill.seq, meta: meta(skill.record)? })
}

fn meta(record: SkillRecord) -> Result<SkillMeta, RefusalReason> {
    let version = record.version().to_owned();
    let unreadable = |error: serde_json::Error| unreadable(&record.name, &error.to_string());
    Ok(SkillMeta {
        version,
        status: status(&record.name, &record.status)?,
        summary: serde_json::from_str(&record.summary).map_err(unreadable)?,
        created_at: record.created.seconds(),
        updated_at: record.updated.seconds(),
        status_changed_at: Some(record.status_changed.seconds()),
        metadata_bag: record.metadata.as_deref().map(serde_json::from_str).transpose().map_err(unreadable)?,
        author: record.author,
        name: record.name.clone(),
        content_hash: record.content_hash,
    })
}

fn version_info(name: &str, line: SkillHistoryLine) -> Result<VersionInfo, RefusalReason> {
    Ok(VersionInfo {
        name: name.to_owned(),
        version: line.version().to_owned(),
        status: status(name, &line.status)?,
        previous_status: line.previous_status.map(|word| status(name, &word)).transpose()?,
        changed_at: line.changed.seconds(),
        changed_by: line.changed_by,
        content_hash: line.content_hash,
    })
}

fn replacement(write: BackendWrite) -> SkillReplacement {
    let BackendWrite { meta, body, line, audit } = write;
    let updated = Moment::from_seconds(meta.updated_at);
    SkillReplacement {
        record: SkillRecord {
            name: meta.name,
            content_hash: meta.content_hash,
            status: meta.status.to_string(),
            author: meta.author,
            created: Moment::from_seconds(meta.created_at),
            updated,
            status_changed: meta.status_changed_at.map_or(updated, Moment::from_seconds),
            summary: serde_json::to_string(&meta.summary).unwrap_or_else(|_| "{}".to_owned()),
            metadata: meta.metadata_bag.map(|bag| Value::Object(bag).to_string()),
        },
        body,
        previous_status: line.previous_status.map(|status| status.to_string()),
        changed: Moment::from_seconds(line.changed_at),
        changed_by: line.changed_by,
        audit,
    }
}

fn status(name: &str, word: &str) -> Result<Status, RefusalReason> {
    Status::named(word).ok_or_else(|| unreadable(name, &format!("'{word}' is not a status")))
}

fn unreadable(name: &str, why: &str) -> RefusalReason {
    RefusalReason::Unreadable { name: name.to_owned(), why: why.to_owned() }
}

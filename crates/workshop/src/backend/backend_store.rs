//! Backend store: a skill store over a backend. It applies the shared rules to every write, and repeats a write if the
//! skill was changed since it was read.

use std::sync::Arc;

use async_trait::async_trait;
use ledger::{FileThreads, SkillAuditRow};
use posthouse_time::Timepiece;
use serde_json::{Map, Value};
use skill::{ContentHash, Status};

use super::{BackendAnswer, BackendBody, BackendReplaced, BackendSkill, BackendWrite, SkillBackend};
use crate::approval_policy::ApprovalPolicy;
use crate::skill_filter::{PreparedFilter, SkillFilter};
use crate::skill_meta::{SkillMeta, SkillSource, SkillSummary, VersionInfo};
use crate::skill_store::{
    SkillPage, SkillStore, SkillText, StoreAnswer, StoreFeatures, StoreManifest, StoreOptions,
};
use crate::store_refusal::{RefusalReason, StoreRefusal, WriteConflict};
use crate::store_walk::StoreWalk;
use crate::write_audit::WriteAudit;
use crate::write_rules::{self, is_skill_name};

/// How often a write is attempted before it is refused because others keep changing the skill.
const ATTEMPTS: usize = 100;
/// Skills that are read at a time.
const PAGE: usize = 1000;
/// Texts that are read at a time.
const TEXTS: usize = 200;

/// A store of skills on a backend. Clones share the backend.
pub struct BackendStore<S> {
    pub(super) backend: Arc<S>,
    timepiece: Timepiece,
    approval: ApprovalPolicy,
    /// Set for one write.
    audit: Option<Arc<WriteAudit>>,
}

impl<S> Clone for BackendStore<S> {
    fn clone(&self) -> Self {
        let Self { backend, timepiece, approval, audit } = self;
        let (timepiece, approval, audit) = (timepiece.clone(), approval.clone(), audit.clone());
        Self { backend: Arc::clone(backend), timepiece, approval, audit }
    }
}

impl<S> BackendStore<S> {
    pub fn new(backend: S, timepiece: Timepiece) -> Self {
        Self { backend: Arc::new(backend), timepiece, approval: ApprovalPolicy::Open, audit: None }
    }

    /// The same store for a caller whose tenant has this approval policy. A new store is open.
    pub fn under(&self, approval: ApprovalPolicy) -> Self {
        Self { approval, ..self.clone() }
    }
}

impl<S: SkillBackend> BackendStore<S> {
    /// The same store for a tenant whose blocking work runs on these threads.
    pub fn on(&self, threads: &Arc<FileThreads>) -> Self {
        match self.backend.on_threads(threads) {
            Some(backend) => Self { backend: Arc::new(backend), ..self.clone() },
            None => self.clone(),
        }
    }

    pub(super) fn refused<T>(&self, answer: Result<T, RefusalReason>) -> Result<T, StoreRefusal> {
        answer.map_err(|reason| StoreRefusal { implementation: self.backend.implementation(), reason })
    }

    async fn find_named(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> BackendAnswer<BackendBody<<S as SkillBackend>::Mark>> {
        if !is_skill_name(name) {
            return Ok(Err(RefusalReason::not_found(name)));
        }
        let found = self.backend.find_body(name, version).await?;
        Ok(found.and_then(|found| found.ok_or_else(|| RefusalReason::not_found(name))))
    }

    async fn try_store(
        &self,
        name: &str,
        source: &str,
        options: &StoreOptions,
    ) -> BackendAnswer<Option<VersionInfo>> {
        let current = match self.backend.find(name).await? {
            Ok(current) => current,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let meta = current.as_ref().map(|current| &current.meta);
        let rules = self.backend.rules();
        let decided = write_rules::decide_write(rules, &self.approval, source, options, name, meta);
        let decided = match decided {
            Ok(decided) => decided,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let new = NewState {
            body: decided.body,
            status: decided.status,
            author: decided.author,
            metadata_bag: decided.metadata_bag,
            previous_status: None,
            changed_by: decided.changed_by,
        };
        self.write(name, current, new).await
    }

    async fn try_update_status(
        &self,
        name: &str,
        status: Status,
        by: Option<&str>,
    ) -> BackendAnswer<Option<VersionInfo>> {
        let BackendBody { skill, body } = match self.find_named(name, None).await? {
            Ok(found) => found,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let Some(body) = body else { return Ok(Err(RefusalReason::not_found(name))) };
        let changed = write_rules::decide_status_change(&self.approval, name, &body, status);
        let body = match changed {
            Ok(body) => body,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let new = NewState {
            body,
            status,
            author: skill.meta.author.clone(),
            metadata_bag: skill.meta.metadata_bag.clone(),
            previous_status: Some(skill.meta.status),
            changed_by: by.map(str::to_owned),
        };
        self.write(name, Some(skill), new).await
    }

    /// None if the skill was changed in between.
    async fn write(
        &self,
        name: &str,
        current: Option<BackendSkill<S::Mark>>,
        new: NewState,
    ) -> BackendAnswer<Option<VersionInfo>> {
        let meta = current.as_ref().map(|current| &current.meta);
        let write = new.over(name, meta, self.timepiece.now().seconds());
        let row = self.audit.as_ref().and_then(|audit| Some((audit, audit.row(meta, &write)?)));
        let line = write.line.clone();
        let replaced = self.replace(current.map(|current| current.mark), write, row).await?;
        Ok(replaced.map(|replaced| match replaced {
            BackendReplaced::Replaced => Some(line),
            BackendReplaced::Changed => None,
        }))
    }

    /// Replaces a skill, with its row in the audit log.
    async fn replace(
        &self,
        expected: Option<S::Mark>,
        mut write: BackendWrite,
        row: Option<(&Arc<WriteAudit>, SkillAuditRow)>,
    ) -> BackendAnswer<BackendReplaced> {
        let Some((audit, row)) = row else { return self.backend.replace(expected, write).await };
        if self.backend.commits_audit() {
            let event = row.event;
            write.audit = Some(row);
            let replaced = self.backend.replace(expected, write).await?;
            if let Ok(BackendReplaced::Replaced) = &replaced {
                audit.committed(event);
            }
            return Ok(replaced);
        }
        audit.begins(&row).await?;
        let replaced = self.backend.replace(expected, write).await?;
        match &replaced {
            Ok(BackendReplaced::Replaced) => audit.ended(row, None).await?,
            // The write is repeated.
            Ok(BackendReplaced::Changed) => {}
            Err(refusal) => audit.ended(row, Some(refusal)).await?,
        }
        Ok(replaced)
    }
}

/// What a write makes of a skill.
struct NewState {
    body: String,
    status: Status,
    author: Option<String>,
    metadata_bag: Option<Map<String, Value>>,
    previous_status: Option<Status>,
    changed_by: Option<String>,
}

impl NewState {
    /// The times change only together with what they are the times of, so that a repeat changes nothing.
    fn over(self, name: &str, current: Option<&SkillMeta>, now: i64) -> BackendWrite {
        let hash = ContentHash::of(&self.body);
        let (version, content_hash) = (hash.version().to_owned(), hash.as_str().to_owned());
        let is_same = |current: &&SkillMeta| {
            current.content_hash == content_hash
                && current.status == self.status
                && current.author == self.author
                && current.metadata_bag == self.metadata_bag
        };
        let same_status = current.filter(|current| current.status == self.status);
        let meta = SkillMeta {
            name: name.to_owned(),
            version: version.clone(),
            content_hash: content_hash.clone(),
            status: self.status,
            summary: SkillSummary::of(&self.body),
            created_at: current.map_or(now, |current| current.created_at),
            updated_at: current.filter(is_same).map_or(now, |current| current.updated_at),
            status_changed_at: same_status.map_or(Some(now), |current| current.status_changed_at),
            author: self.author,
            metadata_bag: self.metadata_bag,
        };
        let line = VersionInfo {
            name: name.to_owned(),
            version,
            content_hash,
            status: self.status,
            previous_status: self.previous_status,
            changed_at: now,
            changed_by: self.changed_by,
        };
        BackendWrite { meta, body: self.body, line, audit: None }
    }
}

#[async_trait]
impl<S: SkillBackend> SkillStore for BackendStore<S> {
    fn implementation(&self) -> &'static str {
        self.backend.implementation()
    }

    fn features(&self) -> StoreFeatures {
        self.backend.features()
    }

    async fn load(&self, name: &str, version: Option<&str>) -> StoreAnswer<SkillSource> {
        let found = self.find_named(name, version).await?;
        let loaded = found.and_then(|BackendBody { skill, body }| match (body, version) {
            (Some(source), _) => {
                let hash = ContentHash::of(&source);
                Ok(SkillSource {
                    name: name.to_owned(),
                    version: hash.version().to_owned(),
                    content_hash: hash.as_str().to_owned(),
                    source,
                    metadata: skill.meta,
                })
            }
            (None, Some(version)) => {
                Err(RefusalReason::VersionNotFound { name: name.to_owned(), version: version.to_owned() })
            }
            (None, None) => Err(RefusalReason::not_found(name)),
        });
        Ok(self.refused(loaded))
    }

    async fn query(&self, filter: &SkillFilter) -> StoreAnswer<Vec<SkillMeta>> {
        let prepared = match PreparedFilter::new(filter) {
            Ok(prepared) => prepared,
            Err(refusal) => return Ok(self.refused(Err(refusal))),
        };
        let (limit, mut skip) = (filter.limit.unwrap_or(usize::MAX), filter.offset);
        let (mut listed, mut after) = (Vec::new(), filter.after.clone());
        let mut walk = self.walk();
        while listed.len() < limit {
            if let Err(refusal) = walk.step() {
                return Ok(self.refused(Err(refusal)));
            }
            let page = match self.backend.list(after.as_deref(), prepared.page_size(PAGE)).await? {
                Ok(page) => page,
                Err(refusal) => return Ok(self.refused(Err(refusal))),
            };
            for skill in page.items.into_iter().filter(|skill| prepared.passes(skill)) {
                match skip {
                    0 if listed.len() < limit => listed.push(skill.in_list()),
                    0 => break,
                    _ => skip -= 1,
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(Ok(listed))
    }

    async fn page(&self, after: Option<&str>) -> StoreAnswer<SkillPage<SkillMeta>> {
        Ok(self.refused(self.backend.list(after, PAGE).await?))
    }

    async fn metadata(&self, name: &str) -> StoreAnswer<SkillMeta> {
        if !is_skill_name(name) {
            return Ok(self.refused(Err(RefusalReason::not_found(name))));
        }
        let found = self.backend.find(name).await?;
        let meta = found.and_then(|found| found.ok_or_else(|| RefusalReason::not_found(name)));
        Ok(self.refused(meta.map(|skill| skill.meta)))
    }

    async fn versions(&self, name: &str) -> StoreAnswer<Vec<VersionInfo>> {
        if !is_skill_name(name) {
            return Ok(self.refused(Err(RefusalReason::not_found(name))));
        }
        let lines = self.backend.history(name).await?;
        let lines = lines.and_then(|lines| match lines.is_empty() {
            true => Err(RefusalReason::not_found(name)),
            false => Ok(lines),
        });
        Ok(self.refused(lines))
    }

    async fn versions_page(
        &self,
        name: &str,
        after: Option<&str>,
        limit: usize,
    ) -> StoreAnswer<SkillPage<VersionInfo>> {
        if !is_skill_name(name) {
            return Ok(self.refused(Err(RefusalReason::not_found(name))));
        }
        let page = self.backend.history_page(name, after, limit).await?;
        let page = page.and_then(|page| match page.items.is_empty() && after.is_none() {
            true => Err(RefusalReason::not_found(name)),
            false => Ok(page),
        });
        Ok(self.refused(page))
    }

    async fn store(&self, name: &str, source: &str, options: StoreOptions) -> StoreAnswer<VersionInfo> {
        let checked = write_rules::check_request(self.backend.rules(), name, source, &options);
        if let Err(refusal) = checked.and_then(|()| self.backend.quota()) {
            return Ok(self.refused(Err(refusal)));
        }
        for _ in 0..ATTEMPTS {
            let stored = self.try_store(name, source, &options).await?;
            if let Some(done) = stored.transpose() {
                return Ok(self.refused(done));
            }
        }
        Ok(self.refused(Err(RefusalReason::conflict(name, WriteConflict::ChangedTooOften))))
    }

    async fn delete(&self, name: &str) -> StoreAnswer<()> {
        if !is_skill_name(name) {
            return Ok(self.refused(Err(RefusalReason::not_found(name))));
        }
        let deleted = self.backend.delete(name).await?;
        Ok(self.refused(deleted.and_then(|deleted| match deleted {
            true => Ok(()),
            false => Err(RefusalReason::not_found(name)),
        })))
    }

    fn audited(&self, audit: WriteAudit) -> Box<dyn SkillStore> {
        Box::new(Self { audit: Some(Arc::new(audit)), ..self.clone() })
    }

    async fn texts(&self, after: Option<&str>) -> StoreAnswer<SkillPage<SkillText>> {
        Ok(self.refused(self.backend.texts(after, TEXTS).await?))
    }

    fn walk(&self) -> StoreWalk {
        StoreWalk::new(self.backend.walk_limit(), &self.timepiece)
    }

    async fn update_status(&self, name: &str, status: Status, by: Option<&str>) -> StoreAnswer<VersionInfo> {
        // A tenant without storage can still stop a skill.
        if let (false, Err(refusal)) = (status == Status::Disabled, self.backend.quota()) {
            return Ok(self.refused(Err(refusal)));
        }
        for _ in 0..ATTEMPTS {
            let updated = self.try_update_status(name, status, by).await?;
            if let Some(done) = updated.transpose() {
                return Ok(self.refused(done));
            }
        }
        Ok(self.refused(Err(RefusalReason::conflict(name, WriteConflict::ChangedTooOften))))
    }

    async fn manifest(&self) -> StoreAnswer<StoreManifest> {
        let manifest = self.backend.manifest().await?;
        Ok(self.refused(manifest.map(|manifest| StoreManifest { capabilities_version: "1", manifest })))
    }

    async fn version(&self) -> StoreAnswer<Option<String>> {
        Ok(self.refused(self.backend.token().await?))
    }
}

//! Skills of tenants as callers use them: who may write, approve and delete, in the store of the caller's tenant.
//!
//! - Every credential of a tenant reads its skills.
//! - What an agent writes with its own credential is a Draft, and it cannot approve, unless the tenant allows it.
//! - Agents cannot delete. A refusal for the sake of the caller comes before anything is looked up.
//! - Approvals, refused approvals and forced Drafts are recorded before they are answered (`write_audit`).

mod dependents;

use std::sync::Arc;

use ledger::{DeletedSkill, SkillAuditEvent};
use post::Caller;
use posthouse_wire::TenantId;
use serde_json::{Map, Value};
use skill::{ApprovalVerdict, Status, check_approval, status_of};

use crate::approval_log::{ApprovalLog, LoggedApproval};
use crate::approval_policy::ApprovalPolicy;
use crate::backend::SkillRestored;
use crate::fault::Fault;
use crate::skill_changes::SkillChanges;
use crate::skill_filter::SkillFilter;
use crate::skill_meta::{SkillMeta, SkillSource, VersionInfo};
use crate::skill_store::{SkillPage, SkillStore, StoreAnswer, StoreFeatures, StoreManifest, StoreOptions};
use crate::store_refusal::{RefusalReason, StoreRefusal, WriteConflict};
use crate::tenant_stores::{TenantStore, TenantStores};
use crate::write_audit::{WriteAudit, WriteClaim};

/// The client id of the operator who acts for a tenant begins with this.
const OPERATOR: &str = "operator:";
const NO_APPROVAL: &str = "agents of this tenant may not approve skills";
const NO_DELETION: &str = "an agent may not delete or restore skills";
const NOT_ITS_NAME: &str = "an agent can only be the author under its own name";

/// The answer of a store. A refusal ends the function.
macro_rules! answer {
    ($answer:expr) => {
        match $answer {
            Ok(answer) => answer,
            Err(refusal) => return Ok(Err(refusal)),
        }
    };
}
pub(crate) use answer;

/// Skills of all tenants.
pub struct TenantSkills {
    stores: Arc<TenantStores>,
    log: Arc<ApprovalLog>,
    changes: Arc<SkillChanges>,
}

/// A write of a skill.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SkillWrite {
    pub source: String,
    /// Another author than the caller. It is locked by the first write.
    pub author: Option<String>,
    pub status: Option<Status>,
    /// The skill becomes a Draft, whoever writes it.
    pub force_draft: bool,
    pub metadata_bag: Option<Map<String, Value>>,
    pub if_version: Option<String>,
    /// The write is refused if there is such a skill.
    pub only_new: bool,
}

/// What the store of a tenant can do.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreDescription {
    pub implementation: &'static str,
    pub features: StoreFeatures,
    pub manifest: StoreManifest,
}

/// The name under which a caller writes: its label, or its own name.
pub(crate) fn writer(by: &Caller) -> String {
    match &by.attested {
        Some(label) => label.clone(),
        None if by.client.as_str().starts_with(OPERATOR) => "operator".to_owned(),
        None => by.name().to_owned(),
    }
}

impl TenantSkills {
    pub(crate) fn new(stores: Arc<TenantStores>, log: Arc<ApprovalLog>, changes: Arc<SkillChanges>) -> Self {
        Self { stores, log, changes }
    }

    /// Changes that the triggers must follow.
    pub(crate) fn changes(&self) -> &SkillChanges {
        &self.changes
    }

    pub(crate) async fn tenants(&self) -> Result<Vec<TenantId>, Fault> {
        self.stores.tenants().await
    }

    /// Whether the skills of a tenant are outside of this server. A store that cannot be opened is.
    pub(crate) async fn is_foreign(&self, tenant: &TenantId) -> Result<bool, Fault> {
        Ok(self.stores.of(tenant).await?.map_or(true, |tenant| tenant.in_ledger.is_none()))
    }

    /// Notes a change for the triggers. A refused one has changed nothing; one that failed may have.
    fn note_change<T>(&self, by: &Caller, answer: StoreAnswer<T>) -> StoreAnswer<T> {
        if !matches!(answer, Ok(Err(_))) {
            self.changes.note_unread(&by.tenant, self.stores.now());
        }
        answer
    }

    async fn tenant(&self, by: &Caller) -> StoreAnswer<Arc<TenantStore>> {
        self.stores.of(&by.tenant).await
    }

    /// The current text of a skill, or that of a version which the store still holds.
    pub async fn load(&self, by: &Caller, name: &str, version: Option<&str>) -> StoreAnswer<SkillSource> {
        answer!(self.tenant(by).await?).store.load(name, version).await
    }

    pub async fn metadata(&self, by: &Caller, name: &str) -> StoreAnswer<SkillMeta> {
        answer!(self.tenant(by).await?).store.metadata(name).await
    }

    /// Skills that pass a filter, in the order of names.
    pub async fn list(&self, by: &Caller, filter: &SkillFilter) -> StoreAnswer<Vec<SkillMeta>> {
        answer!(self.tenant(by).await?).store.query(filter).await
    }

    /// A page of [`TenantSkills::list`]. Its filter has no limit and no offset of its own.
    pub async fn page(
        &self,
        by: &Caller,
        filter: SkillFilter,
        limit: usize,
    ) -> StoreAnswer<SkillPage<SkillMeta>> {
        let filter = SkillFilter { limit: Some(limit.saturating_add(1)), offset: 0, ..filter };
        let mut items = answer!(self.list(by, &filter).await?);
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(|skill| skill.name.clone());
        Ok(Ok(SkillPage { items, next }))
    }

    /// A part of the history of a skill, oldest first: at most this many lines after a cursor.
    pub async fn versions(
        &self,
        by: &Caller,
        name: &str,
        after: Option<&str>,
        limit: usize,
    ) -> StoreAnswer<SkillPage<VersionInfo>> {
        answer!(self.tenant(by).await?).store.versions_page(name, after, limit).await
    }

    /// A token that changes with the skills of the tenant. None if its store has none.
    pub async fn version(&self, by: &Caller) -> StoreAnswer<Option<String>> {
        answer!(self.tenant(by).await?).store.version().await
    }

    pub async fn describe(&self, by: &Caller) -> StoreAnswer<StoreDescription> {
        let tenant = answer!(self.tenant(by).await?);
        let manifest = answer!(tenant.store.manifest().await?);
        let (implementation, features) = (tenant.store.implementation(), tenant.store.features());
        Ok(Ok(StoreDescription { implementation, features, manifest }))
    }

    /// The conditions under which a skill of the caller's tenant may run.
    pub async fn policy(&self, by: &Caller) -> StoreAnswer<ApprovalPolicy> {
        Ok(Ok(answer!(self.tenant(by).await?).policy.clone()))
    }

    /// Whether a text may run by the approval policy of the caller's tenant.
    pub async fn check_text(&self, by: &Caller, body: &str) -> StoreAnswer<ApprovalVerdict> {
        let tenant = answer!(self.tenant(by).await?);
        Ok(Ok(check_approval(body, tenant.policy.mode())))
    }

    /// Writes a skill.
    pub async fn write(&self, by: &Caller, name: &str, write: SkillWrite) -> StoreAnswer<VersionInfo> {
        let tenant = answer!(self.tenant(by).await?);
        if let (Some(agent), Some(author)) = (&by.agent, &write.author)
            && *author != agent.name
            && author != agent.id.as_str()
        {
            return Ok(tenant.refused(RefusalReason::NotAllowed { why: NOT_ITS_NAME }));
        }
        let force_draft = write.force_draft || (by.agent.is_some() && !tenant.agents_may_approve);
        let claims_approval = match write.status {
            Some(status) => status == Status::Approved,
            None => status_of(&write.source).status() == Status::Approved,
        };
        let SkillWrite { source, author, status, metadata_bag, if_version, only_new, .. } = write;
        let options = StoreOptions {
            // An agent's own id is the same author as its name.
            author: author.map(|author| by.agent.as_ref().map_or(author, |agent| agent.name.clone())),
            status,
            force_draft,
            writer: Some(writer(by)),
            only_new,
            metadata_bag,
            if_version,
        };
        let claim = WriteClaim { approved: claims_approval, forces_draft: force_draft };
        let audit = WriteAudit::new(Arc::clone(&self.log), Arc::clone(&tenant), by.clone(), claim);
        self.note_change(by, tenant.store.audited(audit).store(name, &source, options).await)
    }

    /// Changes the status of a skill.
    pub async fn set_status(&self, by: &Caller, name: &str, status: Status) -> StoreAnswer<VersionInfo> {
        let tenant = answer!(self.tenant(by).await?);
        if status == Status::Approved && by.agent.is_some() && !tenant.agents_may_approve {
            let (name, why) = (name.to_owned(), NO_APPROVAL.to_owned());
            let refused = tenant.refused(RefusalReason::ApprovalRejected { name, why });
            return self.log_refusal(by, refused).await;
        }
        let claim = WriteClaim { approved: status == Status::Approved, forces_draft: false };
        let audit = WriteAudit::new(Arc::clone(&self.log), Arc::clone(&tenant), by.clone(), claim);
        let changed = tenant.store.audited(audit).update_status(name, status, Some(&writer(by))).await;
        self.log_refusal(by, self.note_change(by, changed)?).await
    }

    /// Deletes a skill with its history. Without `force`, a skill that others name is refused.
    pub async fn delete(&self, by: &Caller, name: &str, force: bool) -> StoreAnswer<()> {
        let tenant = answer!(self.tenant(by).await?);
        if by.agent.is_some() {
            return Ok(tenant.refused(RefusalReason::NotAllowed { why: NO_DELETION }));
        }
        if !force {
            // A skill that does not exist has no dependents that matter.
            answer!(tenant.store.metadata(name).await?);
            let dependents = answer!(dependents::of(&*tenant.store, name).await?);
            if !dependents.is_empty() {
                let name = name.to_owned();
                return Ok(tenant.refused(RefusalReason::InUse { name, dependents }));
            }
        }
        self.note_change(by, tenant.store.delete(name).await)
    }

    /// The skills whose texts name this one.
    pub async fn dependents(&self, by: &Caller, name: &str) -> StoreAnswer<Vec<String>> {
        let tenant = answer!(self.tenant(by).await?);
        answer!(tenant.store.metadata(name).await?);
        dependents::of(&*tenant.store, name).await
    }

    /// Deleted skills after this name that can be restored. Only the server's own store keeps them.
    pub async fn deleted(
        &self,
        by: &Caller,
        after: Option<&str>,
        limit: usize,
    ) -> StoreAnswer<SkillPage<DeletedSkill>> {
        let tenant = answer!(self.tenant(by).await?);
        if by.agent.is_some() {
            return Ok(tenant.refused(RefusalReason::NotAllowed { why: NO_DELETION }));
        }
        let Some(in_ledger) = &tenant.in_ledger else {
            return Ok(Ok(SkillPage { items: Vec::new(), next: None }));
        };
        let items = in_ledger.deleted(after, limit).await?;
        Ok(Ok(SkillPage::up_to(limit, items, |skill| &skill.name)))
    }

    /// Restores a deleted skill with its history.
    pub async fn restore(&self, by: &Caller, name: &str) -> StoreAnswer<SkillMeta> {
        let tenant = answer!(self.tenant(by).await?);
        if by.agent.is_some() {
            return Ok(tenant.refused(RefusalReason::NotAllowed { why: NO_DELETION }));
        }
        let Some(in_ledger) = &tenant.in_ledger else {
            return Ok(tenant.refused(RefusalReason::not_found(name)));
        };
        match answer!(self.note_change(by, in_ledger.restore(name).await)?) {
            SkillRestored::Restored => in_ledger.metadata(name).await,
            SkillRestored::NameTaken => {
                Ok(tenant.refused(RefusalReason::conflict(name, WriteConflict::Exists)))
            }
        }
    }

    /// Records that a skill did not run because it is not approved.
    pub(crate) async fn log_refused_run(&self, by: &Caller, skill: &str, reason: &str) -> Result<(), Fault> {
        let event = SkillAuditEvent::RunRefused;
        let logged = LoggedApproval { event, skill, version: None, key: None, reason: Some(reason) };
        self.log.record(by, self.log.row(by, logged)).await
    }

    /// Whether what this caller writes can become Approved.
    pub async fn may_approve(&self, by: &Caller) -> StoreAnswer<bool> {
        let tenant = answer!(self.tenant(by).await?);
        Ok(Ok(by.agent.is_none() || tenant.agents_may_approve))
    }

    async fn log_refusal<T>(&self, by: &Caller, refused: Result<T, StoreRefusal>) -> StoreAnswer<T> {
        if let Err(StoreRefusal { reason: RefusalReason::ApprovalRejected { name, why }, .. }) = &refused {
            let event = SkillAuditEvent::Refused;
            let logged = LoggedApproval { event, skill: name, version: None, key: None, reason: Some(why) };
            self.log.record(by, self.log.row(by, logged)).await?;
        }
        Ok(refused)
    }
}

impl TenantStore {
    pub fn refused<T>(&self, reason: RefusalReason) -> Result<T, StoreRefusal> {
        Err(StoreRefusal { implementation: self.store.implementation(), reason })
    }
}

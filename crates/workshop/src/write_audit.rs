//! Audit of one write of a skill: the row that an approval or a forced Draft adds to the audit log.
//!
//! The server's own store commits the row together with the skill. Another store cannot, so there the log gets a row
//! before the write and one after it: a crash in between leaves the first one, never an approval without a row.

use std::sync::Arc;

use ledger::{SkillAuditEvent, SkillAuditRow};
use parking_lot::Mutex;
use post::Caller;
use skill::{ApprovalVerdict, Status, check_approval};

use crate::approval_log::{ApprovalLog, LoggedApproval};
use crate::backend::BackendWrite;
use crate::fault::Fault;
use crate::skill_meta::SkillMeta;
use crate::store_refusal::RefusalReason;
use crate::tenant_stores::TenantStore;

const FORCED: &str = "this write makes every text a Draft";
const UNSIGNED: &str = "the text is not signed by an active key";

/// Who writes a skill, and what the write claims.
pub struct WriteAudit {
    log: Arc<ApprovalLog>,
    tenant: Arc<TenantStore>,
    by: Caller,
    claim: WriteClaim,
    /// The version that was announced last: a write that is repeated is announced once.
    announced: Mutex<Option<String>>,
}

/// What a write says about the status.
#[derive(Clone, Copy)]
pub(crate) struct WriteClaim {
    /// The request or its text says Approved.
    pub approved: bool,
    /// The write makes every text a Draft.
    pub forces_draft: bool,
}

impl WriteAudit {
    pub(crate) fn new(
        log: Arc<ApprovalLog>,
        tenant: Arc<TenantStore>,
        by: Caller,
        claim: WriteClaim,
    ) -> Self {
        Self { log, tenant, by, claim, announced: Mutex::default() }
    }

    /// The row of a write. None if it neither approves nor forces a Draft.
    pub(crate) fn row(&self, current: Option<&SkillMeta>, write: &BackendWrite) -> Option<SkillAuditRow> {
        let was_approved = current.is_some_and(|skill| skill.status == Status::Approved);
        let (event, reason) = match write.meta.status {
            Status::Approved => (SkillAuditEvent::Approved, None),
            _ if self.claim.forces_draft && (self.claim.approved || was_approved) => {
                (SkillAuditEvent::ForcedDraft, Some(FORCED))
            }
            _ if self.claim.approved => (SkillAuditEvent::ForcedDraft, Some(UNSIGNED)),
            _ => return None,
        };
        // The key is the one whose signature is in the text; in open mode there is none.
        let key = match check_approval(&write.body, self.tenant.policy.mode()) {
            ApprovalVerdict::Approved { key: Some(key) } => self.tenant.key_ids.get(key).map(String::as_str),
            _ => None,
        };
        let (skill, version) = (write.meta.name.as_str(), Some(write.meta.version.as_str()));
        Some(self.log.row(&self.by, LoggedApproval { event, skill, version, key, reason }))
    }

    /// Counts a row that was committed together with its skill.
    pub(crate) fn committed(&self, event: SkillAuditEvent) {
        self.log.count(event);
    }

    /// Records that a write begins whose row cannot be committed together with the skill.
    pub(crate) async fn begins(&self, row: &SkillAuditRow) -> Result<(), Fault> {
        let is_announced =
            self.announced.lock().replace(row.version.clone().unwrap_or_default()) == row.version;
        if is_announced {
            return Ok(());
        }
        let (event, reason) = (SkillAuditEvent::Attempted, Some(row.event.word().to_owned()));
        self.log.record(&self.by, SkillAuditRow { event, reason, ..row.clone() }).await
    }

    /// Records how a write ended that was announced by [`WriteAudit::begins`].
    pub(crate) async fn ended(
        &self,
        row: SkillAuditRow,
        refusal: Option<&RefusalReason>,
    ) -> Result<(), Fault> {
        let row = match refusal {
            None => row,
            Some(refusal) => {
                let reason = Some(format!("the store answered {}", refusal.code()));
                SkillAuditRow { event: SkillAuditEvent::Refused, reason, ..row }
            }
        };
        self.log.record(&self.by, row).await
    }
}

//! Audit log of approvals: every approval, refused approval and forced Draft.

use std::sync::Arc;

use ledger::{SkillApproval, SkillAuditEvent, SkillAuditRow};
use post::Caller;
use posthouse_time::Timepiece;

use crate::fault::Fault;
use crate::metrics::Metrics;

/// Longest reason in a row, in characters.
const REASON: usize = 500;

/// Writes the audit log.
pub(crate) struct ApprovalLog {
    records: Arc<dyn SkillApproval>,
    metrics: Arc<Metrics>,
    timepiece: Timepiece,
}

/// What happened to a skill, for a row.
pub(crate) struct LoggedApproval<'a> {
    pub event: SkillAuditEvent,
    pub skill: &'a str,
    pub version: Option<&'a str>,
    pub key: Option<&'a str>,
    pub reason: Option<&'a str>,
}

impl ApprovalLog {
    pub fn new(records: Arc<dyn SkillApproval>, metrics: Arc<Metrics>, timepiece: Timepiece) -> Self {
        Self { records, metrics, timepiece }
    }

    /// A row with the time of now.
    pub fn row(&self, by: &Caller, logged: LoggedApproval<'_>) -> SkillAuditRow {
        let LoggedApproval { event, skill, version, key, reason } = logged;
        SkillAuditRow {
            at: self.timepiece.now(),
            event,
            // A refused name can have any length.
            skill: skill.chars().take(crate::NAME_BYTES).collect(),
            version: version.map(str::to_owned),
            caller: by.client.to_string(),
            key: key.map(str::to_owned),
            reason: reason.map(|reason| reason.chars().take(REASON).collect()),
        }
    }

    pub async fn record(&self, by: &Caller, row: SkillAuditRow) -> Result<(), Fault> {
        self.count(row.event);
        Ok(self.records.record_skill_audit(&by.tenant, row).await?)
    }

    pub fn count(&self, event: SkillAuditEvent) {
        self.metrics.approval(event);
    }
}

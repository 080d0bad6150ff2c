//! Settings of tenants for their stores: where skills and data are, the approval mode, the public keys; and the audit log
//! of approvals.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::TenantId;

use crate::{Fault, Sealed};

/// Number of approval keys that a tenant can have, revoked ones included.
pub const APPROVAL_KEYS: u32 = 1000;
/// Number of rows in the audit log of a tenant.
pub const SKILL_AUDIT_ROWS: i64 = 100_000;

/// How a tenant keeps and approves its skills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillSettings {
    /// Whether an approval needs a signature.
    pub signed: bool,
    /// Whether agents may approve skills with their own credentials.
    pub agents_may_approve: bool,
    /// `ledger`, `filesystem:DIR`, `sqlite:FILE`, `custom:NAME` or a URL.
    pub store: String,
    /// Where its data is: the same, without folders.
    pub data_store: String,
}

impl Default for SkillSettings {
    fn default() -> Self {
        let ledger = || "ledger".to_owned();
        Self { signed: false, agents_may_approve: false, store: ledger(), data_store: ledger() }
    }
}

/// Settings to change. Absent ones stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillSettingsChange {
    pub signed: Option<bool>,
    pub agents_may_approve: Option<bool>,
    pub store: Option<String>,
    pub data_store: Option<String>,
    /// Secrets of endpoints, with their names ([`StoreKind::secret_name`]). They are stored together with the settings.
    /// A store that changes loses the secrets of the one before it, because they belong to its endpoint.
    pub secrets: Vec<(String, Sealed)>,
}

/// The two kinds of stores of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreKind {
    Skills,
    Data,
}

impl StoreKind {
    /// The kind as the store contract calls it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Skills => "skill_store",
            Self::Data => "data_store",
        }
    }

    /// The name of a secret of this store among the secrets of its tenant.
    pub fn secret_name(self, name: &str) -> String {
        format!("{}/{name}", self.word())
    }
}

/// A public key that checks approvals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalKeyRecord {
    pub id: String,
    pub public: Vec<u8>,
    pub label: Option<String>,
    pub added: Moment,
    /// None while the key is active.
    pub revoked: Option<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddedApprovalKey {
    Added,
    /// The tenant has this key already, and it is active.
    Known,
    /// The key was revoked. It cannot come back.
    Revoked,
    TooMany,
    NoTenant,
}

/// What happened to a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkillAuditEvent {
    /// The skill became Approved, or a new text of it was approved.
    Approved,
    /// An approval was refused.
    Refused,
    /// A text that claimed to be Approved, or that replaced an Approved skill, became a Draft.
    ForcedDraft,
    /// A write was sent to a store outside of the ledger. Its outcome follows as a row of its own, unless the server ended
    /// in between.
    Attempted,
    /// A skill did not run, because it is not approved.
    RunRefused,
}

impl SkillAuditEvent {
    pub const ALL: [Self; 5] =
        [Self::Approved, Self::Refused, Self::ForcedDraft, Self::Attempted, Self::RunRefused];

    pub fn word(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Refused => "refused",
            Self::ForcedDraft => "forced_draft",
            Self::Attempted => "attempted",
            Self::RunRefused => "run_refused",
        }
    }
}

/// A row of the audit log. It holds names and ids, and no text of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillAuditRow {
    pub at: Moment,
    pub event: SkillAuditEvent,
    pub skill: String,
    pub version: Option<String>,
    /// The client that asked for it.
    pub caller: String,
    /// The key that signed it.
    pub key: Option<String>,
    pub reason: Option<String>,
}

/// Settings, keys and audit log of all tenants.
#[async_trait]
pub trait SkillApproval: Send + Sync {
    /// The settings of a tenant, and its keys, in the order of their ids.
    async fn skill_settings(&self, of: &TenantId) -> Result<(SkillSettings, Vec<ApprovalKeyRecord>), Fault>;
    /// False if there is no such tenant. Repeating it is harmless.
    async fn change_skill_settings(&self, of: &TenantId, change: SkillSettingsChange) -> Result<bool, Fault>;
    async fn add_approval_key(
        &self,
        of: &TenantId,
        id: &str,
        public: &[u8],
        label: Option<&str>,
    ) -> Result<AddedApprovalKey, Fault>;
    /// False if there is no such key. Repeating it keeps the first time.
    async fn revoke_approval_key(&self, of: &TenantId, id: &str) -> Result<bool, Fault>;
    /// Repeating it adds another row. For a tenant that is gone it does nothing.
    async fn record_skill_audit(&self, of: &TenantId, row: SkillAuditRow) -> Result<(), Fault>;
    /// Newest first, before the row with this number.
    async fn skill_audit(
        &self,
        of: &TenantId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<(i64, SkillAuditRow)>, Fault>;
}

//! Approval keys and skill settings of tenants, as the operator changes them. A change takes effect before it is answered.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use identity::RosterView;
use ledger::{
    AddedApprovalKey, ApprovalKeyRecord, SkillApproval, SkillAuditRow, SkillSettings, SkillSettingsChange,
};
use posthouse_wire::TenantId;
use skill::{ApprovalPublicKey, KeyFault};

use crate::fault::Fault;
use crate::tenant_stores::{StoreChoice, TenantStores};

/// Hex digits of a key id.
const ID_DIGITS: usize = 16;

/// Public keys that check approvals, and the settings beside them.
pub struct ApprovalKeys {
    records: Arc<dyn SkillApproval>,
    roster: RosterView,
    stores: Arc<TenantStores>,
}

/// Why settings of a tenant were not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsRefusal {
    #[error("there is no such tenant")]
    NoTenant,
    #[error("{0}")]
    BadStore(String),
}

/// The id of a key: the beginning of the SHA-256 of its 32 bytes, in hex.
pub fn approval_key_id(key: &ApprovalPublicKey) -> String {
    let mut id = hex::encode(digest(&SHA256, key.as_bytes()));
    id.truncate(ID_DIGITS);
    id
}

impl ApprovalKeys {
    pub(crate) fn new(
        records: Arc<dyn SkillApproval>,
        roster: RosterView,
        stores: Arc<TenantStores>,
    ) -> Self {
        Self { records, roster, stores }
    }

    /// The settings of a tenant and all its keys, revoked ones included.
    pub async fn settings(
        &self,
        tenant: &TenantId,
    ) -> Result<(SkillSettings, Vec<ApprovalKeyRecord>), Fault> {
        Ok(self.records.skill_settings(tenant).await?)
    }

    /// Changes settings. A store must be one that this server can open.
    pub async fn change(
        &self,
        tenant: &TenantId,
        change: SkillSettingsChange,
    ) -> Result<Result<(), SettingsRefusal>, Fault> {
        if let Some(store) = &change.store
            && let Err(why) = self.stores.check(store).await?
        {
            return Ok(Err(SettingsRefusal::BadStore(why)));
        }
        let change = SkillSettingsChange {
            store: change.store.as_deref().and_then(StoreChoice::read).map(|choice| choice.to_string()),
            ..change
        };
        let changed = self.records.change_skill_settings(tenant, change).await?;
        self.roster.tenant_changed(tenant);
        Ok(if changed { Ok(()) } else { Err(SettingsRefusal::NoTenant) })
    }

    /// Adds a public key in PEM. Returns its id.
    pub async fn add(
        &self,
        tenant: &TenantId,
        pem: &str,
        label: Option<&str>,
    ) -> Result<Result<(String, AddedApprovalKey), KeyFault>, Fault> {
        let key = match ApprovalPublicKey::from_pem(pem) {
            Ok(key) => key,
            Err(fault) => return Ok(Err(fault)),
        };
        let id = approval_key_id(&key);
        let added = self.records.add_approval_key(tenant, &id, key.as_bytes(), label).await?;
        self.roster.tenant_changed(tenant);
        Ok(Ok((id, added)))
    }

    /// Revokes a key. Skills that it signed stop passing at once. False if there is no such key.
    pub async fn revoke(&self, tenant: &TenantId, id: &str) -> Result<bool, Fault> {
        let revoked = self.records.revoke_approval_key(tenant, id).await?;
        self.roster.tenant_changed(tenant);
        Ok(revoked)
    }

    /// The audit log of a tenant, newest first, before the row with this number.
    pub async fn log(
        &self,
        tenant: &TenantId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<(i64, SkillAuditRow)>, Fault> {
        Ok(self.records.skill_audit(tenant, before, limit).await?)
    }
}

//! Approval keys and skill settings of tenants, as the operator changes them. A change takes effect before it is answered.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use identity::RosterView;
use ledger::{
    AddedApprovalKey, ApprovalKeyRecord, Sealed, SkillApproval, SkillAuditRow, SkillSettings,
    SkillSettingsChange, StoreKind,
};
use posthouse_wire::{Secret, TenantId};
use skill::{ApprovalPublicKey, KeyFault};

use crate::data_stores::DataStores;
use crate::fault::Fault;
use crate::remote_stores::RemoteStores;
use crate::skill_changes::SkillChanges;
use crate::tenant_stores::{StoreChoice, TenantStores};

/// Hex digits of a key id.
const ID_DIGITS: usize = 16;

/// Public keys that check approvals, and the settings beside them.
pub struct ApprovalKeys {
    records: Arc<dyn SkillApproval>,
    roster: RosterView,
    stores: Arc<TenantStores>,
    data: DataStores,
    remote: Arc<RemoteStores>,
    changes: Arc<SkillChanges>,
}

/// Secrets with which requests to a remote store are authenticated.
#[derive(Default)]
pub struct EndpointSecrets {
    /// The value of the header `Authorization`.
    pub authorization: Option<Secret>,
    /// The key of the HMAC signature.
    pub hmac_secret: Option<Secret>,
}

impl EndpointSecrets {
    /// Whether there is at least one secret.
    pub fn is_some(&self) -> bool {
        self.authorization.is_some() || self.hmac_secret.is_some()
    }
}

/// Why settings of a tenant were not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsRefusal {
    #[error("there is no such tenant")]
    NoTenant,
    #[error("{0}")]
    BadStore(String),
    #[error("{0}")]
    BadDataStore(String),
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
        data: DataStores,
        remote: Arc<RemoteStores>,
        changes: Arc<SkillChanges>,
    ) -> Self {
        Self { records, roster, stores, data, remote, changes }
    }

    /// Announces a change of the settings or keys of a tenant. Its triggers follow it too.
    fn announce(&self, tenant: &TenantId) {
        self.roster.tenant_changed(tenant);
        self.changes.note_unread(tenant, self.stores.now());
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
        self.change_with_secrets(tenant, change, EndpointSecrets::default(), EndpointSecrets::default()).await
    }

    /// Changes settings, and the secrets of the remote stores of skills and of data. A remote store needs a secret.
    pub async fn change_with_secrets(
        &self,
        tenant: &TenantId,
        mut change: SkillSettingsChange,
        for_skills: EndpointSecrets,
        for_data: EndpointSecrets,
    ) -> Result<Result<(), SettingsRefusal>, Fault> {
        let (now, _) = self.records.skill_settings(tenant).await?;
        if let Some(store) = &change.store {
            match self.stores.check(tenant, store).await? {
                Ok(choice) => change.store = Some(choice.to_string()),
                Err(why) => return Ok(Err(SettingsRefusal::BadStore(why))),
            }
        }
        if let Some(store) = &change.data_store {
            match self.data.check(tenant, store).await? {
                Ok(choice) => change.data_store = Some(choice.to_string()),
                Err(why) => return Ok(Err(SettingsRefusal::BadDataStore(why))),
            }
        }
        for (kind, next, current, given) in [
            (StoreKind::Skills, &change.store, &now.store, for_skills),
            (StoreKind::Data, &change.data_store, &now.data_store, for_data),
        ] {
            match self.seal(tenant, kind, next.as_ref().unwrap_or(current), given).await? {
                Ok(sealed) => change.secrets.extend(sealed),
                Err(why) if kind == StoreKind::Skills => return Ok(Err(SettingsRefusal::BadStore(why))),
                Err(why) => return Ok(Err(SettingsRefusal::BadDataStore(why))),
            }
        }
        let changed = self.records.change_skill_settings(tenant, change).await?;
        self.announce(tenant);
        Ok(if changed { Ok(()) } else { Err(SettingsRefusal::NoTenant) })
    }

    /// The secrets of a store, sealed. Only a remote store has secrets, and it needs at least one.
    async fn seal(
        &self,
        tenant: &TenantId,
        kind: StoreKind,
        store: &str,
        given: EndpointSecrets,
    ) -> Result<Result<Vec<(String, Sealed)>, String>, Fault> {
        let some_given = given.is_some();
        if !matches!(StoreChoice::read(store), Some(StoreChoice::Remote(_))) {
            let why = "only a store at a URL has secrets".to_owned();
            return Ok(if some_given { Err(why) } else { Ok(Vec::new()) });
        }
        let signer = self.remote.signer();
        if !some_given {
            let keeps_some = signer.has_store_secret(tenant, kind, store).await?;
            let why = "a store at a URL needs a secret: an authorization or an HMAC secret".to_owned();
            return Ok(if keeps_some { Ok(Vec::new()) } else { Err(why) });
        }
        let EndpointSecrets { authorization, hmac_secret } = &given;
        match signer.seal_for_store(tenant, kind, authorization.as_ref(), hmac_secret.as_ref()) {
            Ok(sealed) => Ok(Ok(sealed)),
            Err(vault::Fault::Unfit(why)) => Ok(Err(why.to_owned())),
            Err(fault) => Err(fault.into()),
        }
    }

    /// Asks the remote stores of a tenant for their manifests. Returns the problems, as texts for the operator.
    pub async fn problems(&self, tenant: &TenantId) -> Result<Vec<String>, Fault> {
        let mut problems = Vec::new();
        let skills = match self.stores.of(tenant).await? {
            Ok(opened) => opened.store.manifest().await?.map(drop),
            Err(refusal) => Err(refusal),
        };
        problems.extend(skills.err().map(|refusal| format!("skills: {refusal}")));
        let data = match self.data.of(tenant).await? {
            Ok(opened) => opened.store.manifest().await?.map(drop),
            Err(refusal) => Err(refusal),
        };
        problems.extend(data.err().map(|refusal| format!("data: {refusal}")));
        Ok(problems)
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
        self.announce(tenant);
        Ok(Ok((id, added)))
    }

    /// Revokes a key. Skills that it signed stop passing at once. False if there is no such key.
    pub async fn revoke(&self, tenant: &TenantId, id: &str) -> Result<bool, Fault> {
        let revoked = self.records.revoke_approval_key(tenant, id).await?;
        self.announce(tenant);
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

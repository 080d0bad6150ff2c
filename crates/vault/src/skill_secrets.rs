//! Secrets of skills, and the run settings of tenants, which may contain secrets.

use std::sync::Arc;

use ledger::{SecretStored, VaultRecords};
use posthouse_wire::{Secret, TenantId};

use crate::seal::MasterKeys;
use crate::{Fault, Vault};

/// Names of the sealed values begin with this.
const SKILL: &str = "skill/";
const SETTINGS: &str = "run/settings";
/// Largest secret.
const SECRET_BYTES: usize = 64 * 1024;

/// Stores and opens the secrets that skills use. The part of the vault that the workshop gets. It opens nothing else.
#[derive(Clone)]
pub struct SkillSecrets {
    records: Arc<dyn VaultRecords>,
    keys: Arc<MasterKeys>,
}

/// What became of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewSecret {
    Stored,
    /// A name is a letter or `_`, then letters, digits and `_`, at most 64 together.
    BadName,
    /// It is empty or too large.
    BadValue,
    TooMany,
    NoTenant,
}

impl Vault {
    /// The workshop's part of the vault.
    pub fn skill_secrets(&self) -> SkillSecrets {
        SkillSecrets { records: Arc::clone(&self.records), keys: Arc::clone(&self.keys) }
    }
}

impl SkillSecrets {
    /// Stores a secret and replaces the earlier one of this name.
    pub async fn set(&self, tenant: &TenantId, name: &str, value: &Secret) -> Result<NewSecret, Fault> {
        if !is_secret_name(name) {
            return Ok(NewSecret::BadName);
        }
        if value.is_empty() || value.expose().len() > SECRET_BYTES {
            return Ok(NewSecret::BadValue);
        }
        self.put(tenant, SKILL, &format!("{SKILL}{name}"), value).await
    }

    /// The value of a secret of this tenant.
    pub async fn open(&self, tenant: &TenantId, name: &str) -> Result<Option<Secret>, Fault> {
        if !is_secret_name(name) {
            return Ok(None);
        }
        self.find(tenant, &format!("{SKILL}{name}")).await
    }

    /// The names of a tenant's secrets, in order.
    pub async fn names(&self, tenant: &TenantId) -> Result<Vec<String>, Fault> {
        let names = self.records.tenant_secret_names(tenant, SKILL).await?;
        Ok(names.into_iter().map(|name| name[SKILL.len()..].to_owned()).collect())
    }

    /// False if there is no such secret.
    pub async fn remove(&self, tenant: &TenantId, name: &str) -> Result<bool, Fault> {
        Ok(is_secret_name(name)
            && self.records.remove_tenant_secret(tenant, &format!("{SKILL}{name}")).await?)
    }

    /// The run settings of a tenant, as they were stored.
    pub async fn run_settings(&self, tenant: &TenantId) -> Result<Option<Secret>, Fault> {
        self.find(tenant, SETTINGS).await
    }

    /// Replaces the run settings of a tenant.
    pub async fn set_run_settings(&self, tenant: &TenantId, settings: &Secret) -> Result<NewSecret, Fault> {
        self.put(tenant, SETTINGS, SETTINGS, settings).await
    }

    async fn put(
        &self,
        tenant: &TenantId,
        prefix: &str,
        name: &str,
        value: &Secret,
    ) -> Result<NewSecret, Fault> {
        let sealed = self.keys.seal(&context(tenant, name), value.expose().as_bytes())?;
        Ok(match self.records.put_tenant_secret(tenant, prefix, name, sealed).await? {
            SecretStored::Stored => NewSecret::Stored,
            SecretStored::NoTenant => NewSecret::NoTenant,
            SecretStored::TooMany => NewSecret::TooMany,
        })
    }

    async fn find(&self, tenant: &TenantId, name: &str) -> Result<Option<Secret>, Fault> {
        let sealed = self.records.find_tenant_secret(tenant, name).await?;
        sealed.map(|sealed| self.keys.open_text(&context(tenant, name), &sealed)).transpose()
    }
}

fn is_secret_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= 64
        && bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The place of a secret of a tenant. Replacing the master key finds it by the same words.
fn context(tenant: &TenantId, name: &str) -> String {
    format!("tenant/{tenant}/{name}")
}

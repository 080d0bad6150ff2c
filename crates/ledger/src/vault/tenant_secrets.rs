//! Sealed values of tenants, by name: secrets of skills, and settings that contain secrets.

use async_trait::async_trait;
use posthouse_wire::TenantId;

use super::Sealed;
use crate::Fault;

/// Number of sealed values that a tenant can have below one prefix.
pub const SECRETS_OF_A_TENANT: u32 = 1000;

/// What became of a sealed value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretStored {
    Stored,
    NoTenant,
    /// The tenant has [`SECRETS_OF_A_TENANT`] of them.
    TooMany,
}

#[async_trait]
pub trait TenantSecrets: Send + Sync {
    /// Stores a value and replaces the earlier one. `name` begins with `prefix`.
    async fn put_tenant_secret(
        &self,
        tenant: &TenantId,
        prefix: &str,
        name: &str,
        sealed: Sealed,
    ) -> Result<SecretStored, Fault>;
    async fn find_tenant_secret(&self, tenant: &TenantId, name: &str) -> Result<Option<Sealed>, Fault>;
    /// Names that begin with a prefix, in order.
    async fn tenant_secret_names(&self, tenant: &TenantId, prefix: &str) -> Result<Vec<String>, Fault>;
    /// False if there is no such value.
    async fn remove_tenant_secret(&self, tenant: &TenantId, name: &str) -> Result<bool, Fault>;
}

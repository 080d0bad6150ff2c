//! Ways to agents that do not dial in, made by the operator, a tenant's each; and other names for agents.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ConnectorId, TenantId};

use crate::{Created, Fault, Removed, Sealed};

/// A configured connector. Its secrets are in the vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectorRecord {
    pub id: ConnectorId,
    pub tenant: TenantId,
    /// Unique in its tenant.
    pub name: String,
    /// Which kind of substrate; a word of the post's.
    pub kind: String,
    /// JSON that its kind understands.
    pub settings: String,
    pub created: Moment,
}

/// Another name for an address, free of `@`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    pub tenant: TenantId,
    pub name: String,
    pub agent: String,
}

#[async_trait]
pub trait Connectors: Send + Sync {
    /// With its sealed secrets, in one commit: there is no moment at which it would go out without them.
    async fn create_connector(
        &self,
        new: ConnectorRecord,
        secrets: Vec<(String, Sealed)>,
    ) -> Result<Created, Fault>;
    /// In the order of their making. Without a tenant: everybody's.
    async fn connectors(&self, of: Option<&TenantId>) -> Result<Vec<ConnectorRecord>, Fault>;
    async fn connector(&self, tenant: &TenantId, name: &str) -> Result<Option<ConnectorRecord>, Fault>;
    /// Its secrets go along; its receipts stay. What it had still to deliver has failed.
    async fn remove_connector(&self, tenant: &TenantId, name: &str) -> Result<Removed, Fault>;

    async fn create_alias(&self, new: Alias) -> Result<Created, Fault>;
    async fn aliases(&self, of: Option<&TenantId>) -> Result<Vec<Alias>, Fault>;
    async fn remove_alias(&self, tenant: &TenantId, name: &str) -> Result<Removed, Fault>;

    /// Whether an agent's own credential may write to the other agents of its tenant.
    async fn peers_may_write(&self, tenant: &TenantId) -> Result<bool, Fault>;
    async fn set_peers_may_write(&self, tenant: &TenantId, may: bool) -> Result<(), Fault>;
}

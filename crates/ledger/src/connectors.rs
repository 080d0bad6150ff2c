//! Connectors to agents that do not connect by themselves, and aliases of agents. The operator creates them
//! for one tenant.

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
    /// Kind of the connector; the post defines the words.
    pub kind: String,
    /// JSON in the format of its kind.
    pub settings: String,
    pub created: Moment,
}

/// Another name for an address. It contains no `@`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    pub tenant: TenantId,
    pub name: String,
    pub agent: String,
}

#[async_trait]
pub trait Connectors: Send + Sync {
    /// Stores the connector and its sealed secrets in one commit, so that it can never send without them.
    async fn create_connector(
        &self,
        new: ConnectorRecord,
        secrets: Vec<(String, Sealed)>,
    ) -> Result<Created, Fault>;
    /// In the order of their creation. Without a tenant: those of all tenants.
    async fn connectors(&self, of: Option<&TenantId>) -> Result<Vec<ConnectorRecord>, Fault>;
    async fn connector(&self, tenant: &TenantId, name: &str) -> Result<Option<ConnectorRecord>, Fault>;
    /// Deletes the connector and its secrets. Its receipts stay. Its pending deliveries fail.
    async fn remove_connector(&self, tenant: &TenantId, name: &str) -> Result<Removed, Fault>;

    async fn create_alias(&self, new: Alias) -> Result<Created, Fault>;
    async fn aliases(&self, of: Option<&TenantId>) -> Result<Vec<Alias>, Fault>;
    async fn remove_alias(&self, tenant: &TenantId, name: &str) -> Result<Removed, Fault>;

    /// Whether the credential of an agent may write to the other agents of its tenant.
    async fn peers_may_write(&self, tenant: &TenantId) -> Result<bool, Fault>;
    async fn set_peers_may_write(&self, tenant: &TenantId, may: bool) -> Result<(), Fault>;
}

//! Encrypted values of the vault and their owners. The ledger cannot read them.

mod capability_uses;
mod server_keys;
mod tenant_secrets;

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{
    ActionId, BotId, CapabilityKind, ConnectorId, EntryId, GatewayId, InstanceId, Platform, SessionKey,
    TenantId,
};

use crate::{Fault, StoreKind};

pub use capability_uses::{CapabilityUses, CredentialUse};
pub use server_keys::{ServerKey, ServerKeyKind, ServerKeys};
pub use tenant_secrets::{SECRETS_OF_A_TENANT, SecretStored, TenantSecrets};

/// An encrypted blob and the id of the key that opens it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    pub key_id: String,
    pub blob: Vec<u8>,
}

/// One secret of a gateway.
#[derive(Clone, Debug)]
pub struct SealedSecret {
    pub sealed: Sealed,
    /// End of its validity, by wall time or ledger time, whichever comes first. The current secret has none.
    pub expires: Option<Moment>,
}

/// A gateway credential and its owner.
#[derive(Clone, Debug)]
pub struct GatewayRecord {
    pub gateway: GatewayId,
    pub instance: InstanceId,
    pub tenant: TenantId,
    pub created: Moment,
    pub revoked: Option<Moment>,
    /// The current secret comes first.
    pub secrets: Vec<SealedSecret>,
}

/// Remaining uses of a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uses {
    Many,
    Left(u32),
}

/// A short-lived credential that was captured from an event.
#[derive(Clone, Debug)]
pub struct CapabilityRecord {
    pub tenant: TenantId,
    pub instance: InstanceId,
    pub kind: CapabilityKind,
    pub session_keys: Vec<SessionKey>,
    pub sealed: Sealed,
    pub expires: Option<Moment>,
    pub uses: Uses,
    /// The entry of the event that brought it.
    pub entry: Option<EntryId>,
}

/// A capability that was used once.
#[derive(Clone, Debug)]
pub struct RedeemedCapability {
    pub capability: i64,
    /// The number of the use, under which its end is recorded.
    pub number: i64,
    pub sealed: Sealed,
}

#[async_trait]
pub trait VaultRecords: ServerKeys + CapabilityUses + TenantSecrets {
    /// Creates a gateway or gives it a new current secret. Older secrets end at `overlap_until`. False when
    /// the id belongs to another instance or is revoked.
    async fn issue(
        &self,
        gateway: &GatewayId,
        to: &InstanceId,
        secret: Sealed,
        now: Moment,
        overlap_until: Moment,
    ) -> Result<bool, Fault>;
    async fn gateway(&self, gateway: &GatewayId) -> Result<Option<GatewayRecord>, Fault>;
    async fn gateways(&self, of: &InstanceId) -> Result<Vec<GatewayRecord>, Fault>;
    /// Deletes its secrets and marks the record as revoked. False when there is no such gateway.
    async fn revoke(&self, gateway: &GatewayId, now: Moment) -> Result<bool, Fault>;

    /// Replaces the earlier value under that name.
    async fn put_credential(
        &self,
        platform: &Platform,
        bot: &BotId,
        name: &str,
        sealed: Sealed,
    ) -> Result<(), Fault>;
    async fn credentials(&self, platform: &Platform, bot: &BotId) -> Result<Vec<(String, Sealed)>, Fault>;

    /// Replaces the earlier value under that name. An unknown connector is a fault.
    async fn put_connector_secret(
        &self,
        connector: &ConnectorId,
        name: &str,
        sealed: Sealed,
    ) -> Result<(), Fault>;
    async fn connector_secrets(&self, connector: &ConnectorId) -> Result<Vec<(String, Sealed)>, Fault>;

    /// A secret of a tenant. It is stored by the first call; later calls return the stored one. `None` when there is no
    /// such tenant.
    async fn tenant_secret(
        &self,
        tenant: &TenantId,
        name: &str,
        if_absent: Sealed,
    ) -> Result<Option<Sealed>, Fault>;

    /// The secrets of a tenant's store at this URL, with their names. Empty if the tenant's store is now at another
    /// URL, because a secret belongs to its endpoint.
    async fn store_secrets(
        &self,
        tenant: &TenantId,
        kind: StoreKind,
        url: &str,
    ) -> Result<Vec<(String, Sealed)>, Fault>;

    /// Binds the capability under every session key. The newest of a kind wins.
    async fn bind(&self, capability: CapabilityRecord) -> Result<(), Fault>;
    /// Uses the capability that is bound to this session of the instance once, for this action, and records the use.
    /// None if there is none that is valid. Both are one write.
    async fn redeem(
        &self,
        tenant: &TenantId,
        instance: &InstanceId,
        key: &SessionKey,
        kind: &CapabilityKind,
        action: Option<&ActionId>,
    ) -> Result<Option<RedeemedCapability>, Fault>;
    /// Whether any capability of this kind is bound to a session of the instance, or of any instance.
    async fn holds_kind(&self, of: Option<&InstanceId>, kind: &CapabilityKind) -> Result<bool, Fault>;
    /// Removes the capability of this kind from these sessions.
    async fn unbind(
        &self,
        instance: &InstanceId,
        keys: &[SessionKey],
        kind: &CapabilityKind,
    ) -> Result<(), Fault>;
    /// Gives back a use of this tenant after a call that certainly had no effect.
    async fn give_back(&self, tenant: &TenantId, capability: i64) -> Result<(), Fault>;

    /// Sealed values under other keys than `key_id`, a few at a time, for re-sealing. Each comes with its
    /// place.
    async fn sealed_under_other_keys(
        &self,
        key_id: &str,
        at_most: u16,
    ) -> Result<Vec<(String, Sealed)>, Fault>;
    /// Replaces the blob at a place from [`VaultRecords::sealed_under_other_keys`], if it still is `old`.
    async fn reseal(&self, place: &str, old: &Sealed, new: Sealed) -> Result<(), Fault>;
}

//! Sealed values and who they belong to. What is inside is opaque here.

mod house_keys;

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{
    BotId, CapabilityKind, ConnectorId, GatewayId, InstanceId, Platform, SessionKey, TenantId,
};

use crate::Fault;

pub use house_keys::{HouseKey, HouseKeyKind, HouseKeys};

/// A sealed blob and the name of the key that opens it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    pub key_id: String,
    pub blob: Vec<u8>,
}

/// One of a gateway's secrets.
#[derive(Clone, Debug)]
pub struct SealedSecret {
    pub sealed: Sealed,
    /// Until when it is good; the current one has no end.
    pub expires: Option<Moment>,
}

/// A gateway credential and whom it stands for.
#[derive(Clone, Debug)]
pub struct GatewayRecord {
    pub gateway: GatewayId,
    pub instance: InstanceId,
    pub tenant: TenantId,
    pub created: Moment,
    pub revoked: Option<Moment>,
    /// Current first.
    pub secrets: Vec<SealedSecret>,
}

/// How often a capability may still be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uses {
    Many,
    Left(u32),
}

/// A short-lived credential captured from an event.
#[derive(Clone, Debug)]
pub struct CapabilityRecord {
    pub tenant: TenantId,
    pub instance: InstanceId,
    pub kind: CapabilityKind,
    pub session_keys: Vec<SessionKey>,
    pub sealed: Sealed,
    pub expires: Option<Moment>,
    pub uses: Uses,
}

#[async_trait]
pub trait VaultRecords: HouseKeys {
    /// Makes a gateway or gives it a new current secret; older ones end at `overlap_until`.
    /// False when the id belongs to another instance or was revoked.
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
    /// Empties the secret list and marks the record. False when there is no such gateway.
    async fn revoke(&self, gateway: &GatewayId, now: Moment) -> Result<bool, Fault>;

    /// Replaces what was there under that name.
    async fn put_credential(
        &self,
        platform: &Platform,
        bot: &BotId,
        name: &str,
        sealed: Sealed,
    ) -> Result<(), Fault>;
    async fn credentials(&self, platform: &Platform, bot: &BotId) -> Result<Vec<(String, Sealed)>, Fault>;

    /// Replaces what was there under that name. A connector that is not there is a fault.
    async fn put_connector_secret(
        &self,
        connector: &ConnectorId,
        name: &str,
        sealed: Sealed,
    ) -> Result<(), Fault>;
    async fn connector_secrets(&self, connector: &ConnectorId) -> Result<Vec<(String, Sealed)>, Fault>;

    /// Binds under every session key; the newest of a kind wins.
    async fn bind(&self, capability: CapabilityRecord) -> Result<(), Fault>;
    /// Takes one use of what is bound to this instance's session, if it is there and good.
    async fn redeem(
        &self,
        tenant: &TenantId,
        instance: &InstanceId,
        key: &SessionKey,
        kind: &CapabilityKind,
        now: Moment,
    ) -> Result<Option<(i64, Sealed)>, Fault>;
    /// Gives back a use that surely did nothing.
    async fn give_back(&self, capability: i64) -> Result<(), Fault>;

    /// Every sealed value not under `key_id`, a few at a time, for re-sealing.
    async fn sealed_under_other_keys(
        &self,
        key_id: &str,
        at_most: u16,
    ) -> Result<Vec<(String, Sealed)>, Fault>;
    /// Replaces the blob at a place named by [`VaultRecords::sealed_under_other_keys`], if it still is `old`.
    async fn reseal(&self, place: &str, old: &Sealed, new: Sealed) -> Result<(), Fault>;
}

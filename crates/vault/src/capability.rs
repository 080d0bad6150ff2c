//! Capabilities: short-lived credentials that arrive inside an event. They are bound to its session, redeemed by
//! kind, and expire.

use std::time::Duration;

use ledger::{CapabilityRecord, RedeemedCapability, Uses};
use posthouse_wire::{ActionId, CapabilityKind, EntryId, InstanceId, Platform, Secret, SessionKey, TenantId};

use crate::{Fault, Vault};

/// A capability that the edge extracted from an event.
#[derive(Clone)]
pub struct CapturedCapability {
    pub kind: CapabilityKind,
    pub value: Secret,
    /// Time for which the platform accepts it. `None` when the platform does not say.
    pub lifetime: Option<Duration>,
    pub uses: Uses,
}

/// Result of redeeming a capability.
pub enum Redemption {
    Granted(Granted),
    /// Never bound, expired, used up, or bound by another tenant. One variant on purpose: telling these
    /// apart would reveal what exists.
    Nothing,
}

/// One use of a capability, already counted.
pub struct Granted {
    tenant: TenantId,
    id: i64,
    number: i64,
    pub value: Secret,
}

/// A use of a bot's own credentials that has begun.
pub struct BotUse {
    tenant: TenantId,
    number: i64,
}

impl Vault {
    /// Binds the capabilities to every session key of the event that is stored as `entry`. The newest of a kind
    /// replaces older ones.
    pub async fn bind(
        &self,
        tenant: &TenantId,
        instance: &InstanceId,
        session_keys: &[SessionKey],
        entry: Option<&EntryId>,
        captured: Vec<CapturedCapability>,
    ) -> Result<(), Fault> {
        for capability in captured {
            let context = context(instance, &capability.kind);
            let sealed = self.keys.seal(&context, capability.value.expose().as_bytes())?;
            self.records
                .bind(CapabilityRecord {
                    tenant: tenant.clone(),
                    instance: instance.clone(),
                    session_keys: session_keys.to_vec(),
                    sealed,
                    expires: capability.lifetime.map(|lifetime| self.timepiece.now() + with_margin(lifetime)),
                    uses: capability.uses,
                    kind: capability.kind,
                    entry: entry.cloned(),
                })
                .await?;
        }
        Ok(())
    }

    /// Takes one use of a capability, within the caller's own tenant and instance only, and records it.
    pub async fn redeem(
        &self,
        tenant: &TenantId,
        instance: &InstanceId,
        key: &SessionKey,
        kind: &CapabilityKind,
        action: Option<&ActionId>,
    ) -> Result<Redemption, Fault> {
        let found = self.records.redeem(tenant, instance, key, kind, action).await?;
        let Some(RedeemedCapability { capability, number, sealed }) = found else {
            return Ok(Redemption::Nothing);
        };
        let value = self.keys.open_text(&context(instance, kind), &sealed)?;
        Ok(Redemption::Granted(Granted { tenant: tenant.clone(), id: capability, number, value }))
    }

    /// Whether any session of the instance, or of any instance, has a capability of this kind.
    pub async fn holds_kind(&self, of: Option<&InstanceId>, kind: &CapabilityKind) -> Result<bool, Fault> {
        Ok(self.records.holds_kind(of, kind).await?)
    }

    /// Removes the capability of this kind from these sessions.
    pub async fn unbind(
        &self,
        instance: &InstanceId,
        keys: &[SessionKey],
        kind: &CapabilityKind,
    ) -> Result<(), Fault> {
        Ok(self.records.unbind(instance, keys, kind).await?)
    }

    /// Records that a bot's own credentials are about to be used for a message of an agent, without an action.
    pub async fn begin_bot_use(
        &self,
        tenant: &TenantId,
        instance: &InstanceId,
        entry: Option<&EntryId>,
        platform: &Platform,
    ) -> Result<BotUse, Fault> {
        let number = self.records.begin_bot_use(tenant, instance, entry, platform).await?;
        Ok(BotUse { tenant: tenant.clone(), number })
    }

    /// Records what was called, and how it ended.
    pub async fn end_bot_use(&self, begun: BotUse, called: &str, outcome: &str) -> Result<(), Fault> {
        Ok(self.records.end_use(&begun.tenant, begun.number, called, outcome).await?)
    }

    /// Records what was called with a granted use, and how it ended.
    pub async fn end_use(&self, granted: &Granted, called: &str, outcome: &str) -> Result<(), Fault> {
        Ok(self.records.end_use(&granted.tenant, granted.number, called, outcome).await?)
    }

    /// Returns a use after a call that certainly had no effect. After a call with unknown outcome the use stays taken.
    pub async fn give_back(&self, granted: Granted) -> Result<(), Fault> {
        Ok(self.records.give_back(&granted.tenant, granted.id).await?)
    }
}

fn context(instance: &InstanceId, kind: &CapabilityKind) -> String {
    format!("capability/{instance}/{kind}")
}

/// The platform's lifetime minus a minute, or minus a tenth if that is less. The margin prevents granting a use
/// that expires before it reaches the platform.
fn with_margin(lifetime: Duration) -> Duration {
    lifetime.saturating_sub((lifetime / 10).min(Duration::from_secs(60)))
}

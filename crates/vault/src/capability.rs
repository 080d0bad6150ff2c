//! Short-lived credentials that rode in on an event: bound to its session, redeemed by name, lapsed.

use std::time::Duration;

use ledger::{CapabilityRecord, Uses};
use posthouse_wire::{CapabilityKind, InstanceId, Secret, SessionKey, TenantId};

use crate::{Fault, Vault};

/// A capability as the edge took it out of an event.
#[derive(Clone)]
pub struct Captured {
    pub kind: CapabilityKind,
    pub value: Secret,
    /// How long the platform honours it; nothing when it does not say.
    pub lifetime: Option<Duration>,
    pub uses: Uses,
}

/// What a redemption gives.
pub enum Redemption {
    Granted(Granted),
    /// Never bound, lapsed, used up, or bound by another tenant. One variant on purpose: telling these
    /// apart would tell a stranger what exists.
    Nothing,
}

/// One use of a capability, already taken.
pub struct Granted {
    id: i64,
    pub value: Secret,
}

impl Vault {
    /// Binds what was captured to every key its session may be known by. The newest of a kind wins.
    pub async fn bind(
        &self,
        tenant: &TenantId,
        instance: &InstanceId,
        session_keys: &[SessionKey],
        captured: Vec<Captured>,
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
                })
                .await?;
        }
        Ok(())
    }

    /// Takes one use, inside the caller's own tenant and instance only.
    pub async fn redeem(
        &self,
        tenant: &TenantId,
        instance: &InstanceId,
        key: &SessionKey,
        kind: &CapabilityKind,
    ) -> Result<Redemption, Fault> {
        let found = self.records.redeem(tenant, instance, key, kind, self.timepiece.now()).await?;
        let Some((id, sealed)) = found else { return Ok(Redemption::Nothing) };
        let value = self.keys.open_text(&context(instance, kind), &sealed)?;
        Ok(Redemption::Granted(Granted { id, value }))
    }

    /// For a call that surely did nothing. One whose end is unknown stays used.
    pub async fn give_back(&self, granted: Granted) -> Result<(), Fault> {
        Ok(self.records.give_back(granted.id).await?)
    }
}

fn context(instance: &InstanceId, kind: &CapabilityKind) -> String {
    format!("capability/{instance}/{kind}")
}

/// A minute short of the platform's own lifetime, or a tenth where that is less: a use must not be
/// granted that dies on its way.
fn with_margin(lifetime: Duration) -> Duration {
    lifetime.saturating_sub((lifetime / 10).min(Duration::from_secs(60)))
}

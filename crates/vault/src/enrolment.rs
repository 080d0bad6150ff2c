//! Secrets around gateways: enrolment tokens, sleep tokens, and the delivery key of a tenant.

use ledger::TokenHash;
use posthouse_wire::{Secret, TenantId};

use crate::Fault;
use crate::keyring::{Keyring, OVERLAP};
use crate::seal::random_hex;
use crate::tokens::{hash, random};

/// The name under which a tenant's delivery key is stored.
const DELIVERY_KEY: &str = "delivery";

impl Keyring {
    /// Generates an enrolment token, with the hash under which it is stored. Stores nothing.
    pub fn draft_enroll_token(&self) -> Result<(Secret, TokenHash), Fault> {
        let token = random("phe_")?;
        let hash = hash(token.expose());
        Ok((token, hash))
    }

    /// Generates a token with which an agent asks to be stopped, with the hash under which it is stored. Stores nothing.
    pub fn draft_sleep_token(&self) -> Result<(Secret, TokenHash), Fault> {
        let token = random("phz_")?;
        let hash = hash(token.expose());
        Ok((token, hash))
    }

    /// The end of a secret that is replaced now.
    pub fn overlap_until(&self) -> posthouse_time::Moment {
        self.timepiece.now() + OVERLAP
    }

    /// The delivery key of a tenant. It is made when it is first needed. Gateways store it; nothing on the wire uses
    /// it. `None` when there is no such tenant.
    pub async fn delivery_key(&self, tenant: &TenantId) -> Result<Option<Secret>, Fault> {
        let context = format!("tenant/{tenant}/{DELIVERY_KEY}");
        let fresh = self.keys.seal(&context, random_hex(32)?.expose().as_bytes())?;
        let stored = self.records.tenant_secret(tenant, DELIVERY_KEY, fresh).await?;
        stored.map(|sealed| self.keys.open_text(&context, &sealed)).transpose()
    }
}

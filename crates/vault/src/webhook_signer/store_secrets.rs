//! Secrets of remote stores: sealing them, and the headers that authenticate a request to one.

use http::HeaderMap;
use ledger::{Sealed, StoreKind};
use posthouse_wire::{Secret, TenantId};

use super::{OpenedSecrets, WebhookSigner, given_secrets};
use crate::Fault;

/// Shorter secrets are not searched for in answers, because they could be there by chance.
const SEARCHED_BYTES: usize = 8;

/// The headers of a request to a store, with the secrets behind them.
pub struct StoreAuthentication {
    pub headers: HeaderMap,
    secrets: OpenedSecrets,
}

impl StoreAuthentication {
    /// Whether an answer repeats a secret, for example because the store echoes the headers of requests. Nobody may see
    /// such an answer.
    pub fn is_echoed_in(&self, answer: &[u8]) -> bool {
        let OpenedSecrets { literal, shared } = &self.secrets;
        // Without its scheme, as in `Bearer …`, the authorization is still a secret.
        let token = literal.as_ref().and_then(|literal| literal.expose().split_whitespace().last());
        let mut secrets = [literal, shared].into_iter().flatten().map(Secret::expose).chain(token);
        // An answer that is no UTF-8 is no JSON, and is refused anyway.
        let Ok(answer) = std::str::from_utf8(answer) else { return false };
        secrets.any(|secret| secret.len() >= SEARCHED_BYTES && answer.contains(secret))
    }
}

impl WebhookSigner {
    /// Seals the secrets of a tenant's store, for a caller that stores them together with its address. Secrets that
    /// could never be sent fail here.
    pub fn seal_for_store(
        &self,
        tenant: &TenantId,
        kind: StoreKind,
        authorization: Option<&Secret>,
        hmac_secret: Option<&Secret>,
    ) -> Result<Vec<(String, Sealed)>, Fault> {
        given_secrets(authorization, hmac_secret)?
            .map(|(name, secret)| {
                let name = kind.secret_name(name);
                let sealed = self.keys.seal(&context(tenant, &name), secret.expose().as_bytes())?;
                Ok((name, sealed))
            })
            .collect()
    }

    /// Authenticates a request to a tenant's store at this URL, as [`WebhookSigner::headers`] does for one to a
    /// connector. There are no headers if the tenant's store is at another URL now.
    pub async fn authenticate_store_request(
        &self,
        tenant: &TenantId,
        kind: StoreKind,
        url: &str,
        body: &[u8],
        standard: (&str, i64),
    ) -> Result<StoreAuthentication, Fault> {
        let mut opened = OpenedSecrets::default();
        for (name, sealed) in self.records.store_secrets(tenant, kind, url).await? {
            let secret = self.keys.open_text(&context(tenant, &name), &sealed)?;
            opened.put(name.rsplit('/').next().unwrap_or_default(), secret);
        }
        Ok(StoreAuthentication { headers: opened.headers(body, Some(standard))?, secrets: opened })
    }

    /// Whether a tenant's store at this URL has a secret.
    pub async fn has_store_secret(
        &self,
        tenant: &TenantId,
        kind: StoreKind,
        url: &str,
    ) -> Result<bool, Fault> {
        Ok(!self.records.store_secrets(tenant, kind, url).await?.is_empty())
    }
}

/// The place of a secret of a tenant. Replacing the master key finds it by the same words.
fn context(tenant: &TenantId, name: &str) -> String {
    format!("tenant/{tenant}/{name}")
}

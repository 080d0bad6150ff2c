//! Credentials that agents present: issue, check, rotate, revoke. A sealed secret is returned only to a gateway that
//! provisions itself again.

use std::sync::Arc;
use std::time::Duration;

use ledger::{GatewayRecord, Sealed, Tokens, VaultRecords};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::token::{self, TokenVerdict};
use posthouse_wire::{GatewayId, InstanceId, Secret, TenantId};

use crate::Fault;
use crate::seal::{MasterKeys, random_hex};

/// Time for which a rotated secret stays valid beside its successor.
pub(crate) const OVERLAP: Duration = Duration::from_secs(24 * 3600);

/// Issues and checks the credentials of agents and programs.
#[derive(Clone)]
pub struct Keyring {
    pub(crate) records: Arc<dyn VaultRecords>,
    pub(crate) tokens: Arc<dyn Tokens>,
    /// Lifetime of an access token.
    pub(crate) access: Duration,
    pub(crate) keys: Arc<MasterKeys>,
    pub(crate) timepiece: Timepiece,
}

/// Owner of a credential, according to the ledger and not to the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayOwner {
    pub gateway: GatewayId,
    pub instance: InstanceId,
    pub tenant: TenantId,
}

/// Result of checking a presented token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialCheck {
    Good(GatewayOwner),
    /// The signature is valid, but the token expired `late_seconds` ago.
    Expired {
        holder: GatewayOwner,
        late_seconds: i64,
    },
    /// Unknown, revoked or wrong. One variant on purpose, so that callers cannot reveal which.
    Refused,
}

impl Keyring {
    /// Generates a secret for a gateway, with its sealed form for the ledger. Stores nothing.
    pub fn draft_gateway_secret(&self, gateway: &GatewayId) -> Result<(Secret, Sealed), Fault> {
        let secret = random_hex(32)?;
        let sealed = self.keys.seal(&context(gateway), secret.expose().as_bytes())?;
        Ok((secret, sealed))
    }

    /// Opens the secret of a gateway, for a gateway that provisions itself again within a short time (contract section
    /// 17.4). Nothing else may show a secret twice.
    pub fn reopen_gateway_secret(&self, gateway: &GatewayId, sealed: &Sealed) -> Result<Secret, Fault> {
        self.keys.open_text(&context(gateway), sealed)
    }

    /// Creates a credential, or gives an existing one of the same instance a new secret; the old secret stays
    /// valid for a day. Returns `None` when the id belongs to another instance or was revoked. The secret is
    /// returned only here.
    pub async fn issue(&self, gateway: &GatewayId, to: &InstanceId) -> Result<Option<Secret>, Fault> {
        let (secret, sealed) = self.draft_gateway_secret(gateway)?;
        let now = self.timepiece.now();
        let issued = self.records.issue(gateway, to, sealed, now, now + OVERLAP).await?;
        Ok(issued.then_some(secret))
    }

    /// Revokes a credential permanently. Returns false when there was none.
    pub async fn revoke(&self, gateway: &GatewayId) -> Result<bool, Fault> {
        Ok(self.records.revoke(gateway, self.timepiece.now()).await?)
    }

    /// The credentials of one instance: id, time of creation, time of revocation.
    pub async fn of(&self, instance: &InstanceId) -> Result<Vec<(GatewayId, Moment, Option<Moment>)>, Fault> {
        let records = self.records.gateways(instance).await?;
        Ok(records.into_iter().map(|record| (record.gateway, record.created, record.revoked)).collect())
    }

    /// Checks an upgrade token. An unknown gateway costs the same work as a known one, so that response times
    /// reveal nothing.
    pub async fn check_upgrade_token(&self, token: &str) -> Result<CredentialCheck, Fault> {
        let now = self.timepiece.now();
        let record = match token::claimed_gateway(token) {
            Some(gateway) => self.records.gateway(&gateway).await?,
            None => None,
        };
        let secrets = match &record {
            Some(record) => self.good_secrets(record, now)?,
            None => Vec::new(),
        };
        let verdict = token::verify(token, secrets.iter(), now.seconds());
        let Some(record) = record.filter(|record| record.revoked.is_none()) else {
            return Ok(CredentialCheck::Refused);
        };
        let holder =
            GatewayOwner { gateway: record.gateway, instance: record.instance, tenant: record.tenant };
        Ok(match verdict {
            TokenVerdict::Good(_) => CredentialCheck::Good(holder),
            TokenVerdict::Expired { late_seconds, .. } => CredentialCheck::Expired { holder, late_seconds },
            TokenVerdict::Refused => CredentialCheck::Refused,
        })
    }

    fn good_secrets(&self, record: &GatewayRecord, now: Moment) -> Result<Vec<Secret>, Fault> {
        record
            .secrets
            .iter()
            .filter(|secret| secret.expires.is_none_or(|expires| expires > now))
            .map(|secret| self.keys.open_text(&context(&record.gateway), &secret.sealed))
            .collect()
    }
}

fn context(gateway: &GatewayId) -> String {
    format!("gateway/{gateway}")
}

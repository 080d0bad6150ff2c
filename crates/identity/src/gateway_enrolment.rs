//! Enrolment of gateways: an agent gets its gateway credential for a single-use token that the operator made.

use std::sync::Arc;
use std::time::Duration;

use ledger::{
    BotRef, CredentialToEnroll, EnrollResult, EnrollSetup, EnrollToken, EnrollTokens, Redeemable, Redeemer,
};
use posthouse_time::Timepiece;
use posthouse_wire::{EnrollTokenId, GatewayId, InstanceId, Secret, TenantId};
use vault::Keyring;

use crate::{Fault, Gateways, Principal};

/// Attempts to store a credential while other gateways take the same proposed name.
const ATTEMPTS: usize = 3;

/// The credential of an enrolled gateway. The secret cannot be shown again.
#[derive(Clone)]
pub struct EnrolledGateway {
    pub tenant: TenantId,
    pub instance: InstanceId,
    pub gateway: GatewayId,
    pub secret: Secret,
    pub delivery_key: Secret,
}

/// Makes enrolment tokens, and gives out credentials for them.
#[derive(Clone)]
pub struct GatewayEnrolment {
    pub(crate) keyring: Keyring,
    pub(crate) records: Arc<dyn EnrollTokens>,
    pub(crate) gateways: Gateways,
    pub(crate) timepiece: Timepiece,
}

impl GatewayEnrolment {
    /// Makes a token for an agent. The gateway that redeems it gets these settings, which must have been checked. The
    /// token itself is returned only here. `None` when there is no such agent of this tenant.
    pub async fn create_token(
        &self,
        tenant: &TenantId,
        instance: &InstanceId,
        lifetime: Duration,
        setup: EnrollSetup,
    ) -> Result<Option<(EnrollToken, Secret)>, Fault> {
        let now = self.timepiece.now();
        let (secret, hash) = self.keyring.draft_enroll_token()?;
        let token = EnrollToken {
            id: EnrollTokenId::mint(now.millis()),
            tenant: tenant.clone(),
            instance: instance.clone(),
            created: now,
            expires: now + lifetime,
            used: None,
            gateway: None,
            revoked: None,
            setup,
        };
        let created = self.records.create_enroll_token(token.clone(), hash).await?;
        Ok(created.then_some((token, secret)))
    }

    /// The tokens of one tenant or of all, oldest first.
    pub async fn tokens(&self, of: Option<&TenantId>) -> Result<Vec<EnrollToken>, Fault> {
        Ok(self.records.enroll_tokens(of).await?)
    }

    /// Revokes an unused token. False when there is none.
    pub async fn revoke_token(&self, id: &EnrollTokenId) -> Result<bool, Fault> {
        Ok(self.records.revoke_enroll_token(id).await?)
    }

    /// Gives out a credential for a token. `None` when the token is unknown, expired, used, revoked, or not for this
    /// caller. A gateway that proposes the same name again gets a new secret for the same credential; the old secret
    /// stays valid for a day.
    pub async fn enrol(
        &self,
        caller: &Principal,
        token: &str,
        proposed_name: &str,
    ) -> Result<Option<EnrolledGateway>, Fault> {
        let Some(by) = redeemer(caller, token, proposed_name) else { return Ok(None) };
        for _ in 0..ATTEMPTS {
            let Some(found) = self.records.redeemable(by.clone()).await? else { return Ok(None) };
            let claims_on = self.claims_on(&found).await?;
            let gateway = found.gateway.unwrap_or_else(|| GatewayId::mint(self.timepiece.now().millis()));
            let Some(delivery_key) = self.keyring.delivery_key(&by.tenant).await? else { return Ok(None) };
            let (secret, sealed) = self.keyring.draft_gateway_secret(&gateway)?;
            let credential = CredentialToEnroll {
                gateway: gateway.clone(),
                secret: sealed,
                overlap_until: self.keyring.overlap_until(),
                claims_on,
            };
            match self.records.redeem_enroll_token(by.clone(), credential).await? {
                EnrollResult::Enrolled(changed) => {
                    let (tenant, instance) = (by.tenant, found.instance);
                    self.gateways.announce_enrolled(&instance, &changed);
                    tracing::info!(instance.id = %instance, gateway.id = %gateway, "a gateway enrolled");
                    return Ok(Some(EnrolledGateway { tenant, instance, gateway, secret, delivery_key }));
                }
                EnrollResult::Refused => return Ok(None),
                EnrollResult::NameChanged => {}
            }
        }
        Ok(None)
    }

    /// The shared bots on which the gateway claims the route keys of its token. The agent's bots may have changed since
    /// the token was made.
    async fn claims_on(&self, found: &Redeemable) -> Result<Vec<BotRef>, Fault> {
        let keys = &found.setup.route_keys;
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut limit = found.setup.bots.clone();
        if let (true, Some(gateway)) = (limit.is_empty(), &found.gateway) {
            limit = self.gateways.records.gateway_bots(gateway).await?;
        }
        let bots = self.gateways.bots_for_keys(&found.instance, &limit, keys).await?;
        Ok(bots.unwrap_or_else(|| {
            tracing::warn!(instance.id = %found.instance, "the route keys of an enrolling gateway were ignored: each platform must have exactly one shared bot");
            Vec::new()
        }))
    }
}

/// The caller of an enrolment. An agent can only enrol itself. The operator and people on the chat page cannot enrol.
fn redeemer(caller: &Principal, token: &str, proposed_name: &str) -> Option<Redeemer> {
    let agent = match caller {
        Principal::Agent { agent, .. } => Some(agent.id.clone()),
        Principal::Tenant { .. } | Principal::Issued { .. } => None,
        Principal::Operator | Principal::Person(_) => return None,
    };
    Some(Redeemer {
        token: Keyring::token_hash(token),
        tenant: caller.tenant()?.clone(),
        agent,
        name: proposed_name.to_owned(),
    })
}

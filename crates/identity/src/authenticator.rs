//! Authentication: from a request's credential to its `Principal`, for every door.

use std::net::IpAddr;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use ledger::Invitations;
use posthouse_time::Timepiece;
use posthouse_wire::{InstanceId, Secret, TenantId, token};
use vault::{CredentialCheck, GatewayOwner, Keyring};

use crate::authorization::{PresentedCredential, bearer};
use crate::issuers::{IssuedClaims, TokenPurpose};
use crate::roster_view::agent_of_client;
use crate::{AdminToken, AgentCredential, Fault, Principal, RosterView, Throttle, TrustedIssuers};

/// Seconds after its expiry for which an upgrade token is still accepted.
const LEEWAY_SECONDS: i64 = 60;

/// Result of checking a request's credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authentication {
    Known(Principal),
    Refused(CredentialRefusal),
    /// Too many wrong credentials came from this address.
    Barred,
}

/// Why a credential was refused. Only the contract of a peer may tell these apart in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialRefusal {
    /// The request has no credential.
    Missing,
    /// Malformed, unknown, expired or revoked. One variant on purpose, so that callers cannot reveal which.
    Unknown,
    /// An agent's upgrade token with a valid signature that has expired.
    Expired,
    /// A valid credential that belongs to no agent, where only agents may call.
    NotAnAgent,
    /// A valid credential of an agent that was removed.
    AgentRemoved,
}

/// The SHA-256 of a text in hexadecimal. The ledger stores the secrets of invitation links and sessions as this hash.
pub fn fingerprint(secret: &str) -> String {
    hex::encode(digest(&SHA256, secret.as_bytes()))
}

/// Whether a token is of a foreign issuer. Our own tokens have no dots.
fn is_jwt(token: &str) -> bool {
    token.matches('.').count() == 2
}

/// Finds out who made a request. Wrong credentials get slower answers and then none.
#[derive(Clone)]
pub struct Authenticator {
    pub(crate) keyring: Keyring,
    pub(crate) roster: RosterView,
    pub(crate) invitations: Arc<dyn Invitations>,
    pub(crate) throttle: Throttle,
    pub(crate) admin: AdminToken,
    pub(crate) issuers: TrustedIssuers,
    pub(crate) timepiece: Timepiece,
}

type AuthenticationResult = Result<Principal, CredentialRefusal>;

impl Authenticator {
    /// An agent that connects to the relay or calls one of its HTTP routes, by its gateway credential. The decision
    /// uses the header only, because a stock agent must be refused before its first frame.
    pub async fn connecting_agent(
        &self,
        headers: &HeaderMap,
        address: Option<IpAddr>,
    ) -> Result<Authentication, Fault> {
        let presented = bearer(headers).unwrap_or_default();
        let refusal = match self.gateway(presented).await? {
            Ok(principal) => return Ok(Authentication::Known(principal)),
            Err(refusal) => refusal,
        };
        // Counted only after the check: many agents may share one address, and one must not lock out the others.
        Ok(match self.throttle.slow_down_gateway(token::claimed_gateway(presented), address).await {
            true => Authentication::Refused(refusal),
            false => Authentication::Barred,
        })
    }

    /// A program or an agent that calls an HTTP API, by its access token, or by a client credential as HTTP Basic for
    /// programs that can only send a fixed header.
    pub async fn program(
        &self,
        headers: &HeaderMap,
        address: Option<IpAddr>,
    ) -> Result<Authentication, Fault> {
        let checked = match PresentedCredential::read(headers) {
            Some(PresentedCredential::Bearer(token)) => self.access_token(&token).await?,
            Some(PresentedCredential::Basic { client, secret }) => self.client(&client, &secret).await?,
            // A request without a credential is not a guess, so it is not counted.
            None => return Ok(Authentication::Refused(CredentialRefusal::Missing)),
        };
        Ok(self.counted(checked, address, "program_refused").await)
    }

    /// A caller that enrols or provisions a gateway, by its access token or by a token of a trusted issuer. HTTP Basic
    /// is not accepted here.
    pub async fn enroller(
        &self,
        headers: &HeaderMap,
        address: Option<IpAddr>,
    ) -> Result<Authentication, Fault> {
        let Some(token) = bearer(headers) else {
            return Ok(Authentication::Refused(CredentialRefusal::Missing));
        };
        let checked = match is_jwt(token) {
            true => self.issued(token).await?,
            false => self.access_token(&Secret::new(token)).await?,
        };
        Ok(self.counted(checked, address, "program_refused").await)
    }

    /// Whoever manages an agent: its gateway, or a token of a trusted issuer. The audience of such a token names the
    /// agent, and its tenant must be the agent's (contract section 17.7).
    pub async fn manager(
        &self,
        headers: &HeaderMap,
        address: Option<IpAddr>,
    ) -> Result<Authentication, Fault> {
        let Some(token) = bearer(headers).filter(|token| is_jwt(token)) else {
            return self.connecting_agent(headers, address).await;
        };
        let checked = self.issued_for_agent(token).await?;
        Ok(self.counted(checked, address, "program_refused").await)
    }

    /// Counts a refusal against its address. Further ones get slower answers and then none. `why` is a metric label.
    async fn counted(
        &self,
        checked: AuthenticationResult,
        address: Option<IpAddr>,
        why: &'static str,
    ) -> Authentication {
        match checked {
            Ok(principal) => Authentication::Known(principal),
            Err(refusal) if self.throttle.slow_down(address, why).await => Authentication::Refused(refusal),
            Err(_) => Authentication::Barred,
        }
    }

    /// An agent that calls the cron API, by its access token. Agents refresh their token before it expires, so an
    /// unknown one is counted as a guess. A stock agent waits up to fifteen seconds for the answer.
    pub async fn cron_agent(
        &self,
        headers: &HeaderMap,
        address: Option<IpAddr>,
    ) -> Result<Authentication, Fault> {
        let Some(token) = bearer(headers) else {
            return Ok(Authentication::Refused(CredentialRefusal::Missing));
        };
        Ok(match self.access_token(&Secret::new(token)).await? {
            Ok(principal @ Principal::Agent { .. }) => Authentication::Known(principal),
            // A credential that is valid elsewhere, or was once, is not a guess.
            Ok(_) => Authentication::Refused(CredentialRefusal::NotAnAgent),
            Err(refusal @ (CredentialRefusal::NotAnAgent | CredentialRefusal::AgentRemoved)) => {
                Authentication::Refused(refusal)
            }
            Err(refusal) => self.counted(Err(refusal), address, "cron_refused").await,
        })
    }

    /// The operator, by the admin token. Wrong tokens are logged.
    pub async fn operator(&self, headers: &HeaderMap, address: Option<IpAddr>) -> Authentication {
        if self.admin.admits_request(headers) {
            return Authentication::Known(Principal::Operator);
        }
        // A request without a token is not a guess.
        if !headers.contains_key(AUTHORIZATION) {
            return Authentication::Refused(CredentialRefusal::Missing);
        }
        // Refusals without a check are not logged: the previous log lines are enough.
        if !self.throttle.slow_down(address, "admin_refused").await {
            return Authentication::Barred;
        }
        tracing::warn!(address = address.map(tracing::field::display), "a wrong admin token was presented");
        Authentication::Refused(CredentialRefusal::Unknown)
    }

    /// An invited person, by the session cookie of the chat page.
    pub async fn person(
        &self,
        session: Option<&str>,
        address: Option<IpAddr>,
    ) -> Result<Authentication, Fault> {
        let Some(session) = session else {
            return Ok(Authentication::Refused(CredentialRefusal::Missing));
        };
        let found = self.invitations.session(&fingerprint(session)).await?;
        let checked = found.map(|invitation| Principal::Person(Arc::new(invitation)));
        Ok(self.counted(checked.ok_or(CredentialRefusal::Unknown), address, "session_refused").await)
    }

    async fn gateway(&self, token: &str) -> Result<AuthenticationResult, Fault> {
        let holder = match self.keyring.check_upgrade_token(token).await? {
            CredentialCheck::Good(holder) => holder,
            // A laptop that slept between making the token and connecting must not disable itself permanently.
            CredentialCheck::Expired { holder, late_seconds } if late_seconds <= LEEWAY_SECONDS => holder,
            CredentialCheck::Expired { .. } => return Ok(Err(CredentialRefusal::Expired)),
            CredentialCheck::Refused => return Ok(Err(CredentialRefusal::Unknown)),
        };
        let GatewayOwner { gateway, instance, tenant } = holder;
        self.agent(&tenant, &instance, AgentCredential::Gateway(gateway)).await
    }

    async fn access_token(&self, token: &Secret) -> Result<AuthenticationResult, Fault> {
        let Some(record) = self.roster.access_token(token.expose()).await? else {
            return Ok(Err(CredentialRefusal::Unknown));
        };
        if let Some(login) = &record.login {
            let agent = self.roster.agent_of_login(&record.tenant, login).await?;
            let by = AgentCredential::Login(login.clone());
            return Ok(agent
                .map(|agent| Principal::Agent { agent, by })
                .ok_or(CredentialRefusal::NotAnAgent));
        }
        match agent_of_client(&record.client) {
            Some(id) => self.agent(&record.tenant, &id, AgentCredential::Client(record.client.clone())).await,
            None => {
                let (tenant, client) = (record.tenant.clone(), record.client.clone());
                Ok(Ok(Principal::Tenant { tenant, client }))
            }
        }
    }

    async fn issued(&self, token: &str) -> Result<AuthenticationResult, Fault> {
        let Some(claims) = self.issuers.verify(token, TokenPurpose::Join, &self.timepiece).await else {
            return Ok(Err(CredentialRefusal::Unknown));
        };
        let tenant = self.roster.records().tenant(&claims.tenant).await?;
        Ok(tenant
            .map(|tenant| Principal::Issued { tenant: tenant.id, issuer: claims.issuer })
            .ok_or(CredentialRefusal::Unknown))
    }

    async fn issued_for_agent(&self, token: &str) -> Result<AuthenticationResult, Fault> {
        let verified = self.issuers.verify(token, TokenPurpose::ManageAgent, &self.timepiece).await;
        let Some(IssuedClaims { issuer, tenant, agent: Some(id) }) = verified else {
            return Ok(Err(CredentialRefusal::Unknown));
        };
        // The name of an agent is not enough: it can be given to another agent later.
        let tenant = match id.as_str().starts_with("inst_") {
            true => self.roster.records().tenant(&tenant).await?,
            false => None,
        };
        match tenant {
            Some(tenant) => self.agent(&tenant.id, &id, AgentCredential::Issuer(issuer)).await,
            None => Ok(Err(CredentialRefusal::Unknown)),
        }
    }

    async fn client(&self, client: &str, secret: &Secret) -> Result<AuthenticationResult, Fault> {
        let Some(found) = self.keyring.client(client, secret.expose()).await? else {
            return Ok(Err(CredentialRefusal::Unknown));
        };
        match found.instance {
            Some(id) => self.agent(&found.tenant, &id, AgentCredential::Client(found.client)).await,
            None => Ok(Ok(Principal::Tenant { tenant: found.tenant, client: found.client })),
        }
    }

    async fn agent(
        &self,
        tenant: &TenantId,
        id: &InstanceId,
        by: AgentCredential,
    ) -> Result<AuthenticationResult, Fault> {
        let agent = self.roster.agent(tenant, id.as_str()).await?;
        Ok(agent.map(|agent| Principal::Agent { agent, by }).ok_or(CredentialRefusal::AgentRemoved))
    }
}

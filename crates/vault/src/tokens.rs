//! Client credentials, bootstrap logins, and the tokens that both are exchanged for. All of them are
//! opaque random strings, kept as hashes: none can be shown again, and revoking is immediate.

use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use ledger::{ClientRecord, LoginRecord, Owner, Pair, Renewal, TokenHash};
use posthouse_time::Moment;
use posthouse_wire::{ClientId, InstanceId, LoginId, Secret, TenantId};

use crate::Fault;
use crate::keyring::{Keyring, OVERLAP};
use crate::seal::random_hex;

/// The client that a stock agent with a planted login says it is.
pub const BOOTSTRAP_CLIENT: &str = "hermes-cli-vps";
/// A stock agent refreshes two minutes before the end: a shorter life would make it refresh at every call.
pub const SHORTEST_ACCESS: Duration = Duration::from_secs(15 * 60);
/// Unless said otherwise.
pub(crate) const ACCESS: Duration = Duration::from_secs(3600);
/// How long the operator may act for a tenant with one token.
const OPERATOR: Duration = Duration::from_secs(15 * 60);
/// How long a refresh token that was just exchanged may be exchanged again: two processes of one agent
/// read the same file and race.
const RACE: Duration = Duration::from_secs(60);

/// Whom a client credential stands for, by our own record of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    pub client: ClientId,
    pub tenant: TenantId,
    /// Nothing for a tenant's own client.
    pub instance: Option<InstanceId>,
}

/// An access token, seen this once.
#[derive(Clone)]
pub struct AccessGrant {
    pub access_token: Secret,
    pub expires: Moment,
    pub expires_in: Duration,
}

/// The tokens of a bootstrap login, seen this once.
#[derive(Clone)]
pub struct Login {
    pub login: LoginId,
    pub tenant: TenantId,
    pub instance: InstanceId,
    pub access: AccessGrant,
    pub refresh_token: Secret,
}

/// What a refresh token is worth.
pub enum Refreshed {
    Granted(Login),
    /// It was exchanged before, and not just now: somebody holds an old copy. The login goes on, since
    /// whoever holds the latest one may well be its rightful agent.
    Reused(LoginId),
    /// Never given out, or its login has ended. One variant on purpose.
    Refused,
}

impl Keyring {
    /// The same keyring, granting access for this long, but never so short that agents refresh all the time.
    pub fn granting_access_for(mut self, lifetime: Duration) -> Self {
        self.access = lifetime.max(SHORTEST_ACCESS);
        self
    }

    /// Makes the owner's client, or gives it a further secret; the old one stays good for a day. One that
    /// was revoked is good again with the new secret alone. Nothing when there is no such owner.
    pub async fn create_client(&self, owner: &Owner) -> Result<Option<(ClientId, Secret)>, Fault> {
        let (secret, now) = (random("phs_")?, self.timepiece.now());
        let made = self.tokens.create_client(owner, hash(secret.expose()), now, now + OVERLAP).await?;
        Ok(made.then(|| (owner.client(), secret)))
    }

    /// Ends a client with its access tokens, at once. False when there is none.
    pub async fn revoke_client(&self, client: &ClientId) -> Result<bool, Fault> {
        let known = self.tokens.revoke_client(client, self.timepiece.now()).await?;
        self.bearers.forget();
        Ok(known)
    }

    /// All clients, or those of one tenant; revoked ones too.
    pub async fn clients(&self, of: Option<&TenantId>) -> Result<Vec<ClientRecord>, Fault> {
        Ok(self.tokens.clients(of).await?)
    }

    /// Whose credential this is. It is found by the secret's hash, so that a name that exists costs the
    /// same as one that does not.
    pub async fn client(&self, client: &str, secret: &str) -> Result<Option<Client>, Fault> {
        let found = self.tokens.client(&client.into(), hash(secret), self.timepiece.now()).await?;
        Ok(found.map(|ClientRecord { client, tenant, instance, .. }| Client { client, tenant, instance }))
    }

    /// An access token for a client. Nothing when it was revoked meanwhile.
    pub async fn grant_access(&self, client: &ClientId) -> Result<Option<AccessGrant>, Fault> {
        let grant = self.access_grant(self.access)?;
        let granted = self.tokens.grant(client, hash(grant.access_token.expose()), grant.expires).await?;
        Ok(granted.then_some(grant))
    }

    /// An access token of a quarter of an hour by which the operator acts for a tenant, as the client
    /// `operator:{tenant}`. Nothing when there is no such tenant. No such client exists, so it can neither
    /// be exchanged nor revoked; it ends with the tenant.
    pub async fn operator_access(&self, tenant: &TenantId) -> Result<Option<AccessGrant>, Fault> {
        let grant = self.access_grant(OPERATOR)?;
        let access = hash(grant.access_token.expose());
        let granted = self.tokens.grant_operator(tenant, access, grant.expires).await?;
        Ok(granted.then_some(grant))
    }

    /// Gives an agent its bootstrap login; one that it had ends at once. Nothing when there is no such agent.
    pub async fn log_in(&self, instance: &InstanceId) -> Result<Option<Login>, Fault> {
        let now = self.timepiece.now();
        let (access, refresh_token, pair) = self.pair()?;
        let login = LoginId::mint(now.millis());
        let made = self.tokens.log_in(&login, &BOOTSTRAP_CLIENT.into(), instance, pair, now).await?;
        self.bearers.forget();
        Ok(made.map(|record| login_of(record, access, refresh_token)))
    }

    /// Ends a login with all its tokens, at once. False when there is none.
    pub async fn log_out(&self, login: &LoginId) -> Result<bool, Fault> {
        let known = self.tokens.log_out(login).await?;
        self.bearers.forget();
        Ok(known)
    }

    /// All bootstrap logins, or those of one tenant.
    pub async fn logins(&self, of: Option<&TenantId>) -> Result<Vec<LoginRecord>, Fault> {
        Ok(self.tokens.logins(of).await?)
    }

    /// Exchanges a refresh token for a new pair. The old one may be exchanged again for a minute.
    pub async fn refresh(&self, presented: &str, client: &str) -> Result<Refreshed, Fault> {
        let now = self.timepiece.now();
        let (access, refresh_token, next) = self.pair()?;
        Ok(match self.tokens.refresh(hash(presented), &client.into(), next, now, now - RACE).await? {
            Renewal::Granted(record) => Refreshed::Granted(login_of(record, access, refresh_token)),
            Renewal::Reused(record) => Refreshed::Reused(record.login),
            Renewal::Unknown => Refreshed::Refused,
        })
    }

    fn access_grant(&self, lifetime: Duration) -> Result<AccessGrant, Fault> {
        let expires = self.timepiece.now() + lifetime;
        Ok(AccessGrant { access_token: random("pht_")?, expires, expires_in: lifetime })
    }

    fn pair(&self) -> Result<(AccessGrant, Secret, Pair), Fault> {
        let (access, refresh_token) = (self.access_grant(self.access)?, random("phr_")?);
        let pair = Pair {
            access: hash(access.access_token.expose()),
            access_expires: access.expires,
            refresh: hash(refresh_token.expose()),
        };
        Ok((access, refresh_token, pair))
    }
}

fn login_of(record: LoginRecord, access: AccessGrant, refresh_token: Secret) -> Login {
    Login { login: record.login, tenant: record.tenant, instance: record.instance, access, refresh_token }
}

/// 256 random bits behind a prefix by which people, and searches for leaked secrets, tell them apart.
fn random(prefix: &str) -> Result<Secret, Fault> {
    Ok(Secret::new(format!("{prefix}{}", random_hex(32)?.expose())))
}

pub(crate) fn hash(presented: &str) -> TokenHash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, presented.as_bytes()).as_ref());
    TokenHash(hash)
}

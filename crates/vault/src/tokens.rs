//! Client credentials, bootstrap logins, access tokens and refresh tokens.
//!
//! All of them are opaque random strings that are stored as hashes. None can be shown again, and revocation takes
//! effect immediately.

use std::net::IpAddr;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use ledger::{
    AccessRecord, ClientRecord, EndedCredentials, HttpCredentials, LoginRecord, Owner, RefreshRequest,
    Renewal, RenewedCredentials, TokenHash, TokenPair, WhichCredentials,
};
use posthouse_time::Moment;
use posthouse_wire::{ClientId, GatewayId, InstanceId, LoginId, Secret, TenantId};

use crate::Fault;
use crate::keyring::{Keyring, OVERLAP};
use crate::seal::random_hex;

/// The client id that a stock agent with a bootstrap login sends.
pub const BOOTSTRAP_CLIENT: &str = "hermes-cli-vps";
/// Shortest lifetime of an access token. A stock agent refreshes two minutes before the token expires, so a much
/// shorter lifetime would make it refresh at every call.
pub const SHORTEST_ACCESS: Duration = Duration::from_secs(15 * 60);
/// Default lifetime of an access token.
pub(crate) const ACCESS: Duration = Duration::from_secs(3600);
/// Lifetime of a token with which the operator acts for a tenant.
const OPERATOR: Duration = Duration::from_secs(15 * 60);
/// Time for which an exchanged refresh token may be exchanged again: two processes of one agent may read the same
/// file and race.
const RACE: Duration = Duration::from_secs(60);
/// Time for which an unused refresh token stays valid after another token from the same exchange was used.
const LAPSE: Duration = Duration::from_secs(24 * 3600);

/// Owner of a client credential, according to the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOwner {
    pub client: ClientId,
    pub tenant: TenantId,
    /// `None` for a tenant's own client.
    pub instance: Option<InstanceId>,
}

/// A new access token. It cannot be shown again.
#[derive(Clone)]
pub struct AccessGrant {
    pub access_token: Secret,
    pub expires: Moment,
    pub expires_in: Duration,
}

/// The tokens of a bootstrap login. They cannot be shown again.
#[derive(Clone)]
pub struct Login {
    pub login: LoginId,
    pub tenant: TenantId,
    pub instance: InstanceId,
    pub access: AccessGrant,
    pub refresh_token: Secret,
}

/// New secrets of an agent's client and login, which cannot be shown again, and the record of them for the ledger.
pub struct HttpDraft {
    pub client_secret: Secret,
    pub access: AccessGrant,
    pub refresh_token: Secret,
    pub credentials: HttpCredentials,
}

/// Result of presenting a refresh token.
pub enum Refreshed {
    Granted(Login),
    /// Granted, but the login is now used in one more place: its file was copied.
    Forked(Login, LoginRecord),
    /// Refused for now: the login is used in the maximum number of places, or too many of its tokens are unused.
    Full(LoginRecord),
    /// The token was already exchanged, longer ago than a race explains: somebody holds an old copy. The login
    /// stays valid, because the holder of the latest token may well be its rightful agent.
    Reused(LoginId),
    /// Never issued, or its login has ended. One variant on purpose, so that callers cannot reveal which.
    Refused,
}

impl Keyring {
    /// Sets the lifetime of access tokens, at least [`SHORTEST_ACCESS`].
    pub fn granting_access_for(mut self, lifetime: Duration) -> Self {
        self.access = lifetime.max(SHORTEST_ACCESS);
        self
    }

    /// Generates secrets for an agent's client and login. Stores nothing.
    pub fn draft_http_credentials(&self) -> Result<HttpDraft, Fault> {
        let (client_secret, now) = (random("phs_")?, self.timepiece.now());
        let (access, refresh_token, login_tokens) = self.pair()?;
        let credentials = HttpCredentials {
            client_secret: hash(client_secret.expose()),
            overlap_until: now + OVERLAP,
            login: LoginId::mint(now.millis()),
            login_client: BOOTSTRAP_CLIENT.into(),
            login_tokens,
        };
        Ok(HttpDraft { client_secret, access, refresh_token, credentials })
    }

    /// Creates the owner's client, or gives it another secret; the old secret stays valid for a day. A revoked
    /// client becomes valid again, with the new secret only. Returns `None` when there is no such owner.
    pub async fn create_client(&self, owner: &Owner) -> Result<Option<(ClientId, Secret)>, Fault> {
        let (secret, now) = (random("phs_")?, self.timepiece.now());
        let made = self.tokens.create_client(owner, hash(secret.expose()), now, now + OVERLAP).await?;
        Ok(made.then(|| (owner.client(), secret)))
    }

    /// Revokes a client and its access tokens at once. Returns false when there is none.
    pub async fn revoke_client(&self, client: &ClientId) -> Result<bool, Fault> {
        Ok(self.tokens.revoke_client(client, self.timepiece.now()).await?)
    }

    /// All clients, or those of one tenant, including revoked ones.
    pub async fn clients(&self, of: Option<&TenantId>) -> Result<Vec<ClientRecord>, Fault> {
        Ok(self.tokens.clients(of).await?)
    }

    /// Returns the owner of a client credential. The lookup uses the secret's hash, so that an existing client id
    /// takes the same time as an unknown one.
    pub async fn client(&self, client: &str, secret: &str) -> Result<Option<ClientOwner>, Fault> {
        let found = self.tokens.client(&client.into(), hash(secret), self.timepiece.now()).await?;
        Ok(found.map(|ClientRecord { client, tenant, instance, .. }| ClientOwner {
            client,
            tenant,
            instance,
        }))
    }

    /// The hash under which an access token is stored.
    pub fn token_hash(access_token: &str) -> TokenHash {
        hash(access_token)
    }

    /// The owner of the access token with this hash. `None` when it is unknown, expired or revoked.
    pub async fn access_record(&self, token: TokenHash) -> Result<Option<AccessRecord>, Fault> {
        Ok(self.tokens.bearer(token, self.timepiece.now()).await?)
    }

    /// Issues an access token for a client. Returns `None` when it was revoked meanwhile.
    pub async fn grant_access(&self, client: &ClientId) -> Result<Option<AccessGrant>, Fault> {
        let grant = self.access_grant(self.access)?;
        let granted = self.tokens.grant(client, hash(grant.access_token.expose()), grant.expires).await?;
        Ok(granted.then_some(grant))
    }

    /// Issues an access token for 15 minutes with which the operator acts for a tenant, as the client
    /// `operator:{tenant}`. Returns `None` when there is no such tenant. No record of such a client exists, so the
    /// token can be neither exchanged nor revoked; it ends with the tenant.
    pub async fn operator_access(&self, tenant: &TenantId) -> Result<Option<AccessGrant>, Fault> {
        let grant = self.access_grant(OPERATOR)?;
        let access = hash(grant.access_token.expose());
        let granted = self.tokens.grant_operator(tenant, access, grant.expires).await?;
        Ok(granted.then_some(grant))
    }

    /// Creates an agent's bootstrap login and ends its earlier one at once. Returns `None` when there is no such agent.
    pub async fn log_in(&self, instance: &InstanceId) -> Result<Option<Login>, Fault> {
        let now = self.timepiece.now();
        let (access, refresh_token, pair) = self.pair()?;
        let login = LoginId::mint(now.millis());
        let made = self.tokens.log_in(&login, &BOOTSTRAP_CLIENT.into(), instance, pair, now).await?;
        Ok(made.map(|record| login_of(record, access, refresh_token)))
    }

    /// Ends a login and all its tokens at once. Returns false when there is none.
    pub async fn log_out(&self, login: &LoginId) -> Result<bool, Fault> {
        Ok(self.tokens.log_out(login).await?)
    }

    /// All bootstrap logins, or those of one tenant.
    pub async fn logins(&self, of: Option<&TenantId>) -> Result<Vec<LoginRecord>, Fault> {
        Ok(self.tokens.logins(of).await?)
    }

    /// Exchanges a refresh token for a new pair of tokens. The old one may be exchanged again for a minute, and for
    /// as long as no token from its exchange has been presented.
    pub async fn refresh(
        &self,
        presented: &str,
        client: &str,
        address: Option<IpAddr>,
    ) -> Result<Refreshed, Fault> {
        let now = self.timepiece.now();
        let (access, refresh_token, next) = self.pair()?;
        let request = RefreshRequest {
            presented: hash(presented),
            client: client.into(),
            address: address.map(|address| address.to_string()),
            next,
            now,
            honoured_since: now - RACE,
            lapse_at: now + LAPSE,
        };
        Ok(match self.tokens.refresh(request).await? {
            Renewal::Granted(record) => Refreshed::Granted(login_of(record, access, refresh_token)),
            Renewal::Forked(record) => {
                Refreshed::Forked(login_of(record.clone(), access, refresh_token), record)
            }
            Renewal::Full(record) => Refreshed::Full(record),
            Renewal::Reused(record) => Refreshed::Reused(record.login),
            Renewal::Unknown => Refreshed::Refused,
        })
    }

    /// Ends these credentials of an agent and every token that came from them, at once. Returns what was ended.
    pub async fn end_credentials(
        &self,
        of: &InstanceId,
        which: WhichCredentials,
    ) -> Result<EndedCredentials, Fault> {
        Ok(self.tokens.end_credentials(of, which, self.timepiece.now()).await?)
    }

    /// Gives an agent a new secret for this gateway, a new client secret and a new login. Returns `None` when there
    /// is no such agent, or when the gateway belongs to another agent or was revoked. The secrets are returned only
    /// here.
    pub async fn renew_credentials(
        &self,
        of: &InstanceId,
        gateway: &GatewayId,
    ) -> Result<Option<(Secret, HttpDraft)>, Fault> {
        let (secret, sealed) = self.draft_gateway_secret(gateway)?;
        let draft = self.draft_http_credentials()?;
        let renewed =
            RenewedCredentials { gateway: gateway.clone(), secret: sealed, http: draft.credentials.clone() };
        let done = self.tokens.renew_credentials(of, renewed, self.timepiece.now()).await?;
        Ok(done.then_some((secret, draft)))
    }

    fn access_grant(&self, lifetime: Duration) -> Result<AccessGrant, Fault> {
        let expires = self.timepiece.now() + lifetime;
        Ok(AccessGrant { access_token: random("pht_")?, expires, expires_in: lifetime })
    }

    fn pair(&self) -> Result<(AccessGrant, Secret, TokenPair), Fault> {
        let (access, refresh_token) = (self.access_grant(self.access)?, random("phr_")?);
        let pair = TokenPair {
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

/// 256 random bits after a prefix, by which people and scanners for leaked secrets tell the kinds apart.
pub(crate) fn random(prefix: &str) -> Result<Secret, Fault> {
    Ok(Secret::new(format!("{prefix}{}", random_hex(32)?.expose())))
}

pub(crate) fn hash(presented: &str) -> TokenHash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, presented.as_bytes()).as_ref());
    TokenHash(hash)
}

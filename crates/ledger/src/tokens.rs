//! What programs and agents present at HTTP doors, and whom it stands for. Only hashes are kept.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ClientId, InstanceId, LoginId, TenantId};

use crate::Fault;

/// The SHA-256 of a token or secret, which itself is 256 random bits: what it is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenHash(pub [u8; 32]);

/// Whose a client is; its id follows from that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    Instance(InstanceId),
    Tenant(TenantId),
}

impl Owner {
    /// `agent:{instance}` or `tenant:{tenant}`.
    pub fn client(&self) -> ClientId {
        match self {
            Owner::Instance(instance) => format!("agent:{instance}").into(),
            Owner::Tenant(tenant) => format!("tenant:{tenant}").into(),
        }
    }
}

/// The name under which the operator acts for a tenant. No such client is kept, so it has no secret to
/// exchange and cannot be revoked: its access tokens end by themselves, and with the tenant.
pub fn operator_client(tenant: &TenantId) -> ClientId {
    format!("operator:{tenant}").into()
}

/// A client credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRecord {
    pub client: ClientId,
    pub tenant: TenantId,
    /// Nothing for a tenant's own client.
    pub instance: Option<InstanceId>,
    pub created: Moment,
    pub revoked: Option<Moment>,
}

/// A login that was planted in an agent's home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginRecord {
    pub login: LoginId,
    pub client: ClientId,
    pub tenant: TenantId,
    pub instance: InstanceId,
    pub created: Moment,
    /// When it last exchanged its refresh token.
    pub refreshed: Option<Moment>,
}

/// Whom an access token stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRecord {
    pub client: ClientId,
    pub tenant: TenantId,
    pub login: Option<LoginId>,
    pub expires: Moment,
}

/// A fresh access token beside the refresh token that follows it.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    pub access: TokenHash,
    pub access_expires: Moment,
    pub refresh: TokenHash,
}

/// What became of a refresh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewal {
    Granted(LoginRecord),
    /// It was exchanged long ago; somebody holds an old copy. The login itself goes on.
    Reused(LoginRecord),
    /// Never given out to this client, or its login has ended.
    Unknown,
}

#[async_trait]
pub trait Tokens: Send + Sync {
    /// Makes the owner's client, or gives it a further secret; older ones end at `overlap_until`. One
    /// that was revoked is good again with this secret alone. False when there is no such owner.
    async fn create_client(
        &self,
        owner: &Owner,
        secret: TokenHash,
        now: Moment,
        overlap_until: Moment,
    ) -> Result<bool, Fault>;
    /// The client of that name, if this is a secret of it that is good now.
    async fn client(
        &self,
        client: &ClientId,
        secret: TokenHash,
        now: Moment,
    ) -> Result<Option<ClientRecord>, Fault>;
    /// Oldest first, revoked ones too.
    async fn clients(&self, of: Option<&TenantId>) -> Result<Vec<ClientRecord>, Fault>;
    /// Forgets its secrets and its access tokens, and marks the record; the first time counts. False
    /// when there is no such client.
    async fn revoke_client(&self, client: &ClientId, now: Moment) -> Result<bool, Fault>;
    /// Remembers an access token of a client. False when there is no such client or it was revoked.
    async fn grant(&self, client: &ClientId, access: TokenHash, expires: Moment) -> Result<bool, Fault>;

    /// Remembers an access token of the operator's for this tenant. False when there is no such tenant.
    async fn grant_operator(
        &self,
        tenant: &TenantId,
        access: TokenHash,
        expires: Moment,
    ) -> Result<bool, Fault>;

    /// Gives an instance its bootstrap login; one that it had ends. Nothing when there is no such instance.
    async fn log_in(
        &self,
        login: &LoginId,
        client: &ClientId,
        instance: &InstanceId,
        pair: Pair,
        now: Moment,
    ) -> Result<Option<LoginRecord>, Fault>;
    /// Oldest first.
    async fn logins(&self, of: Option<&TenantId>) -> Result<Vec<LoginRecord>, Fault>;
    /// Ends a login with all its tokens. False when there is none, as the second time.
    async fn log_out(&self, login: &LoginId) -> Result<bool, Fault>;
    /// Exchanges a refresh token of this client for `next`. One that was first exchanged at
    /// `honoured_since` or later is exchanged again, and so is one none of whose successors was presented
    /// yet: the answer may have been lost. `next` is another one each time.
    async fn refresh(
        &self,
        presented: TokenHash,
        client: &ClientId,
        next: Pair,
        now: Moment,
        honoured_since: Moment,
    ) -> Result<Renewal, Fault>;

    /// Whom an access token stands for, unless it has expired.
    async fn bearer(&self, access: TokenHash, now: Moment) -> Result<Option<AccessRecord>, Fault>;
}

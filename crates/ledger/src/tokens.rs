//! Client credentials, logins and access tokens for HTTP APIs, and their owners. Only hashes are stored.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ClientId, EnrollTokenId, GatewayId, InstanceId, LoginId, TenantId};

use crate::{Fault, HttpCredentials, Sealed};

/// The SHA-256 of a token or secret. A token has 256 random bits, so it can be looked up by its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenHash(pub [u8; 32]);

/// The owner of a client. The client id is derived from it.
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

/// The client id under which the operator acts for a tenant. No such client is stored, so it has no secret to
/// exchange and cannot be revoked. Its access tokens end when they expire or when the tenant is removed.
pub fn operator_client(tenant: &TenantId) -> ClientId {
    format!("operator:{tenant}").into()
}

/// A client credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRecord {
    pub client: ClientId,
    pub tenant: TenantId,
    /// None for the client of a tenant.
    pub instance: Option<InstanceId>,
    pub created: Moment,
    pub revoked: Option<Moment>,
}

/// A login that was written into an agent's home directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginRecord {
    pub login: LoginId,
    pub client: ClientId,
    pub tenant: TenantId,
    pub instance: InstanceId,
    pub created: Moment,
    /// Time of the last exchange of its refresh token.
    pub refreshed: Option<Moment>,
    /// Number of places that use it at the same time. More than one means that its file was copied.
    pub lines: u32,
    /// Address of the last refresh of each line, without duplicates.
    pub addresses: Vec<String>,
}

/// The owner of an access token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRecord {
    pub client: ClientId,
    pub tenant: TenantId,
    pub login: Option<LoginId>,
    /// The agent of the login.
    pub agent: Option<InstanceId>,
    /// Ends by wall time or ledger time, whichever comes first.
    pub expires: Moment,
}

/// A new access token and the refresh token that comes with it.
#[derive(Clone, Copy, Debug)]
pub struct TokenPair {
    pub access: TokenHash,
    pub access_expires: Moment,
    pub refresh: TokenHash,
}

/// Limit of lines (see [`LoginRecord::lines`]) of one login.
pub const REFRESH_LINES: u32 = 8;

/// A refresh token that a client presents.
#[derive(Clone, Debug)]
pub struct RefreshRequest {
    pub presented: TokenHash,
    pub client: ClientId,
    /// Address of the client.
    pub address: Option<String>,
    /// The tokens to grant.
    pub next: TokenPair,
    pub now: Moment,
    /// A token that was first exchanged at this time or later can be exchanged again, regardless of its
    /// successors, because processes that share one file race.
    pub honoured_since: Moment,
    /// Time at which siblings lapse that were never presented.
    pub lapse_at: Moment,
}

/// Selects credentials of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhichCredentials {
    All,
    Gateway(GatewayId),
    Client,
    Login,
}

/// The credentials of an agent that this call ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndedCredentials {
    pub gateways: Vec<GatewayId>,
    pub client: Option<ClientId>,
    pub login: Option<LoginId>,
    /// Unused enrolment tokens. They end only with all credentials.
    pub enroll_tokens: Vec<EnrollTokenId>,
}

impl EndedCredentials {
    pub fn is_empty(&self) -> bool {
        let Self { gateways, client, login, enroll_tokens } = self;
        gateways.is_empty() && client.is_none() && login.is_none() && enroll_tokens.is_empty()
    }
}

/// New credentials for an existing agent.
#[derive(Clone, Debug)]
pub struct RenewedCredentials {
    /// Created if there is no such gateway.
    pub gateway: GatewayId,
    pub secret: Sealed,
    pub http: HttpCredentials,
}

/// Outcome of a refresh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewal {
    Granted(LoginRecord),
    /// Granted as a new line of the login, because somebody else uses a sibling of this token.
    Forked(LoginRecord),
    /// Not granted now: the login has [`REFRESH_LINES`] lines, or too many tokens of this line are waiting
    /// unused. The token stays valid.
    Full(LoginRecord),
    /// The token was exchanged long ago, so somebody has an old copy. The login itself stays valid.
    Reused(LoginRecord),
    /// Never issued to this client, or its login has ended.
    Unknown,
}

#[async_trait]
pub trait Tokens: Send + Sync {
    /// Creates the owner's client, or gives it another secret. Older secrets end at `overlap_until`. A
    /// revoked client is valid again with only this secret. False when there is no such owner.
    async fn create_client(
        &self,
        owner: &Owner,
        secret: TokenHash,
        now: Moment,
        overlap_until: Moment,
    ) -> Result<bool, Fault>;
    /// The client of that name, if this is one of its valid secrets.
    async fn client(
        &self,
        client: &ClientId,
        secret: TokenHash,
        now: Moment,
    ) -> Result<Option<ClientRecord>, Fault>;
    /// Oldest first, including revoked ones.
    async fn clients(&self, of: Option<&TenantId>) -> Result<Vec<ClientRecord>, Fault>;
    /// Deletes its secrets and access tokens and marks the record as revoked. The first revocation time
    /// stays. False when there is no such client.
    async fn revoke_client(&self, client: &ClientId, now: Moment) -> Result<bool, Fault>;
    /// Stores an access token of a client. False when there is no such client or it is revoked.
    async fn grant(&self, client: &ClientId, access: TokenHash, expires: Moment) -> Result<bool, Fault>;

    /// Stores an access token with which the operator acts for this tenant. False when there is no such
    /// tenant.
    async fn grant_operator(
        &self,
        tenant: &TenantId,
        access: TokenHash,
        expires: Moment,
    ) -> Result<bool, Fault>;

    /// Creates the bootstrap login of an instance and ends an earlier one. None when there is no such
    /// instance.
    async fn log_in(
        &self,
        login: &LoginId,
        client: &ClientId,
        instance: &InstanceId,
        pair: TokenPair,
        now: Moment,
    ) -> Result<Option<LoginRecord>, Fault>;
    /// Oldest first.
    async fn logins(&self, of: Option<&TenantId>) -> Result<Vec<LoginRecord>, Fault>;
    /// Ends a login with all its tokens. False when there is none, for example when repeated.
    async fn log_out(&self, login: &LoginId) -> Result<bool, Fault>;
    /// Exchanges a refresh token for `next`, which is new each time. A token can be exchanged again as long
    /// as none of its successors was presented, because the response may have been lost. Once a successor is
    /// presented, a sibling of it that is presented too starts a line of its own, and one that is not lapses
    /// at `lapse_at`. After that it counts as reused.
    async fn refresh(&self, request: RefreshRequest) -> Result<Renewal, Fault>;

    /// Ends these credentials of an agent and every token that they were exchanged for, in one commit.
    /// Returns what was ended.
    async fn end_credentials(
        &self,
        of: &InstanceId,
        which: WhichCredentials,
        now: Moment,
    ) -> Result<EndedCredentials, Fault>;
    /// Gives an agent a new gateway secret, client secret and login, in one commit. Older secrets that were
    /// not ended stay valid until `overlap_until`; an older login ends. False, and nothing changes, when
    /// there is no such agent, or the gateway belongs to another agent or is revoked.
    async fn renew_credentials(
        &self,
        of: &InstanceId,
        renewed: RenewedCredentials,
        now: Moment,
    ) -> Result<bool, Fault>;

    /// The owner of an access token, unless it has expired.
    async fn bearer(&self, access: TokenHash, now: Moment) -> Result<Option<AccessRecord>, Fault>;
}

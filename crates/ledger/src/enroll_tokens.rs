//! Enrolment tokens: single-use tokens with which a gateway gets its credential, and the names that gateways propose.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{EnrollTokenId, GatewayId, InstanceId, TenantId};

use crate::{BotRef, ChangedPlace, Fault, Sealed, TokenHash};

/// An enrolment token as it is stored. The token itself is known only to whoever got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnrollToken {
    pub id: EnrollTokenId,
    pub tenant: TenantId,
    /// The agent whose credential it gives out.
    pub instance: InstanceId,
    pub created: Moment,
    /// It ends by wall time or ledger time, whichever comes first.
    pub expires: Moment,
    pub used: Option<Moment>,
    /// The credential that it gave out.
    pub gateway: Option<GatewayId>,
    pub revoked: Option<Moment>,
    /// What the gateway gets with its credential.
    pub setup: EnrollSetup,
}

/// Settings that a gateway gets when it enrols. An empty one leaves what is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnrollSetup {
    pub wake_url: Option<String>,
    /// The bots that it may speak for.
    pub bots: Vec<BotRef>,
    /// Chats and scopes that it claims on shared bots.
    pub route_keys: Vec<String>,
}

/// A caller that redeems a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redeemer {
    pub token: TokenHash,
    pub tenant: TenantId,
    /// The agent that the caller is, if it is one. It can only enrol itself.
    pub agent: Option<InstanceId>,
    /// The name that the gateway proposes for itself.
    pub name: String,
}

/// The agent and the credential that redeeming a token would concern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redeemable {
    pub instance: InstanceId,
    /// The credential that already has the proposed name. It gets a new secret.
    pub gateway: Option<GatewayId>,
    pub setup: EnrollSetup,
}

/// The credential to give out for a token.
#[derive(Clone, Debug)]
pub struct CredentialToEnroll {
    pub gateway: GatewayId,
    pub secret: Sealed,
    /// End of the earlier secret, if the credential exists already.
    pub overlap_until: Moment,
    /// The shared bots on which it claims the route keys of its token.
    pub claims_on: Vec<BotRef>,
}

/// Result of redeeming a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnrollResult {
    /// With the places that got another owner by its claims.
    Enrolled(Vec<ChangedPlace>),
    /// Unknown, expired, used, revoked, or for somebody else. One variant on purpose: telling these apart would reveal
    /// what exists.
    Refused,
    /// Another gateway took the proposed name meanwhile. Nothing was stored.
    NameChanged,
}

#[async_trait]
pub trait EnrollTokens: Send + Sync {
    /// Stores a token by its hash. False when there is no such agent of this tenant.
    async fn create_enroll_token(&self, token: EnrollToken, hash: TokenHash) -> Result<bool, Fault>;
    /// The tokens of one tenant or of all, oldest first, including used and revoked ones. Ended ones are deleted after
    /// 30 days.
    async fn enroll_tokens(&self, of: Option<&TenantId>) -> Result<Vec<EnrollToken>, Fault>;
    /// Revokes an unused token. False when there is none. Repeating it is harmless.
    async fn revoke_enroll_token(&self, id: &EnrollTokenId) -> Result<bool, Fault>;
    /// The agent and credential that a token would be redeemed for. `None` when it would be refused. Nothing is used
    /// up.
    async fn redeemable(&self, by: Redeemer) -> Result<Option<Redeemable>, Fault>;
    /// Uses up the token, stores the credential with the token's settings and gives it the proposed name, in one
    /// transaction.
    async fn redeem_enroll_token(
        &self,
        by: Redeemer,
        credential: CredentialToEnroll,
    ) -> Result<EnrollResult, Fault>;
}

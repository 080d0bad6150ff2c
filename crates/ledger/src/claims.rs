//! Claims: chats and scopes of shared bots that agents ask for.
//!
//! A claim is live once it is proven: the operator granted it, or an author who is linked to the agent was seen there.
//! A live claim is a route. The first owner of a place keeps it. A claim that is not live delivers nothing and blocks
//! nobody.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{GatewayId, InstanceId, Platform};

use crate::{BotRef, ChangedPlace, Created, Discriminator, Fault};

/// Claims of one agent, live or not. Further ones are left out.
pub const CLAIMS_OF_AN_AGENT: u32 = 256;

/// A claim of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeClaim {
    pub on: BotRef,
    /// `chat`, `scope` or `path`; or `key` while it is not known which.
    pub kind: String,
    pub value: String,
    pub instance: InstanceId,
    /// The credential that declared it, if one did.
    pub gateway: Option<GatewayId>,
    pub live: bool,
    pub created: Moment,
}

/// Which claims to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimFilter {
    pub on: Option<BotRef>,
    pub instance: Option<InstanceId>,
}

/// A place in the list of claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimPosition {
    pub on: BotRef,
    pub kind: String,
    pub value: String,
    pub instance: InstanceId,
}

/// Result of replacing the claims of a credential.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplacedClaims {
    /// The keys that are live for the agent, in the order in which they were declared.
    pub live: Vec<String>,
    /// The places that it got or lost.
    pub changed: Vec<ChangedPlace>,
}

#[async_trait]
pub trait ScopeClaims: Send + Sync {
    /// Claims a chat or a scope of a shared bot that the agent uses. `None`, and nothing is stored, when the place is
    /// unknown, belongs to another agent, or no linked author was seen there. Repeating it is harmless.
    async fn claim(
        &self,
        of: &InstanceId,
        on: &BotRef,
        value: &str,
        chats_only: bool,
    ) -> Result<Option<ChangedPlace>, Fault>;
    /// Gives up the claims of an agent with this value, on all bots of a platform. Repeating it is harmless.
    async fn release_claim(
        &self,
        of: &InstanceId,
        platform: &Platform,
        value: &str,
    ) -> Result<Vec<ChangedPlace>, Fault>;
    /// Replaces all claims that a credential of an agent declared on the bots of this platform. Those that are not
    /// proven are stored and become live when they are. Keys that are too long, or too many, are left out.
    async fn replace_of_gateway(
        &self,
        of: &InstanceId,
        gateway: &GatewayId,
        on: &BotRef,
        keys: &[String],
    ) -> Result<ReplacedClaims, Fault>;
    /// Makes a place belong to an agent by the operator's word. [`Created::Taken`] when it belongs to another agent.
    async fn grant_claim(
        &self,
        of: &InstanceId,
        on: &BotRef,
        place: &Discriminator,
    ) -> Result<Created, Fault>;
    /// Claims by bot, kind, value and agent, live or not: at most `at_most`, after this position.
    async fn claims(
        &self,
        filter: ClaimFilter,
        after: Option<ClaimPosition>,
        at_most: u32,
    ) -> Result<Vec<ScopeClaim>, Fault>;
}

//! Gateways that provision themselves: the agent, the credential and the bot that one gets.

use std::time::Duration;

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{GatewayId, InstanceId, Platform, TenantId};

use crate::{BotRef, Fault, Instance, Sealed};

/// Agents of a tenant up to which gateways may create further ones.
pub const AGENTS_BY_PROVISIONING: u32 = 1_000;
/// Valid gateways of an agent up to which further ones may provision themselves.
pub const GATEWAYS_BY_PROVISIONING: u32 = 1_000;

/// What a gateway asks for. The tenant is the caller's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvisionRequest {
    pub tenant: TenantId,
    /// The name that the gateway proposes for itself, or the id that it got before.
    pub name: String,
    pub agent: WantedAgent,
    pub bot: WantedBot,
    /// A secret that is younger than this is kept, in ledger time.
    pub reuse: Duration,
}

/// The agent that a gateway is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedAgent {
    /// It must exist in the tenant.
    ById(InstanceId),
    /// It is created if there is none with this name.
    Named(String),
    /// One agent for each name of a gateway. A new one gets this name, with a number if it is taken.
    OfGateway(String),
}

/// The bot that a gateway wants to speak for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedBot {
    /// None, or one that every agent has.
    None,
    Named(BotRef),
    /// The only bot of a platform that the agent has or could have.
    Only(Platform),
}

/// What a request would be answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvisionPlan {
    /// `None`: the agent is to be created.
    pub instance: Option<InstanceId>,
    /// The gateway that has the proposed name. `None`: it is to be created.
    pub gateway: Option<GatewayId>,
    /// Its current secret, if that is kept.
    pub kept: Option<Sealed>,
    pub bot: Option<BotRef>,
}

/// What to store for a request.
#[derive(Clone, Debug)]
pub struct ProvisionDraft {
    pub gateway: GatewayId,
    pub secret: DraftedSecret,
    /// End of the earlier secret, if the gateway exists already.
    pub overlap_until: Moment,
    /// The agent to create, if there is none. Its name is chosen when it is stored.
    pub new_agent: Instance,
    /// The server's own platforms on which a new agent gets a bot.
    pub built_in: Vec<Platform>,
    /// `None` leaves what is stored.
    pub wake_url: Option<String>,
    /// `None` leaves what is stored.
    pub display_name: Option<String>,
}

/// The secret of a gateway that provisions itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DraftedSecret {
    /// The stored one, which was read before.
    Kept(Sealed),
    New(Sealed),
}

/// Result of provisioning a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProvisionResult {
    Stored {
        instance: InstanceId,
        is_new_agent: bool,
        bot: Option<BotRef>,
    },
    /// The agent, the bot or the gateway is not there for this tenant, or the tenant has too many of them. One variant
    /// on purpose: telling these apart would reveal what exists.
    Refused,
    /// Something changed since the plan was made. Nothing was stored.
    Changed,
}

#[async_trait]
pub trait Provisioning: Send + Sync {
    /// What a request would be answered with. `None` when it would be refused. Nothing is stored.
    async fn provision_plan(&self, request: ProvisionRequest) -> Result<Option<ProvisionPlan>, Fault>;
    /// Whether gateways may create agents of this tenant. False when there is no such tenant.
    async fn may_create_agents(&self, tenant: &TenantId) -> Result<bool, Fault>;
    /// Allows or forbids it. Agents that exist are not concerned.
    async fn set_may_create_agents(&self, tenant: &TenantId, may: bool) -> Result<(), Fault>;
    /// Stores the agent, the gateway with its secret and name, and the use of the bot, in one transaction. Repeating it
    /// is harmless.
    async fn provision(
        &self,
        request: ProvisionRequest,
        draft: ProvisionDraft,
    ) -> Result<ProvisionResult, Fault>;
}

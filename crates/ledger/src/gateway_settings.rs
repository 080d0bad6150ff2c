//! Settings of one gateway credential: its wake URL, and the bots that it may speak for.

use async_trait::async_trait;
use posthouse_wire::{GatewayId, InstanceId};

use crate::{BotRef, Fault};

/// Bots that one gateway can be limited to.
pub const BOTS_OF_A_GATEWAY: usize = 64;

/// The settings of a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewaySetup {
    pub gateway: GatewayId,
    /// The names that it proposed for itself.
    pub names: Vec<String>,
    pub wake_url: Option<String>,
    /// The bots that it may speak for. Empty: every bot of its agent.
    pub bots: Vec<BotRef>,
}

#[async_trait]
pub trait GatewaySettings: Send + Sync {
    /// The settings of an agent's gateways that are not revoked, oldest first.
    async fn gateway_setups(&self, of: &InstanceId) -> Result<Vec<GatewaySetup>, Fault>;
    /// Sets or removes the wake URL of a gateway. False when the agent has no such gateway, or it is revoked.
    async fn set_gateway_wake_url(
        &self,
        of: &InstanceId,
        gateway: &GatewayId,
        url: Option<&str>,
    ) -> Result<bool, Fault>;
    /// Limits a gateway to these bots. An empty list ends the limit. False as above.
    async fn set_gateway_bots(
        &self,
        of: &InstanceId,
        gateway: &GatewayId,
        bots: Vec<BotRef>,
    ) -> Result<bool, Fault>;
    /// The bots that a gateway is limited to. Empty: it is not limited.
    async fn gateway_bots(&self, gateway: &GatewayId) -> Result<Vec<BotRef>, Fault>;
    /// How an agent calls itself.
    async fn display_name(&self, of: &InstanceId) -> Result<Option<String>, Fault>;
}

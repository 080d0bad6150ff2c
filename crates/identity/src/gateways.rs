//! Settings of one gateway credential: its wake URL, and the bots that it may speak for.

use std::sync::Arc;

use ledger::{BotRef, GatewaySettings, GatewaySetup};
use posthouse_wire::{GatewayId, InstanceId};

use crate::{Fault, RosterView};

/// New settings of a gateway. `None` leaves a setting as it is.
#[derive(Clone, Debug, Default)]
pub struct GatewayChange {
    /// `Some(None)` removes the URL, so that the agent's is called. It must have been checked.
    pub wake_url: Option<Option<String>>,
    /// The bots that it may speak for from its next connection on. An empty list means every bot of its agent.
    pub bots: Option<Vec<BotRef>>,
}

/// Reads and changes the settings of gateways.
#[derive(Clone)]
pub struct Gateways {
    pub(crate) records: Arc<dyn GatewaySettings>,
    pub(crate) roster: RosterView,
}

impl Gateways {
    /// The settings of an agent's gateways that are not revoked, oldest first.
    pub async fn of(&self, agent: &InstanceId) -> Result<Vec<GatewaySetup>, Fault> {
        Ok(self.records.gateway_setups(agent).await?)
    }

    /// Changes the settings of a gateway. False when the agent has no such gateway.
    pub async fn change(
        &self,
        of: &InstanceId,
        gateway: &GatewayId,
        change: GatewayChange,
    ) -> Result<bool, Fault> {
        let mut found = true;
        if let Some(bots) = change.bots {
            found = self.records.set_gateway_bots(of, gateway, bots).await?;
        }
        if let Some(url) = change.wake_url {
            found = self.records.set_gateway_wake_url(of, gateway, url.as_deref()).await?;
        }
        self.roster.agent_changed(of);
        Ok(found)
    }

    /// Leaves of these bots only those that a gateway may speak for.
    pub async fn narrow(&self, gateway: &GatewayId, bots: &mut Vec<BotRef>) -> Result<(), Fault> {
        let allowed = self.records.gateway_bots(gateway).await?;
        if !allowed.is_empty() {
            bots.retain(|bot| allowed.contains(bot));
        }
        Ok(())
    }

    /// How an agent calls itself. Only shown.
    pub async fn display_name(&self, of: &InstanceId) -> Result<Option<String>, Fault> {
        Ok(self.records.display_name(of).await?)
    }
}

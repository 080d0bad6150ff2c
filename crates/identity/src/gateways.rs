//! Settings of one gateway credential: its wake URL, the bots that it may speak for, and its route keys.

use std::sync::Arc;

use ledger::{
    BotRef, CLAIMS_OF_AN_AGENT, ChangedPlace, ClaimFilter, GatewaySettings, GatewaySetup, ScopeClaim,
};
use posthouse_wire::{GatewayId, InstanceId};

use crate::{Fault, PlaceClaims, RosterView};

/// New settings of a gateway. `None` leaves a setting as it is.
#[derive(Clone, Debug, Default)]
pub struct GatewayChange {
    /// `Some(None)` removes the URL, so that the agent's is called. It must have been checked.
    pub wake_url: Option<Option<String>>,
    /// The bots that it may speak for from its next connection on. An empty list means every bot of its agent.
    pub bots: Option<Vec<BotRef>>,
    /// Chats and scopes that it claims for its agent on shared bots, as if it had provisioned itself with them.
    pub route_keys: Option<Vec<String>>,
}

/// Result of changing the settings of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayChanged {
    Done,
    /// The agent has no such gateway, or it is revoked.
    NoGateway,
    /// The gateway speaks for no shared bot, or for several of one platform, so nobody knows what the keys are for.
    UnclearBot,
}

/// Reads and changes the settings of gateways.
#[derive(Clone)]
pub struct Gateways {
    pub(crate) records: Arc<dyn GatewaySettings>,
    pub(crate) roster: RosterView,
    pub(crate) claims: PlaceClaims,
}

impl Gateways {
    /// The settings of an agent's gateways that are not revoked, oldest first.
    pub async fn of(&self, agent: &InstanceId) -> Result<Vec<GatewaySetup>, Fault> {
        Ok(self.records.gateway_setups(agent).await?)
    }

    /// What the gateways of an agent claim, live or not.
    pub async fn claims_of(&self, agent: &InstanceId) -> Result<Vec<ScopeClaim>, Fault> {
        let filter = ClaimFilter { on: None, instance: Some(agent.clone()) };
        let mut claims = self.claims.list(filter, None, CLAIMS_OF_AN_AGENT).await?;
        claims.retain(|claim| claim.gateway.is_some());
        Ok(claims)
    }

    /// Changes the settings of a gateway. Whatever is changed before a refusal stays.
    pub async fn change(
        &self,
        of: &InstanceId,
        gateway: &GatewayId,
        change: GatewayChange,
    ) -> Result<GatewayChanged, Fault> {
        let setups = self.records.gateway_setups(of).await?;
        if !setups.iter().any(|setup| setup.gateway == *gateway) {
            return Ok(GatewayChanged::NoGateway);
        }
        if let Some(bots) = change.bots {
            self.records.set_gateway_bots(of, gateway, bots).await?;
        }
        if let Some(url) = change.wake_url {
            self.records.set_gateway_wake_url(of, gateway, url.as_deref()).await?;
        }
        let changed = match change.route_keys {
            Some(keys) => self.claim(of, gateway, &keys).await?,
            None => GatewayChanged::Done,
        };
        self.roster.agent_changed(of);
        Ok(changed)
    }

    /// Replaces what a gateway claims, on the shared bots that it speaks for.
    async fn claim(
        &self,
        of: &InstanceId,
        gateway: &GatewayId,
        keys: &[String],
    ) -> Result<GatewayChanged, Fault> {
        let limit = self.records.gateway_bots(gateway).await?;
        let Some(shared) = self.bots_for_keys(of, &limit, keys).await? else {
            return Ok(GatewayChanged::UnclearBot);
        };
        for on in &shared {
            self.claims.replace_of_gateway(of, gateway, on, keys).await?;
        }
        Ok(GatewayChanged::Done)
    }

    /// The shared bots on which a gateway of an agent claims route keys, if it is limited to these bots. `None` when
    /// nobody knows what the keys are for.
    pub async fn bots_for_keys(
        &self,
        of: &InstanceId,
        limit: &[BotRef],
        keys: &[String],
    ) -> Result<Option<Vec<BotRef>>, Fault> {
        let mut shared: Vec<BotRef> = Vec::new();
        for on in self.roster.records().bots_used_by(of).await? {
            let bot = self.roster.records().bot(&on.platform, &on.bot).await?;
            if bot.is_some_and(|bot| bot.shared) && (limit.is_empty() || limit.contains(&on)) {
                shared.push(on);
            }
        }
        let several = |on: &BotRef| shared.iter().filter(|other| other.platform == on.platform).count() > 1;
        let is_unclear = shared.is_empty() && !keys.is_empty() || shared.iter().any(several);
        Ok((!is_unclear).then_some(shared))
    }

    /// Announces what a gateway got when it enrolled.
    pub(crate) fn announce_enrolled(&self, of: &InstanceId, changed: &[ChangedPlace]) {
        self.claims.announce(changed);
        self.roster.agent_changed(of);
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

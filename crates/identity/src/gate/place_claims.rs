//! Claims of agents on chats and scopes of shared bots, and the tenants that may use a bot.

use std::sync::Arc;

use ledger::{
    AdmittedTenant, BotRef, ChangedPlace, ClaimFilter, ClaimPosition, Created, Deprovisioned, Discriminator,
    ReplacedClaims, ScopeClaim, ScopeClaims, SharedBots, UseBotResult,
};
use posthouse_wire::{GatewayId, InstanceId, Platform};

use super::authors::AuthorLinks;
use crate::Fault;

/// Changes what agents have on shared bots, and announces it. What takes something away is to be called through the
/// relay, so that waiting entries are not handed over any more.
#[derive(Clone)]
pub struct PlaceClaims {
    records: Arc<dyn ScopeClaims>,
    bots: Arc<dyn SharedBots>,
    links: AuthorLinks,
}

impl PlaceClaims {
    pub(super) fn new(records: Arc<dyn ScopeClaims>, bots: Arc<dyn SharedBots>, links: AuthorLinks) -> Self {
        Self { records, bots, links }
    }

    /// The stored settings of shared bots. Announce a change with the methods of [`RosterView`](crate::RosterView).
    pub fn shared_bots(&self) -> &Arc<dyn SharedBots> {
        &self.bots
    }

    /// Claims a place on these bots. False when it is not claimable on any of them.
    pub async fn claim(
        &self,
        of: &InstanceId,
        on: &[BotRef],
        value: &str,
        chats_only: bool,
    ) -> Result<bool, Fault> {
        let mut changed = Vec::new();
        for on in on {
            changed.extend(self.records.claim(of, on, value, chats_only).await?);
        }
        self.links.announce(&changed);
        Ok(!changed.is_empty())
    }

    pub async fn release(&self, of: &InstanceId, platform: &Platform, value: &str) -> Result<bool, Fault> {
        let changed = self.records.release_claim(of, platform, value).await?;
        self.links.announce(&changed);
        Ok(!changed.is_empty())
    }

    /// Replaces the claims of one credential on the bots of a platform.
    pub async fn replace_of_gateway(
        &self,
        of: &InstanceId,
        gateway: &GatewayId,
        on: &BotRef,
        keys: &[String],
    ) -> Result<ReplacedClaims, Fault> {
        let replaced = self.records.replace_of_gateway(of, gateway, on, keys).await?;
        self.links.announce(&replaced.changed);
        Ok(replaced)
    }

    /// Announces places that got another owner.
    pub(crate) fn announce(&self, changed: &[ChangedPlace]) {
        self.links.announce(changed);
    }

    /// Makes a place belong to an agent, by the operator's word.
    pub async fn grant(&self, of: &InstanceId, on: &BotRef, place: &Discriminator) -> Result<Created, Fault> {
        let granted = self.records.grant_claim(of, on, place).await?;
        if granted == Created::Made {
            let (on, place, instance) = (on.clone(), place.clone(), of.clone());
            self.links.announce(&[ChangedPlace { on, place, instance }]);
            self.links.roster().agent_changed(of);
        }
        Ok(granted)
    }

    pub async fn list(
        &self,
        filter: ClaimFilter,
        after: Option<ClaimPosition>,
        at_most: u32,
    ) -> Result<Vec<ScopeClaim>, Fault> {
        Ok(self.records.claims(filter, after, at_most).await?)
    }

    /// Lets an agent use a shared bot to which its tenant is admitted.
    pub async fn use_bot(&self, of: &InstanceId, on: &BotRef) -> Result<UseBotResult, Fault> {
        let fronted = self.bots.use_bot(of, on).await?;
        if fronted == UseBotResult::Uses {
            self.links.roster().agent_changed(of);
            self.links.roster().commands_changed(on);
        }
        Ok(fronted)
    }

    /// Lets the agents of a tenant use a shared bot. False when there is no such shared bot or tenant.
    pub async fn admit_tenant(&self, on: &BotRef, tenant: &AdmittedTenant) -> Result<bool, Fault> {
        Ok(self.bots.admit_tenant(on, tenant).await?)
    }

    /// Takes a shared bot from the agents of a tenant. Returns those agents.
    pub async fn withdraw_tenant(
        &self,
        on: &BotRef,
        tenant: &AdmittedTenant,
    ) -> Result<Vec<InstanceId>, Fault> {
        let (agents, places) = self.bots.withdraw_tenant(on, tenant).await?;
        self.links.announce(&places);
        agents.iter().for_each(|agent| self.links.roster().agent_changed(agent));
        self.links.roster().commands_changed(on);
        Ok(agents)
    }

    /// Ends what an agent has on shared bots, with its credentials, its files and its inbox.
    pub(crate) async fn deprovision(&self, of: &InstanceId) -> Result<Deprovisioned, Fault> {
        let used = self.links.roster().records().bots_used_by(of).await?;
        let ended = self.bots.deprovision(of).await?;
        for (platform, user) in &ended.authors {
            self.links.roster().author_changed(platform, user);
        }
        self.links.announce(&ended.places);
        self.links.roster().agent_changed(of);
        used.iter().for_each(|on| self.links.roster().commands_changed(on));
        Ok(ended)
    }
}

//! Records about a connecting gateway: whether its credential is still valid, its settings, and its bots.

use std::sync::Arc;

use identity::{Accounts, GatewayOwner, Gateways};
use ledger::{BotRef, Generation, HoldBack, InteractionMode, Roster};
use posthouse_wire::frame::CommandManifest;

use crate::Fault;

/// Reads what the server knows about a gateway, and stores what the gateway announces.
pub(crate) struct GatewayRecords {
    accounts: Accounts,
    gateways: Gateways,
    roster: Arc<dyn Roster>,
}

/// Settings that the operator made for a gateway and its agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionSettings {
    /// The agent was recorded as idle.
    pub is_idle: bool,
    /// The version that is pinned for the credential.
    pub pinned: Generation,
    pub hold_back: HoldBack,
    pub interactions: InteractionMode,
}

impl GatewayRecords {
    pub fn new(accounts: Accounts, gateways: Gateways, roster: Arc<dyn Roster>) -> Self {
        Self { accounts, gateways, roster }
    }

    /// The settings for a connection. `None` when the agent was deleted or the credential was revoked.
    pub async fn settings(&self, of: &GatewayOwner) -> Result<Option<ConnectionSettings>, Fault> {
        let held = self.accounts.gateways(&of.instance).await?;
        let ours = held.iter().find(|(gateway, ..)| *gateway == of.gateway);
        if ours.is_none_or(|(_, _, revoked)| revoked.is_some()) {
            return Ok(None);
        }
        let Some(instance) = self.roster.instance(&of.instance).await? else { return Ok(None) };
        Ok(Some(ConnectionSettings {
            is_idle: instance.idle,
            pinned: self.roster.pinned_generation(&of.instance, &of.gateway).await?,
            hold_back: self.roster.hold_back(&of.instance).await?,
            interactions: self.roster.interaction_mode(&of.instance).await?,
        }))
    }

    /// The bots of the agent that this gateway may speak for.
    pub async fn bots(&self, of: &GatewayOwner) -> Result<Vec<BotRef>, Fault> {
        let mut bots = self.roster.bots_used_by(&of.instance).await?;
        self.gateways.narrow(&of.gateway, &mut bots).await?;
        Ok(bots)
    }

    /// Stores the commands that a gateway announced for a bot.
    pub async fn keep_manifest(
        &self,
        of: &GatewayOwner,
        on: &BotRef,
        manifest: &CommandManifest,
    ) -> Result<(), Fault> {
        let written = serde_json::to_string(manifest).expect("a manifest has only texts as keys");
        self.accounts.keep_commands(&of.instance, on, &written).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ledger::WhichCredentials;

    use super::*;
    use crate::tests::{Records, bot_of};

    #[tokio::test]
    async fn a_revoked_credential_has_no_settings_and_keeps_nothing_from_the_agents_other_one() {
        let records = Records::open().await;
        let (accounts, heron) = (&records.identity.accounts, records.enrol("heron").await);
        let gateway_records =
            GatewayRecords::new(accounts.clone(), records.identity.gateways.clone(), records.ledger.roster());
        let second = GatewayOwner { gateway: "gw-second".into(), ..heron.clone() };
        assert_eq!(gateway_records.settings(&second).await.unwrap(), None);
        accounts.rotate(&second.gateway, &second.instance).await.unwrap();
        let which = WhichCredentials::Gateway(heron.gateway.clone());
        accounts.revoke(&heron.instance, which).await.unwrap();
        assert_eq!(gateway_records.settings(&heron).await.unwrap(), None);
        assert!(gateway_records.settings(&second).await.unwrap().is_some_and(|settings| !settings.is_idle));
        assert_eq!(gateway_records.bots(&second).await.unwrap(), [bot_of("heron")]);
    }
}

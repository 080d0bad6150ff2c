//! Egress of actions: picks the platform and the bot, and sends with that bot's credentials only.

use async_trait::async_trait;
use ledger::BotRef;
use posthouse_wire::{Descriptor, Outcome};
use relay::{Carried, Order};

use crate::Edge;

/// Result of every action of a dead bot.
const CREDENTIAL_REFUSED: &str = "unauthorized: this bot's credential is not accepted";

#[async_trait]
impl relay::Egress for Edge {
    async fn descriptor(&self, of: &BotRef) -> Option<Descriptor> {
        let platform = self.platform(of.platform.as_str())?;
        match self.0.bots.find(of).await {
            Ok(bot) => bot.map(|bot| platform.descriptor(&bot)),
            Err(fault) => {
                tracing::error!(%fault, "could not open a bot");
                None
            }
        }
    }

    fn is_built_in(&self, identity: &BotRef) -> bool {
        identity.platform == crate::web::NAME
    }

    async fn carry(&self, order: Order) -> Carried {
        let Some(platform) = self.platform(order.on.platform.as_str()) else {
            return Outcome::egress_declined(order.on.platform.as_str()).into();
        };
        if self.0.health.is_dead(&order.on) {
            // At once and without a call: the platform would refuse it.
            return Outcome::failed(CREDENTIAL_REFUSED).into();
        }
        match self.0.bots.find(&order.on).await {
            // People see an unfinished text as it grows, without the cursor that marks it as unfinished.
            Ok(Some(bot)) => platform.carry(&bot, order.without_cursor()).await,
            Ok(None) => Outcome::egress_declined(order.on.platform.as_str()).into(),
            Err(fault) => {
                tracing::error!(%fault, "could not open a bot");
                Outcome::failed("the server could not open this bot and did nothing").into()
            }
        }
    }
}

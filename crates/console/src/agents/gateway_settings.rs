//! Admin API: settings of one gateway credential of an agent.

use identity::GatewayChange;
use ledger::{BOTS_OF_A_GATEWAY, GatewaySetup, Instance};
use posthouse_wire::GatewayId;
use serde::Serialize;

use super::{AgentChange, ShownIdentity, identity};
use crate::problem::AdminProblem;
use crate::routes::Parts;

/// A gateway with its settings.
#[derive(Serialize)]
pub(crate) struct ShownGateway {
    gateway_id: GatewayId,
    /// The names that it proposed for itself.
    names: Vec<String>,
    wake_url: Option<String>,
    /// The bots that it may speak for. Empty: every bot of the agent.
    bots: Vec<ShownIdentity>,
}

impl From<GatewaySetup> for ShownGateway {
    fn from(setup: GatewaySetup) -> Self {
        let bots = setup.bots.into_iter().map(ShownIdentity::from).collect();
        Self { gateway_id: setup.gateway, names: setup.names, wake_url: setup.wake_url, bots }
    }
}

impl AgentChange {
    /// Takes the settings that are for one gateway, if the change names one. The others remain.
    pub(super) fn take_for_gateway(&mut self) -> Result<Option<(GatewayId, GatewayChange)>, AdminProblem> {
        let bots = match self.gateway_bots.take() {
            Some(bots) => Some(bots.iter().map(|bot| identity(bot)).collect::<Result<Vec<_>, _>>()?),
            None => None,
        };
        let Some(gateway) = self.gateway_id.clone() else {
            return match bots {
                Some(_) => Err(unfit("gateway_bots needs gateway_id")),
                None => Ok(None),
            };
        };
        if bots.as_ref().is_some_and(|bots| bots.len() > BOTS_OF_A_GATEWAY) {
            return Err(unfit("a gateway can be limited to at most 64 bots"));
        }
        let change = GatewayChange { wake_url: self.wake_url.take(), bots };
        if change.wake_url.is_none() && change.bots.is_none() && self.generation.is_none() {
            return Err(unfit("gateway_id needs generation, wake_url or gateway_bots"));
        }
        Ok(Some((gateway, change)))
    }
}

const _: () = assert!(BOTS_OF_A_GATEWAY == 64, "the text names the number");

fn unfit(detail: &str) -> AdminProblem {
    AdminProblem::unfit("bad_gateway", detail.to_owned())
}

impl Parts {
    /// Changes the settings of one gateway of an agent.
    pub(super) async fn change_gateway(
        &self,
        of: &Instance,
        gateway: &GatewayId,
        change: GatewayChange,
    ) -> Result<(), AdminProblem> {
        if change.wake_url.is_none() && change.bots.is_none() {
            return Ok(());
        }
        match self.identity.gateways.change(&of.id, gateway, change).await? {
            true => Ok(()),
            false => Err(no_such_gateway(of)),
        }
    }
}

pub(super) fn no_such_gateway(of: &Instance) -> AdminProblem {
    let detail = format!("agent `{}` has no such gateway credential", of.name);
    AdminProblem::absent("no_such_gateway", detail)
}

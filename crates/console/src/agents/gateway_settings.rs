//! Admin API: settings of one gateway credential of an agent.

use identity::{GatewayChange, GatewayChanged};
use ledger::{BOTS_OF_A_GATEWAY, BotRef, EnrollSetup, GatewaySetup, Instance, ScopeClaim};
use posthouse_wire::{BotId, GatewayId, InstanceId, Platform};
use serde::Serialize;

use super::{AgentChange, ShownIdentity, parse_bot_ref};
use crate::problem::AdminProblem;
use crate::routes::Parts;

/// Most route keys of a gateway, and the longest in bytes.
const KEYS: usize = 256;
const LONGEST_KEY: usize = 256;

const UNCLEAR_BOT: &str = "it is not clear which bot the route keys are for: name one shared bot per platform with \
    gateway_bots (--bot)";

/// A gateway with its settings.
#[derive(Serialize)]
pub(crate) struct ShownGateway {
    gateway_id: GatewayId,
    /// The names that it proposed for itself.
    names: Vec<String>,
    wake_url: Option<String>,
    /// The bots that it may speak for. Empty: every bot of the agent.
    bots: Vec<ShownIdentity>,
    /// What it claims on shared bots.
    route_keys: Vec<ShownRouteKey>,
}

impl From<BotRef> for ShownIdentity {
    fn from(BotRef { platform, bot }: BotRef) -> Self {
        Self { platform, id: bot }
    }
}

#[derive(Serialize)]
struct ShownRouteKey {
    platform: Platform,
    bot: BotId,
    key: String,
    live: bool,
}

impl ShownGateway {
    fn new(setup: GatewaySetup, claims: &[ScopeClaim]) -> Self {
        let bots = setup.bots.into_iter().map(ShownIdentity::from).collect();
        let own = claims.iter().filter(|claim| claim.gateway.as_ref() == Some(&setup.gateway));
        let route_keys = own.map(|claim| ShownRouteKey {
            platform: claim.on.platform.clone(),
            bot: claim.on.bot.clone(),
            key: claim.value.clone(),
            live: claim.live,
        });
        Self {
            route_keys: route_keys.collect(),
            gateway_id: setup.gateway,
            names: setup.names,
            wake_url: setup.wake_url,
            bots,
        }
    }
}

impl AgentChange {
    /// Takes the settings that are for one gateway, if the change names one. The others remain.
    pub(super) fn take_for_gateway(&mut self) -> Result<Option<(GatewayId, GatewayChange)>, AdminProblem> {
        let bots = self.gateway_bots.take().map(|bots| gateway_bots(&bots)).transpose()?;
        let Some(gateway) = self.gateway_id.clone() else {
            return match bots.is_some() || self.route_keys.is_some() {
                true => Err(unfit("gateway_bots and route_keys need gateway_id")),
                false => Ok(None),
            };
        };
        let route_keys = self.route_keys.take();
        check_route_keys(route_keys.as_deref().unwrap_or_default())?;
        let change = GatewayChange { wake_url: self.wake_url.take(), bots, route_keys };
        if is_empty(&change) && self.generation.is_none() {
            return Err(unfit("gateway_id needs generation, wake_url, gateway_bots or route_keys"));
        }
        Ok(Some((gateway, change)))
    }
}

/// The bots that a gateway is to be limited to.
fn gateway_bots(bots: &[String]) -> Result<Vec<BotRef>, AdminProblem> {
    if bots.len() > BOTS_OF_A_GATEWAY {
        return Err(unfit("a gateway can be limited to at most 64 bots"));
    }
    bots.iter().map(|bot| parse_bot_ref(bot)).collect()
}

fn check_route_keys(keys: &[String]) -> Result<(), AdminProblem> {
    let fits = |key: &String| (1..=LONGEST_KEY).contains(&key.len()) && !key.chars().any(char::is_control);
    match keys.len() <= KEYS && keys.iter().all(fits) {
        true => Ok(()),
        false => Err(unfit("route_keys may hold 256 keys of 1 to 256 bytes each")),
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
        if is_empty(&change) {
            return Ok(());
        }
        // New route keys replace earlier ones, so the agent may lose places.
        let changing = self.identity.gateways.change(&of.id, gateway, change);
        let removals = self.relay.route_removals();
        match removals.take_away(changing, |_| vec![of.id.clone()]).await? {
            GatewayChanged::Done => Ok(()),
            GatewayChanged::NoGateway => Err(no_such_gateway(of)),
            GatewayChanged::UnclearBot => Err(unfit(UNCLEAR_BOT)),
        }
    }

    /// The settings for the gateway that will redeem a token, after the same checks.
    pub(crate) async fn enroll_setup(
        &self,
        of: &InstanceId,
        wake_url: Option<String>,
        bots: &[String],
        route_keys: Vec<String>,
    ) -> Result<EnrollSetup, AdminProblem> {
        if let Some(url) = &wake_url {
            let checked = self.identity.accounts.check_wake_url(url);
            checked.map_err(|why| AdminProblem::unfit("bad_wake_url", why))?;
        }
        let bots = gateway_bots(bots)?;
        check_route_keys(&route_keys)?;
        if !route_keys.is_empty()
            && self.identity.gateways.bots_for_keys(of, &bots, &route_keys).await?.is_none()
        {
            return Err(unfit(UNCLEAR_BOT));
        }
        Ok(EnrollSetup { wake_url, bots, route_keys })
    }

    pub(super) async fn gateway_settings(&self, of: &InstanceId) -> Result<Vec<ShownGateway>, AdminProblem> {
        let setups = self.identity.gateways.of(of).await?;
        let claims = self.identity.gateways.claims_of(of).await?;
        Ok(setups.into_iter().map(|setup| ShownGateway::new(setup, &claims)).collect())
    }
}

fn is_empty(change: &GatewayChange) -> bool {
    change.wake_url.is_none() && change.bots.is_none() && change.route_keys.is_none()
}

pub(super) fn no_such_gateway(of: &Instance) -> AdminProblem {
    let detail = format!("agent `{}` has no such gateway credential", of.name);
    AdminProblem::absent("no_such_gateway", detail)
}

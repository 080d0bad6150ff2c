//! Provisioning: a gateway without a credential gets one when it starts, for an agent of the caller's tenant (contract
//! section 17.4).

use std::sync::Arc;
use std::time::Duration;

use errand::Errand;
use ledger::{
    BotRef, DraftedSecret, Generation, Instance, ProvisionDraft, ProvisionRequest, ProvisionResult,
    Provisioning, WantedAgent, WantedBot,
};
use posthouse_time::Timepiece;
use posthouse_wire::enrolment::ProvisionCall;
use posthouse_wire::id::is_name;
use posthouse_wire::session_key::UNKNOWN_PLATFORM;
use posthouse_wire::{GatewayId, InstanceId, Platform, Secret, TenantId};
use vault::Keyring;

use crate::{Fault, PlaceClaims, Principal, RosterView};

/// Attempts to store a request while others change what it concerns.
const ATTEMPTS: usize = 3;
/// Longest display name, in characters.
const LONGEST_DISPLAY_NAME: usize = 64;
/// Longest name made from the name of a gateway. A number may follow.
const LONGEST_AGENT_NAME: usize = 56;

/// The credential of a gateway that provisioned itself.
#[derive(Clone)]
pub struct ProvisionedGateway {
    pub tenant: TenantId,
    pub instance: InstanceId,
    pub gateway: GatewayId,
    pub secret: Secret,
    pub delivery_key: Secret,
    /// The claims that are live.
    pub route_keys: Vec<String>,
    /// What was not stored, and why.
    pub warnings: Vec<String>,
}

/// Gives credentials to gateways that provision themselves.
#[derive(Clone)]
pub struct GatewayProvisioning {
    pub(crate) keyring: Keyring,
    pub(crate) records: Arc<dyn Provisioning>,
    pub(crate) claims: PlaceClaims,
    pub(crate) roster: RosterView,
    pub(crate) errand: Errand,
    pub(crate) timepiece: Timepiece,
    /// How long a gateway gets the same secret again.
    pub(crate) reuse: Duration,
    /// The server's own platforms, on which every agent has a bot.
    pub(crate) built_in: Vec<Platform>,
}

impl GatewayProvisioning {
    /// Gives out the credential that a gateway asks for, and stores what it declares. `None` when the agent, the bot or
    /// the gateway is not there for this caller. Repeated calls within a short time get the same secret; later ones a
    /// new one, and the old one stays valid for a day.
    pub async fn provision(
        &self,
        caller: &Principal,
        call: &ProvisionCall,
    ) -> Result<Option<ProvisionedGateway>, Fault> {
        let Some(request) = self.request(caller, call) else { return Ok(None) };
        let (wake_url, warnings) = self.checked_wake_url(call);
        for _ in 0..ATTEMPTS {
            let Some(plan) = self.records.provision_plan(request.clone()).await? else { return Ok(None) };
            let Some(delivery_key) = self.keyring.delivery_key(&request.tenant).await? else {
                return Ok(None);
            };
            let now = self.timepiece.now();
            let gateway = plan.gateway.unwrap_or_else(|| GatewayId::mint(now.millis()));
            let (secret, drafted) = match plan.kept {
                Some(kept) => {
                    (self.keyring.reopen_gateway_secret(&gateway, &kept)?, DraftedSecret::Kept(kept))
                }
                None => {
                    let (secret, sealed) = self.keyring.draft_gateway_secret(&gateway)?;
                    (secret, DraftedSecret::New(sealed))
                }
            };
            let draft = ProvisionDraft {
                gateway: gateway.clone(),
                secret: drafted,
                overlap_until: self.keyring.overlap_until(),
                new_agent: self.new_agent(&request),
                built_in: self.built_in.clone(),
                wake_url: wake_url.clone(),
                display_name: display_name(call),
            };
            match self.records.provision(request.clone(), draft).await? {
                ProvisionResult::Stored { instance, is_new_agent, bot } => {
                    self.announce(&request.tenant, &instance, is_new_agent);
                    let route_keys = self.claim(&instance, &gateway, bot.as_ref(), &call.route_keys).await?;
                    tracing::info!(instance.id = %instance, gateway.id = %gateway, "a gateway provisioned itself");
                    let tenant = request.tenant;
                    return Ok(Some(ProvisionedGateway {
                        tenant,
                        instance,
                        gateway,
                        secret,
                        delivery_key,
                        route_keys,
                        warnings,
                    }));
                }
                ProvisionResult::Refused => return Ok(None),
                ProvisionResult::Changed => {}
            }
        }
        Ok(None)
    }

    /// Whether gateways may create agents of this tenant.
    pub async fn may_create_agents(&self, tenant: &TenantId) -> Result<bool, Fault> {
        Ok(self.records.may_create_agents(tenant).await?)
    }

    /// Allows or forbids gateways to create agents of this tenant. They still get credentials of its agents.
    pub async fn set_may_create_agents(&self, tenant: &TenantId, may: bool) -> Result<(), Fault> {
        Ok(self.records.set_may_create_agents(tenant, may).await?)
    }

    /// What the caller may ask for. An agent can only provision itself.
    fn request(&self, caller: &Principal, call: &ProvisionCall) -> Option<ProvisionRequest> {
        let named = call.instance_id.as_deref().map(str::trim).filter(|named| !named.is_empty());
        let agent = match (caller, named) {
            (Principal::Agent { agent, .. }, None) => WantedAgent::ById(agent.id.clone()),
            (Principal::Agent { agent, .. }, Some(named)) => {
                let is_own = named == agent.id.as_str() || named == agent.name;
                is_own.then(|| WantedAgent::ById(agent.id.clone()))?
            }
            (Principal::Tenant { .. } | Principal::Issued { .. }, Some(named)) => match named {
                id if id.starts_with("inst_") => WantedAgent::ById(InstanceId::new(id)),
                name if is_name(name) => WantedAgent::Named(name.to_owned()),
                _ => return None,
            },
            (Principal::Tenant { .. } | Principal::Issued { .. }, None) => {
                WantedAgent::OfGateway(agent_name(&call.gateway_id))
            }
            (Principal::Operator | Principal::Person(_), _) => return None,
        };
        let bot = match &call.platform {
            platform if self.built_in.contains(platform) => WantedBot::None,
            // What a stock gateway sends when no platform is configured.
            platform if *platform == UNKNOWN_PLATFORM && call.bot_id.is_empty() => WantedBot::None,
            platform if call.bot_id.is_empty() => WantedBot::Only(platform.clone()),
            platform => {
                WantedBot::Named(BotRef { platform: platform.clone(), bot: call.bot_id.as_str().into() })
            }
        };
        Some(ProvisionRequest {
            tenant: caller.tenant()?.clone(),
            name: call.gateway_id.clone(),
            agent,
            bot,
            reuse: self.reuse,
        })
    }

    /// A refused URL does not refuse the gateway: without a credential it could not be reached at all.
    fn checked_wake_url(&self, call: &ProvisionCall) -> (Option<String>, Vec<String>) {
        let Some(url) = call.wake_url.as_deref().filter(|url| !url.is_empty()) else {
            return (None, Vec::new());
        };
        match self.errand.check(url) {
            Ok(_) => (Some(url.to_owned()), Vec::new()),
            Err(refusal) => (None, vec![format!("wake URL: {refusal}")]),
        }
    }

    fn new_agent(&self, request: &ProvisionRequest) -> Instance {
        let now = self.timepiece.now();
        Instance {
            id: InstanceId::mint(now.millis()),
            tenant: request.tenant.clone(),
            name: String::new(),
            wake_url: None,
            callback_url: None,
            generation: Generation::Auto,
            idle: false,
            created: now,
        }
    }

    fn announce(&self, tenant: &TenantId, instance: &InstanceId, is_new_agent: bool) {
        self.roster.agent_changed(instance);
        if is_new_agent {
            self.roster.tenant_changed(tenant);
            for platform in &self.built_in {
                let own = BotRef { platform: platform.clone(), bot: instance.as_str().into() };
                self.roster.bot_changed(&own);
            }
        }
    }

    /// Replaces what the gateway claims on the platform of a bot. Returns what is live.
    async fn claim(
        &self,
        instance: &InstanceId,
        gateway: &GatewayId,
        on: Option<&BotRef>,
        keys: &[String],
    ) -> Result<Vec<String>, Fault> {
        let Some(on) = on else { return Ok(Vec::new()) };
        Ok(self.claims.replace_of_gateway(instance, gateway, on, keys).await?.live)
    }
}

/// The display name of a call, without blanks around it. `None` when there is none.
fn display_name(call: &ProvisionCall) -> Option<String> {
    let name: String = call.display_name.as_deref()?.trim().chars().take(LONGEST_DISPLAY_NAME).collect();
    (!name.is_empty() && !name.chars().any(char::is_control)).then_some(name)
}

/// A valid name for an agent, from the name of its gateway.
fn agent_name(gateway: &str) -> String {
    let fits =
        |letter: char| if letter.is_ascii_alphanumeric() || ".-_".contains(letter) { letter } else { '-' };
    let name: String = gateway.chars().map(fits).collect();
    let name = name.trim_start_matches(['.', '-', '_']);
    let name: String = name.chars().take(LONGEST_AGENT_NAME).collect();
    match name.as_str() {
        "" => "agent".to_owned(),
        id if id.starts_with("inst_") || id.starts_with("ten_") => format!("gw-{id}"),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_gateway_gives_a_valid_name_of_an_agent() {
        for (gateway, agent) in [
            ("gw-laptop", "gw-laptop"),
            ("gw-Ann's Mac.local", "gw-Ann-s-Mac.local"),
            ("-", "agent"),
            ("  ", "agent"),
            ("гейтвей", "agent"),
            ("inst_0", "gw-inst_0"),
            ("../../etc", "etc"),
        ] {
            assert_eq!(agent_name(gateway), agent);
        }
        for gateway in ["x".repeat(256), "inst_".repeat(50), "é".repeat(128)] {
            let name = agent_name(&gateway);
            assert!(is_name(&format!("{name}-1001")) && !name.starts_with("inst_"), "{name}");
        }
    }
}

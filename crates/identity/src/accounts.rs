//! Accounts: creating and removing tenants and agents.

use std::sync::Arc;

use bus::{Bus, Notification};
use errand::Errand;
use ledger::{AgentCreated, AgentToCreate, BotRef, Created, Generation, Instance, Removed, Tenant};
use posthouse_time::Timepiece;
use posthouse_wire::id::is_name;
use posthouse_wire::{GatewayId, InstanceId, Platform, Secret, TenantId};
use vault::Keyring;

use crate::revocation_listeners::{RevocationListeners, RevokedAccess};
use crate::{Fault, HttpSecrets, RosterView};

/// Creates and ends tenants, agents and their credentials. Every change takes effect before its method returns.
#[derive(Clone)]
pub struct Accounts {
    pub(crate) keyring: Keyring,
    pub(crate) roster: RosterView,
    pub(crate) bus: Bus,
    pub(crate) revocations: RevocationListeners,
    pub(crate) errand: Errand,
    pub(crate) timepiece: Timepiece,
}

/// Request to create an agent.
#[derive(Clone, Debug, Default)]
pub struct Enrolment {
    pub tenant: String,
    pub name: String,
    pub wake_url: Option<String>,
    /// The only URL its cron jobs may call back.
    pub callback_url: Option<String>,
    /// Owned bots to assign to it.
    pub bots: Vec<BotRef>,
    /// Built-in platforms, on which every agent has a conversation.
    pub built_in: Vec<Platform>,
    /// Whether it also gets a client credential and a login, for the HTTP APIs.
    pub with_http_credentials: bool,
}

/// A new agent with its secret, which cannot be shown again.
#[derive(Clone)]
pub struct Enrolled {
    pub tenant: Tenant,
    pub instance: Instance,
    pub gateway: GatewayId,
    pub secret: Secret,
    pub bots: Vec<BotRef>,
    /// `None` unless requested.
    pub http: Option<HttpSecrets>,
}

/// Reason why an agent was not created. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotEnrolled {
    #[error(
        "`{0}` is not a valid name: use at most 64 letters, digits, dots, dashes and underscores; the first must be a \
        letter or digit, and the name must not begin with ten_ (a tenant) or inst_ (an agent)"
    )]
    BadName(String),
    #[error("there is no tenant `{0}`")]
    NoTenant(String),
    #[error("tenant `{tenant}` already has an agent `{name}`")]
    Taken { tenant: String, name: String },
    #[error("{0}")]
    BadWakeUrl(String),
    #[error("{0}")]
    BadCallbackUrl(String),
    #[error("bot {platform}:{bot}: {why}", platform = .0.platform, bot = .0.bot, why = .1)]
    BadBot(BotRef, &'static str),
}

impl Accounts {
    /// Calls this function for every revocation on this node, before the command that revoked answers.
    pub fn follow_revocations(&self, listener: Arc<dyn Fn(RevokedAccess<'_>) + Send + Sync>) {
        self.revocations.add(listener);
    }

    /// Stores the commands that an agent announced for a bot. Those who register commands hear of a change.
    pub async fn keep_commands(&self, of: &InstanceId, on: &BotRef, manifest: &str) -> Result<(), Fault> {
        if self.roster.records().keep_manifest(of, on, manifest).await? {
            self.roster.commands_changed(on);
        }
        Ok(())
    }

    /// Creates a tenant. Returns `None` when the name is taken.
    pub async fn create_tenant(&self, name: &str) -> Result<Result<Option<Tenant>, NotEnrolled>, Fault> {
        // A tenant is looked up by name or id, so no name may look like another tenant's id.
        if !is_name(name) || name.starts_with("ten_") {
            return Ok(Err(NotEnrolled::BadName(name.to_owned())));
        }
        let now = self.timepiece.now();
        let tenant = Tenant { id: TenantId::mint(now.millis()), name: name.to_owned(), created: now };
        let created = self.roster.records().create_tenant(tenant.clone()).await?;
        Ok(Ok((created == Created::Made).then_some(tenant)))
    }

    /// Creates an agent with its first gateway credential and everything else requested, in one commit.
    pub async fn enrol(&self, wanted: Enrolment) -> Result<Result<Enrolled, NotEnrolled>, Fault> {
        // No name may look like an instance id.
        if !is_name(&wanted.name) || wanted.name.starts_with("inst_") {
            return Ok(Err(NotEnrolled::BadName(wanted.name)));
        }
        if let Some(Err(why)) = wanted.wake_url.as_deref().map(|url| self.check_wake_url(url)) {
            return Ok(Err(NotEnrolled::BadWakeUrl(why)));
        }
        if let Some(Err(why)) = wanted.callback_url.as_deref().map(|url| self.check_callback(url)) {
            return Ok(Err(NotEnrolled::BadCallbackUrl(why)));
        }
        let Some(tenant) = self.roster.records().tenant(&wanted.tenant).await? else {
            return Ok(Err(NotEnrolled::NoTenant(wanted.tenant)));
        };
        let now = self.timepiece.now();
        let instance = Instance {
            id: InstanceId::mint(now.millis()),
            tenant: tenant.id.clone(),
            name: wanted.name,
            wake_url: wanted.wake_url,
            callback_url: wanted.callback_url,
            generation: Generation::Auto,
            idle: false,
            created: now,
        };
        let gateway = GatewayId::mint(now.millis());
        let (secret, sealed) = self.keyring.draft_gateway_secret(&gateway)?;
        let http = match wanted.with_http_credentials {
            true => Some(self.keyring.draft_http_credentials()?),
            false => None,
        };
        let named =
            |platform: &Platform| BotRef { platform: platform.clone(), bot: instance.id.as_str().into() };
        let built_in: Vec<BotRef> = wanted.built_in.iter().map(named).collect();
        // One commit, so that a crash here leaves a complete agent or none.
        let created = self.roster.records().create_agent(AgentToCreate {
            instance: instance.clone(),
            bots: wanted.bots.clone(),
            built_in: wanted.built_in,
            gateway: gateway.clone(),
            secret: sealed,
            http: http.as_ref().map(|draft| draft.credentials.clone()),
        });
        match created.await? {
            AgentCreated::Made => {}
            AgentCreated::NoTenant => return Ok(Err(NotEnrolled::NoTenant(tenant.name))),
            AgentCreated::Taken => {
                return Ok(Err(NotEnrolled::Taken { tenant: tenant.name, name: instance.name }));
            }
            AgentCreated::UnfitBot(bot, why) => return Ok(Err(NotEnrolled::BadBot(bot, why))),
        }
        self.roster.tenant_changed(&tenant.id);
        wanted.bots.iter().chain(&built_in).for_each(|bot| self.roster.bot_changed(bot));
        tracing::info!(tenant.id = %tenant.id, instance.id = %instance.id, "agent {} was created", instance.name);
        let http = http.map(|draft| HttpSecrets::new(draft, &instance));
        Ok(Ok(Enrolled { tenant, instance, gateway, secret, bots: wanted.bots, http }))
    }

    /// Checks a wake URL. The error text says why it will never be called.
    pub fn check_wake_url(&self, url: &str) -> Result<(), String> {
        self.errand.check(url).map(drop).map_err(|refusal| format!("wake URL: {refusal}"))
    }

    /// Checks a callback URL. The error text says why it will never be called.
    pub fn check_callback(&self, url: &str) -> Result<(), String> {
        self.errand.check_base(url).map(drop).map_err(|refusal| format!("callback URL: {refusal}"))
    }

    /// Deletes an agent with everything that belongs to it. Idempotent.
    pub async fn remove_agent(&self, instance: &InstanceId) -> Result<Removed, Fault> {
        let used = self.roster.records().bots_used_by(instance).await?;
        let mut bots = used.clone();
        // A shared bot stays as it is for its other agents. What was cached about this one depends on the agent.
        for shared in self.roster.records().bots().await?.iter().filter(|bot| bot.shared) {
            bots.retain(|bot| bot.platform != shared.platform || bot.bot != shared.id);
        }
        let tenant = self.roster.records().instance(instance).await?.map(|found| found.tenant);
        let removed = self.roster.records().remove_instance(instance).await?;
        bots.iter().for_each(|bot| self.roster.bot_changed(bot));
        used.iter().for_each(|bot| self.roster.commands_changed(bot));
        self.roster.agent_changed(instance);
        if let Some(tenant) = &tenant {
            self.roster.tenant_changed(tenant);
        }
        self.revocations.tell(RevokedAccess::Agent(instance));
        self.bus.publish(Notification::Removed { instance: instance.to_string() });
        tracing::info!(instance.id = %instance, "an agent was removed");
        Ok(removed)
    }

    /// Removes a tenant without agents, with its clients and tokens.
    pub async fn remove_tenant(&self, tenant: &TenantId) -> Result<Removed, Fault> {
        let removed = self.roster.records().remove_tenant(tenant).await?;
        self.roster.tenant_changed(tenant);
        Ok(removed)
    }
}

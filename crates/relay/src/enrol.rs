//! Creating and removing tenants and agents; rotating and revoking their credentials.

use bus::Word;
use ledger::{AgentCreated, AgentToCreate, Created, Generation, Identity, Instance, Owner, Removed, Tenant};
use posthouse_wire::id::is_name;
use posthouse_wire::{ClientId, GatewayId, InstanceId, Platform, Secret, TenantId};
use vault::{EndedCredentials, HttpDraft, Login, WhichCredentials};

use crate::{Fault, Relay};

/// Request to create an agent.
#[derive(Clone, Debug, Default)]
pub struct Enrolment {
    pub tenant: String,
    pub name: String,
    pub wake_url: Option<String>,
    /// The only URL its cron jobs may call back.
    pub callback_url: Option<String>,
    /// Owned bots to assign to it.
    pub bots: Vec<Identity>,
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
    pub bots: Vec<Identity>,
    /// `None` unless requested.
    pub http: Option<HttpSecrets>,
}

/// An agent's credentials for the HTTP APIs. The secrets cannot be shown again.
#[derive(Clone)]
pub struct HttpSecrets {
    pub client: ClientId,
    pub client_secret: Secret,
    pub login: Login,
}

impl HttpSecrets {
    fn new(draft: HttpDraft, of: &Instance) -> Self {
        Self {
            client: Owner::Instance(of.id.clone()).client(),
            client_secret: draft.client_secret,
            login: Login {
                login: draft.credentials.login,
                tenant: of.tenant.clone(),
                instance: of.id.clone(),
                access: draft.access,
                refresh_token: draft.refresh_token,
            },
        }
    }
}

/// Reason why an agent was not created. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotEnrolled {
    #[error(
        "`{0}` is not a valid name: use at most 64 letters, digits, dots, dashes and underscores, begin with a letter or digit, and not with ten_ or inst_"
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
    BadBot(Identity, &'static str),
}

impl Relay {
    /// Creates a tenant. Returns `None` when the name is taken.
    pub async fn create_tenant(&self, name: &str) -> Result<Result<Option<Tenant>, NotEnrolled>, Fault> {
        // A tenant is looked up by name or id, so no name may look like another tenant's id.
        if !is_name(name) || name.starts_with("ten_") {
            return Ok(Err(NotEnrolled::BadName(name.to_owned())));
        }
        let now = self.0.timepiece.now();
        let tenant = Tenant { id: TenantId::mint(now.millis()), name: name.to_owned(), created: now };
        let created = self.0.roster.create_tenant(tenant.clone()).await?;
        Ok(Ok((created == Created::Made).then_some(tenant)))
    }

    /// Creates an agent with its first gateway credential and everything else requested, in one commit.
    pub async fn enrol(&self, wanted: Enrolment) -> Result<Result<Enrolled, NotEnrolled>, Fault> {
        // No name may look like an instance id.
        if !is_name(&wanted.name) || wanted.name.starts_with("inst_") {
            return Ok(Err(NotEnrolled::BadName(wanted.name)));
        }
        if let Some(Err(why)) = wanted.wake_url.as_deref().map(|url| self.0.wake_calls.check(url)) {
            return Ok(Err(NotEnrolled::BadWakeUrl(why)));
        }
        if let Some(Err(why)) = wanted.callback_url.as_deref().map(|url| self.check_callback(url)) {
            return Ok(Err(NotEnrolled::BadCallbackUrl(why)));
        }
        let Some(tenant) = self.0.roster.tenant(&wanted.tenant).await? else {
            return Ok(Err(NotEnrolled::NoTenant(wanted.tenant)));
        };
        let now = self.0.timepiece.now();
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
        let (secret, sealed) = self.0.keyring.draft_gateway_secret(&gateway)?;
        let http = match wanted.with_http_credentials {
            true => Some(self.0.keyring.draft_http_credentials()?),
            false => None,
        };
        let named =
            |platform: &Platform| Identity { platform: platform.clone(), bot: instance.id.as_str().into() };
        let built_in: Vec<Identity> = wanted.built_in.iter().map(named).collect();
        // One commit, so that a crash here leaves a complete agent or none.
        let created = self.0.roster.create_agent(AgentToCreate {
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
        self.tenant_changed(&tenant.id);
        wanted.bots.iter().chain(&built_in).for_each(|bot| self.bot_changed(bot));
        tracing::info!(tenant.id = %tenant.id, instance.id = %instance.id, "agent {} was created", instance.name);
        let http = http.map(|draft| HttpSecrets::new(draft, &instance));
        Ok(Ok(Enrolled { tenant, instance, gateway, secret, bots: wanted.bots, http }))
    }

    /// Checks a callback URL. The error text says why it will never be called.
    pub fn check_callback(&self, url: &str) -> Result<(), String> {
        self.0.wake_calls.check_callback(url)
    }

    /// Gives an agent's credential a new secret, or creates a further credential. The old secret stays valid for a
    /// day.
    pub async fn rotate(&self, gateway: &GatewayId, of: &InstanceId) -> Result<Option<Secret>, Fault> {
        let secret = self.0.keyring.issue(gateway, of).await?;
        if secret.is_some() {
            tracing::info!(instance.id = %of, gateway.id = %gateway, "a credential got a new secret");
        }
        Ok(secret)
    }

    /// Revokes these credentials of an agent in one commit and returns what was revoked. Sockets close with 4401 and
    /// new connections are refused; every HTTP API refuses the tokens and secrets.
    pub async fn revoke(&self, of: &InstanceId, which: WhichCredentials) -> Result<EndedCredentials, Fault> {
        let ended = self.0.keyring.end_credentials(of, which).await?;
        for gateway in &ended.gateways {
            self.0.bus.tell(Word::Revoked { gateway: gateway.to_string() });
        }
        if !ended.is_empty() {
            tracing::info!(instance.id = %of, ended = ?ended, "credentials of an agent were revoked");
        }
        Ok(ended)
    }

    /// Gives an agent a new secret for this gateway, a new client secret and a new login. Replaced secrets stay valid
    /// for a day; the previous login ends at once. Returns `None` when there is no such agent, or when the gateway was
    /// revoked.
    pub async fn rotate_all(
        &self,
        gateway: &GatewayId,
        of: &Instance,
    ) -> Result<Option<(Secret, HttpSecrets)>, Fault> {
        let renewed = self.0.keyring.renew_credentials(&of.id, gateway).await?;
        if renewed.is_some() {
            tracing::info!(instance.id = %of.id, gateway.id = %gateway, "an agent got new credentials");
        }
        Ok(renewed.map(|(secret, draft)| (secret, HttpSecrets::new(draft, of))))
    }

    /// Deletes an agent with everything that belongs to it. Idempotent.
    pub async fn remove_agent(&self, instance: &InstanceId) -> Result<Removed, Fault> {
        let identities = self.0.roster.identities(instance).await?;
        let tenant = self.0.roster.instance(instance).await?.map(|found| found.tenant);
        let removed = self.0.roster.remove_instance(instance).await?;
        identities.iter().for_each(|identity| self.bot_changed(identity));
        match &tenant {
            Some(tenant) => self.tenant_changed(tenant),
            None => self.0.keyring.forget_bearers(),
        }
        self.0.bus.tell(Word::Removed { instance: instance.to_string() });
        tracing::info!(instance.id = %instance, "an agent was removed");
        Ok(removed)
    }
}

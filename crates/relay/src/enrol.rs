//! How agents come to be known.

use bus::Word;
use ledger::{Bot, Created, Discriminator, Generation, Identity, Instance, Removed, Route, Tenant};
use posthouse_wire::id::is_name;
use posthouse_wire::{GatewayId, InstanceId, Platform, Secret, TenantId};

use crate::{Fault, Relay};

/// What an agent is enrolled with.
#[derive(Clone, Debug, Default)]
pub struct Enrolment {
    pub tenant: String,
    pub name: String,
    pub wake_url: Option<String>,
    /// Where alone it may ask to be called back.
    pub callback_url: Option<String>,
    /// Owned bots that shall belong to it.
    pub bots: Vec<Identity>,
    /// Platforms of the house's own that every agent has a conversation on.
    pub built_in: Vec<Platform>,
}

/// A new agent. This is the one time its secret is seen.
#[derive(Clone)]
pub struct Enrolled {
    pub tenant: Tenant,
    pub instance: Instance,
    pub gateway: GatewayId,
    pub secret: Secret,
    pub bots: Vec<Identity>,
}

/// Why an agent was not enrolled; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotEnrolled {
    #[error(
        "`{0}` is no name: letters, digits, dot, dash and underscore, at most 64, beginning with a letter or digit, and not like an id with ten_ or inst_"
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
    /// Makes a tenant. Nothing when the name is taken.
    pub async fn create_tenant(&self, name: &str) -> Result<Result<Option<Tenant>, NotEnrolled>, Fault> {
        // A tenant is found by name or id: no name may be mistaken for another's id.
        if !is_name(name) || name.starts_with("ten_") {
            return Ok(Err(NotEnrolled::BadName(name.to_owned())));
        }
        let now = self.0.timepiece.now();
        let tenant = Tenant { id: TenantId::mint(now.millis()), name: name.to_owned(), created: now };
        let created = self.0.roster.create_tenant(tenant.clone()).await?;
        Ok(Ok((created == Created::Made).then_some(tenant)))
    }

    /// Makes an agent with its first gateway credential.
    pub async fn enrol(&self, wanted: Enrolment) -> Result<Result<Enrolled, NotEnrolled>, Fault> {
        // An instance id must never be mistaken for a name.
        if !is_name(&wanted.name) || wanted.name.starts_with("inst_") {
            return Ok(Err(NotEnrolled::BadName(wanted.name)));
        }
        if let Some(Err(why)) = wanted.wake_url.as_deref().map(|url| self.0.rouse.check(url)) {
            return Ok(Err(NotEnrolled::BadWakeUrl(why)));
        }
        if let Some(Err(why)) = wanted.callback_url.as_deref().map(|url| self.check_callback(url)) {
            return Ok(Err(NotEnrolled::BadCallbackUrl(why)));
        }
        let Some(tenant) = self.0.roster.tenant(&wanted.tenant).await? else {
            return Ok(Err(NotEnrolled::NoTenant(wanted.tenant)));
        };
        if let Some(why) = self.unfit_bot(&wanted.bots).await? {
            return Ok(Err(why));
        }
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
        match self.0.roster.create_instance(instance.clone()).await? {
            Created::Made => {}
            Created::Taken | Created::Unfit(_) => {
                return Ok(Err(NotEnrolled::Taken { tenant: tenant.name, name: instance.name }));
            }
        }
        for bot in &wanted.bots {
            let why = match self.own(bot, &instance.id).await? {
                Created::Made => continue,
                Created::Taken => "it belongs to another agent",
                Created::Unfit(why) => why,
            };
            // Somebody was faster since it was looked at.
            self.0.roster.remove_instance(&instance.id).await?;
            return Ok(Err(NotEnrolled::BadBot(bot.clone(), why)));
        }
        for platform in wanted.built_in {
            let identity = Identity { platform, bot: instance.id.as_str().into() };
            let bot = Bot {
                platform: identity.platform.clone(),
                id: identity.bot.clone(),
                shared: false,
                settings: "{}".to_owned(),
                created: now,
            };
            self.0.roster.create_bot(bot).await?;
            self.own(&identity, &instance.id).await?;
        }
        let gateway = GatewayId::mint(now.millis());
        let secret = self.0.keyring.issue(&gateway, &instance.id).await?;
        let secret = secret.ok_or(vault::Fault::Broken)?;
        self.roster_changed();
        tracing::info!(tenant.id = %tenant.id, instance.id = %instance.id, "agent {} was enrolled", instance.name);
        Ok(Ok(Enrolled { tenant, instance, gateway, secret, bots: wanted.bots }))
    }

    /// Why an agent will never be called back there, in words.
    pub fn check_callback(&self, url: &str) -> Result<(), String> {
        self.0.rouse.check_callback(url)
    }

    async fn unfit_bot(&self, bots: &[Identity]) -> Result<Option<NotEnrolled>, Fault> {
        for identity in bots {
            let why = match self.0.roster.bot(&identity.platform, &identity.bot).await? {
                None => Some("there is no such bot"),
                Some(bot) if bot.shared => Some("it is shared: make routes to it instead"),
                Some(_) => {
                    let owner = self.0.roster.route(identity, &[Discriminator::Any]).await?;
                    owner.map(|_| "it belongs to another agent")
                }
            };
            if let Some(why) = why {
                return Ok(Some(NotEnrolled::BadBot(identity.clone(), why)));
            }
        }
        Ok(None)
    }

    async fn own(&self, bot: &Identity, instance: &InstanceId) -> Result<Created, Fault> {
        let route = Route {
            platform: bot.platform.clone(),
            bot: bot.bot.clone(),
            discriminator: Discriminator::Any,
            instance: instance.clone(),
            created: self.0.timepiece.now(),
        };
        Ok(self.0.roster.create_route(route).await?)
    }

    /// Gives an agent a fresh secret (or another credential); the old one stays good for a day.
    pub async fn rotate(&self, gateway: &GatewayId, of: &InstanceId) -> Result<Option<Secret>, Fault> {
        let secret = self.0.keyring.issue(gateway, of).await?;
        if secret.is_some() {
            tracing::info!(instance.id = %of, gateway.id = %gateway, "a credential got a new secret");
        }
        Ok(secret)
    }

    /// Ends a credential: its sockets close with 4401, further dials are refused.
    pub async fn revoke(&self, gateway: &GatewayId) -> Result<bool, Fault> {
        let known = self.0.keyring.revoke(gateway).await?;
        self.0.bus.tell(Word::Revoked { gateway: gateway.to_string() });
        tracing::info!(gateway.id = %gateway, "a credential was revoked");
        Ok(known)
    }

    /// Removes an agent with everything it had. Idempotent.
    pub async fn remove_agent(&self, instance: &InstanceId) -> Result<Removed, Fault> {
        let built_in: Vec<Identity> = self
            .0
            .roster
            .identities(instance)
            .await?
            .into_iter()
            .filter(|identity| identity.bot == *instance.as_str())
            .collect();
        let removed = self.0.roster.remove_instance(instance).await?;
        self.0.keyring.forget_bearers();
        for identity in built_in {
            self.0.roster.remove_bot(&identity.platform, &identity.bot).await?;
        }
        self.0.bus.tell(Word::Removed { instance: instance.to_string() });
        tracing::info!(instance.id = %instance, "an agent was removed");
        Ok(removed)
    }
}

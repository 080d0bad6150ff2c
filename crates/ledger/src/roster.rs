//! Who there is: tenants, agents, bots, and the routes between them.

use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{BotId, ChatId, InstanceId, LoginId, Platform, ScopeId, SessionKey, TenantId};

use crate::Fault;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    pub id: TenantId,
    pub name: String,
    pub created: Moment,
}

/// One agent of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    pub id: InstanceId,
    pub tenant: TenantId,
    pub name: String,
    pub wake_url: Option<String>,
    /// Where it may ask to be called back: nowhere but at this origin, if there is one.
    pub callback_url: Option<String>,
    pub generation: Generation,
    /// It said it is going idle and has not come back since.
    pub idle: bool,
    pub created: Moment,
}

/// Which habits a gateway has (relay contract section 10.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Generation {
    /// Treated as 0.19 until it shows a sign of being newer.
    #[default]
    Auto,
    Stock019,
    Newer,
}

impl Generation {
    pub fn as_str(self) -> &'static str {
        match self {
            Generation::Auto => "auto",
            Generation::Stock019 => "0.19",
            Generation::Newer => "newer",
        }
    }
}

impl FromStr for Generation {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "auto" => Ok(Generation::Auto),
            "0.19" => Ok(Generation::Stock019),
            "newer" => Ok(Generation::Newer),
            _ => Err(()),
        }
    }
}

/// A platform identity. Its secrets are in the vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bot {
    pub platform: Platform,
    pub id: BotId,
    /// Serves several tenants by routes; an owned bot belongs to one agent.
    pub shared: bool,
    /// JSON that the platform's own code understands.
    pub settings: String,
    pub created: Moment,
}

/// One (platform, bot) pair that an instance may speak as.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    pub platform: Platform,
    pub bot: BotId,
}

/// What in an event decides whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Discriminator {
    /// Everything that comes to an owned bot.
    Any,
    Chat(ChatId),
    Scope(ScopeId),
    /// The rest of the webhook's path.
    Path(String),
}

impl Discriminator {
    pub fn kind(&self) -> &'static str {
        match self {
            Discriminator::Any => "*",
            Discriminator::Chat(_) => "chat",
            Discriminator::Scope(_) => "scope",
            Discriminator::Path(_) => "path",
        }
    }

    pub fn value(&self) -> &str {
        match self {
            Discriminator::Any => "",
            Discriminator::Chat(chat) => chat.as_str(),
            Discriminator::Scope(scope) => scope.as_str(),
            Discriminator::Path(path) => path,
        }
    }

    pub fn from_parts(kind: &str, value: &str) -> Option<Self> {
        match kind {
            "*" if value.is_empty() => Some(Discriminator::Any),
            "chat" if !value.is_empty() => Some(Discriminator::Chat(value.into())),
            "scope" if !value.is_empty() => Some(Discriminator::Scope(value.into())),
            "path" if !value.is_empty() => Some(Discriminator::Path(value.to_owned())),
            _ => None,
        }
    }
}

/// `*`, `chat:ID`, `scope:ID` or `path:REST`.
impl fmt::Display for Discriminator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Discriminator::Any => f.write_str("*"),
            other => write!(f, "{}:{}", other.kind(), other.value()),
        }
    }
}

impl FromStr for Discriminator {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let (kind, value) = text.split_once(':').unwrap_or((text, ""));
        Discriminator::from_parts(kind, value).ok_or(())
    }
}

/// A stored way from a platform's event to an agent, and the only one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub platform: Platform,
    pub bot: BotId,
    pub discriminator: Discriminator,
    pub instance: InstanceId,
    pub created: Moment,
}

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteTo {
    pub tenant: TenantId,
    pub instance: InstanceId,
}

/// What became of a creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    Made,
    /// The name or discriminator is taken.
    Taken,
    /// Something it refers to does not exist, or may not be combined this way.
    Unfit(&'static str),
}

/// What became of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    Gone,
    Absent,
    /// Something still depends on it.
    InUse,
}

/// The directory. Names are found inside their tenant only.
#[async_trait]
pub trait Roster: Send + Sync {
    async fn create_tenant(&self, tenant: Tenant) -> Result<Created, Fault>;
    async fn tenants(&self) -> Result<Vec<Tenant>, Fault>;
    /// By name or id.
    async fn tenant(&self, name_or_id: &str) -> Result<Option<Tenant>, Fault>;
    /// Takes its own client along.
    async fn remove_tenant(&self, id: &TenantId) -> Result<Removed, Fault>;

    async fn create_instance(&self, instance: Instance) -> Result<Created, Fault>;
    async fn instances(&self, of: Option<&TenantId>) -> Result<Vec<Instance>, Fault>;
    async fn instance(&self, id: &InstanceId) -> Result<Option<Instance>, Fault>;
    async fn instance_named(&self, tenant: &TenantId, name: &str) -> Result<Option<Instance>, Fault>;
    /// The instance whose bootstrap login this is, inside a tenant: that of the token that named it.
    async fn instance_of_login(&self, tenant: &TenantId, login: &LoginId) -> Result<Option<Instance>, Fault>;
    /// Takes everything of it along: credentials, tokens, routes, inbox, capabilities, rooms. Only the traces,
    /// which hold nobody's words, stay until they are pruned.
    async fn remove_instance(&self, id: &InstanceId) -> Result<Removed, Fault>;
    async fn set_wake_url(&self, id: &InstanceId, url: Option<&str>) -> Result<(), Fault>;
    async fn set_callback_url(&self, id: &InstanceId, url: Option<&str>) -> Result<(), Fault>;
    async fn set_idle(&self, id: &InstanceId, idle: bool) -> Result<(), Fault>;
    async fn set_generation(&self, id: &InstanceId, generation: Generation) -> Result<(), Fault>;

    async fn create_bot(&self, bot: Bot) -> Result<Created, Fault>;
    async fn bots(&self) -> Result<Vec<Bot>, Fault>;
    async fn bot(&self, platform: &Platform, id: &BotId) -> Result<Option<Bot>, Fault>;
    async fn set_bot_settings(&self, platform: &Platform, id: &BotId, settings: &str) -> Result<(), Fault>;
    /// Its secrets and routes go along.
    async fn remove_bot(&self, platform: &Platform, id: &BotId) -> Result<Removed, Fault>;

    /// An owned bot takes one `*` route, a shared bot any others.
    async fn create_route(&self, route: Route) -> Result<Created, Fault>;
    async fn routes(&self) -> Result<Vec<Route>, Fault>;
    async fn remove_route(
        &self,
        platform: &Platform,
        bot: &BotId,
        which: &Discriminator,
    ) -> Result<Removed, Fault>;
    /// A chat goes on under a new id: its routes are rewritten, and whose the old one was may reach the
    /// new. What there already is for the new id stays and wins; repeating is harmless.
    /// True when a route was changed.
    async fn move_chat(&self, on: &Identity, from: &ChatId, to: &ChatId) -> Result<bool, Fault>;
    /// The first of `candidates` that has a route on this bot.
    async fn route(&self, on: &Identity, candidates: &[Discriminator]) -> Result<Option<RouteTo>, Fault>;
    /// The pairs that routes lead to this instance, oldest first.
    async fn identities(&self, of: &InstanceId) -> Result<Vec<Identity>, Fault>;

    /// Was this chat delivered to this instance under this identity, or is it routed to it, and is it
    /// nobody else's by now?
    async fn may_reach(&self, from: &InstanceId, on: &Identity, chat: &ChatId) -> Result<bool, Fault>;
    /// Under which identity this chat was last delivered to this instance.
    async fn last_identity(&self, of: &InstanceId, chat: &ChatId) -> Result<Option<Identity>, Fault>;
    /// The chat of the last event delivered to this instance under this session key.
    async fn chat_of_session(
        &self,
        of: &InstanceId,
        key: &SessionKey,
    ) -> Result<Option<(Identity, ChatId)>, Fault>;
}

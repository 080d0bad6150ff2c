//! Directory of tenants, agents, bots and routes.

use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{
    BotId, ChatId, ClientId, GatewayId, InstanceId, LoginId, Platform, ScopeId, SessionKey, TenantId,
};

use crate::{Fault, Interactions, PrincipalPolicy, Sealed, StalePolicy, TokenHash, TokenPair};

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
    /// The URL that is called: of a gateway that has its own, else of the agent.
    pub wake_url: Option<String>,
    /// The only origin at which it may ask to be called back, if set.
    pub callback_url: Option<String>,
    /// The generation that the operator pinned. The server never sets it by itself.
    pub generation: Generation,
    /// It announced that it is going idle and has not returned since.
    pub idle: bool,
    pub created: Moment,
}

/// Generation of the gateway that an agent runs, as pinned by the operator (relay contract section 26).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Generation {
    /// Not pinned: each socket is judged by its own hello frames.
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

/// Whether further entries of a chat wait until the agent's turn in it has ended (relay contract section
/// 13.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HoldBack {
    On,
    Off,
    /// Only entries that were accepted before the agent connected.
    #[default]
    Drain,
}

impl HoldBack {
    pub fn as_str(self) -> &'static str {
        match self {
            HoldBack::On => "on",
            HoldBack::Off => "off",
            HoldBack::Drain => "drain",
        }
    }
}

impl FromStr for HoldBack {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        [HoldBack::On, HoldBack::Off, HoldBack::Drain]
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or(())
    }
}

/// An account on a chat platform. Its secrets are in the vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bot {
    pub platform: Platform,
    pub id: BotId,
    /// A shared bot serves several tenants by routes. An owned bot belongs to one agent.
    pub shared: bool,
    /// Policy on the authors it listens to.
    pub principals: PrincipalPolicy,
    /// JSON in the format of the platform's code.
    pub settings: String,
    pub created: Moment,
}

/// A bot on a platform: the pair that names it in every table and on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BotRef {
    pub platform: Platform,
    pub bot: BotId,
}

/// The part of an event that decides which agent it is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Discriminator {
    /// Every event of an owned bot.
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

    /// Whether it names a chat or a scope, not everything or a path.
    pub fn is_place(&self) -> bool {
        matches!(self, Discriminator::Chat(_) | Discriminator::Scope(_))
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

/// A stored record that sends events of a platform to an agent. On a shared bot, events of linked authors follow their
/// link instead ([`Bindings`](crate::Bindings)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub platform: Platform,
    pub bot: BotId,
    pub discriminator: Discriminator,
    pub instance: InstanceId,
    pub created: Moment,
    /// Profile of the agent for events that come by this route.
    pub profile: Option<String>,
}

/// Who made a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteOrigin {
    Operator,
    /// The agent itself: a claim that is live.
    Claim,
}

/// The agent that a place belongs to, and by which route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceOwner {
    pub to: RouteTo,
    pub which: Discriminator,
    pub origin: RouteOrigin,
    pub profile: Option<String>,
}

/// The target of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteTo {
    pub tenant: TenantId,
    pub instance: InstanceId,
}

/// Everything that an agent is created with.
#[derive(Clone, Debug)]
pub struct AgentToCreate {
    pub instance: Instance,
    /// Owned bots that are to belong to it.
    pub bots: Vec<BotRef>,
    /// The server's own platforms on which it gets a bot. That bot has the id of the instance.
    pub built_in: Vec<Platform>,
    pub gateway: GatewayId,
    /// The secret of that gateway.
    pub secret: Sealed,
    pub http: Option<HttpCredentials>,
}

/// Credentials of an agent for HTTP APIs: a client secret and a bootstrap login.
#[derive(Clone, Debug)]
pub struct HttpCredentials {
    pub client_secret: TokenHash,
    /// Older client secrets stay valid until then.
    pub overlap_until: Moment,
    pub login: LoginId,
    /// The client id that this login presents.
    pub login_client: ClientId,
    pub login_tokens: TokenPair,
}

/// Outcome of creating an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentCreated {
    Made,
    NoTenant,
    /// Its tenant already has an agent with that name.
    Taken,
    /// This bot cannot belong to it, for this reason.
    UnfitBot(BotRef, &'static str),
}

/// Outcome of a creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    Made,
    /// The name or discriminator is taken.
    Taken,
    /// Something that it refers to does not exist, or the combination is not allowed.
    Unfit(&'static str),
}

/// Outcome of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    Gone,
    Absent,
    /// Something else still depends on it.
    InUse,
}

/// The directory. Names are unique in their tenant and looked up there only.
#[async_trait]
pub trait Roster: Interactions {
    async fn create_tenant(&self, tenant: Tenant) -> Result<Created, Fault>;
    async fn tenants(&self) -> Result<Vec<Tenant>, Fault>;
    /// By name or id.
    async fn tenant(&self, name_or_id: &str) -> Result<Option<Tenant>, Fault>;
    /// Removes its client, too.
    async fn remove_tenant(&self, id: &TenantId) -> Result<Removed, Fault>;

    /// Creates an agent with its gateway, bots, routes, client and login: all of it or nothing.
    async fn create_agent(&self, agent: AgentToCreate) -> Result<AgentCreated, Fault>;
    /// Creates an agent without any credential, for tests and benchmarks.
    async fn create_instance(&self, instance: Instance) -> Result<Created, Fault>;
    async fn instances(&self, of: Option<&TenantId>) -> Result<Vec<Instance>, Fault>;
    async fn instance(&self, id: &InstanceId) -> Result<Option<Instance>, Fault>;
    async fn instance_named(&self, tenant: &TenantId, name: &str) -> Result<Option<Instance>, Fault>;
    /// The instance that this bootstrap login belongs to, if it is in this tenant: the tenant of the token
    /// that named the login.
    async fn instance_of_login(&self, tenant: &TenantId, login: &LoginId) -> Result<Option<Instance>, Fault>;
    /// Removes an agent with everything it has: credentials, tokens, routes, inbox, capabilities, rooms, and
    /// its bots on the server's own platforms. Only traces, which hold no message text, stay until they are
    /// pruned.
    async fn remove_instance(&self, id: &InstanceId) -> Result<Removed, Fault>;
    /// Sets the URL that is called while no gateway of the agent has its own.
    async fn set_wake_url(&self, id: &InstanceId, url: Option<&str>) -> Result<(), Fault>;
    async fn set_callback_url(&self, id: &InstanceId, url: Option<&str>) -> Result<(), Fault>;
    async fn set_idle(&self, id: &InstanceId, idle: bool) -> Result<(), Fault>;
    /// Pins the generation of one credential, or of the agent and all its credentials, whose own pins are
    /// then removed. False when that credential does not belong to this agent.
    async fn pin_generation(
        &self,
        id: &InstanceId,
        gateway: Option<&GatewayId>,
        generation: Generation,
    ) -> Result<bool, Fault>;
    /// The generation that is pinned for a credential: its own pin, else that of the agent.
    async fn pinned_generation(&self, id: &InstanceId, gateway: &GatewayId) -> Result<Generation, Fault>;
    async fn set_hold_back(&self, id: &InstanceId, hold_back: HoldBack) -> Result<(), Fault>;
    async fn hold_back(&self, id: &InstanceId) -> Result<HoldBack, Fault>;
    /// The cursor that marks unfinished texts of this agent. None: the stock one.
    async fn stream_cursor(&self, id: &InstanceId) -> Result<Option<String>, Fault>;
    async fn set_stream_cursor(&self, id: &InstanceId, cursor: Option<&str>) -> Result<(), Fault>;

    /// Creates a bot together with its secrets: all of it or nothing.
    async fn create_bot_with_secrets(
        &self,
        bot: Bot,
        secrets: Vec<(String, Sealed)>,
    ) -> Result<Created, Fault>;
    /// A bot without secrets.
    async fn create_bot(&self, bot: Bot) -> Result<Created, Fault>;
    async fn bots(&self) -> Result<Vec<Bot>, Fault>;
    async fn bot(&self, platform: &Platform, id: &BotId) -> Result<Option<Bot>, Fault>;
    /// Sets some of the settings of a bot, given as a JSON object. The others stay. False when there is no such bot.
    async fn change_bot_settings(&self, on: &BotRef, changed: &str) -> Result<bool, Fault>;
    /// Removes its secrets and routes, too, and ends the entries that wait for an agent by one of them.
    async fn remove_bot(&self, platform: &Platform, id: &BotId) -> Result<Removed, Fault>;

    /// An owned bot has exactly one route, `*`. A shared bot can have any others.
    async fn create_route(&self, route: Route) -> Result<Created, Fault>;
    /// The same, with what happens to messages of the route that waited too long.
    async fn create_route_with_policy(&self, route: Route, policy: StalePolicy) -> Result<Created, Fault>;
    /// The routes that the operator made.
    async fn routes(&self) -> Result<Vec<Route>, Fault>;
    /// Removes a route. Entries that wait for its agent by this route alone end, and so do its dead letters;
    /// both stay as traces. The agent can no longer reach the chats that only this route gave it.
    async fn remove_route(
        &self,
        platform: &Platform,
        bot: &BotId,
        which: &Discriminator,
    ) -> Result<Removed, Fault>;
    /// Ends entries of this instance on this bot that no route covers any more. False when there were none.
    async fn end_unrouted(&self, on: &BotRef, instance: &InstanceId) -> Result<bool, Fault>;
    /// Handles a chat that has got a new id. Its routes are rewritten, and the agent that had the old id may
    /// reach the new one. Access decisions about the chat move too. Whatever exists for the new id stays and
    /// wins. Repeating it is harmless. True when a route or a decision changed.
    async fn move_chat(&self, on: &BotRef, from: &ChatId, to: &ChatId) -> Result<bool, Fault>;
    /// The target of the first of `candidates` that has a route on this bot.
    async fn route(&self, on: &BotRef, candidates: &[Discriminator]) -> Result<Option<RouteTo>, Fault>;
    /// The owner of the first of `candidates` that has a route on this bot, and the profile that events from there get:
    /// that of the route, else that of the agent.
    async fn place_owner(
        &self,
        on: &BotRef,
        candidates: &[Discriminator],
    ) -> Result<Option<PlaceOwner>, Fault>;
    /// The bots that this instance uses, by a route or as one of a shared bot's agents, oldest first.
    async fn bots_used_by(&self, of: &InstanceId) -> Result<Vec<BotRef>, Fault>;

    /// Whether this instance may write to this chat. The instance must use this bot. The chat must have been
    /// delivered to it there, lie in a place that is its own, or be the direct chat of an author linked to it. No other
    /// agent may own the chat by now, unless an author linked to this instance was seen in it.
    async fn may_reach(&self, from: &InstanceId, on: &BotRef, chat: &ChatId) -> Result<bool, Fault>;
    /// Whether this instance uses this bot, by a route or as one of a shared bot's agents.
    async fn has_route(&self, to: &InstanceId, on: &BotRef) -> Result<bool, Fault>;
    /// Whether this chat was delivered to this instance under this bot, regardless of routes. For
    /// conversations that need no route.
    async fn knows_chat(&self, of: &InstanceId, on: &BotRef, chat: &ChatId) -> Result<bool, Fault>;
    /// The bot under which this chat was last delivered to this instance.
    async fn last_identity(&self, of: &InstanceId, chat: &ChatId) -> Result<Option<BotRef>, Fault>;
    /// The chat of the last event that was delivered to this instance under this session key.
    async fn chat_of_session(
        &self,
        of: &InstanceId,
        key: &SessionKey,
    ) -> Result<Option<(BotRef, ChatId)>, Fault>;
}

//! The cached view of the roster: agents by name, owners of access tokens, routes. All doors share it.
//!
//! A cached record names what it depends on. A change notes its subject here before its command answers, and goes to
//! other nodes over the bus.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use bus::{Bus, Notification};
use ledger::{AccessRecord, BotRef, Discriminator, Instance, Owner, Roster, TokenHash};
use posthouse_time::{Instant, Timepiece};
use posthouse_wire::{ClientId, InstanceId, LoginId, Platform, TenantId, UserId};
use quick_cache::Equivalent;
use vault::Keyring;

use crate::Fault;
use crate::record_cache::{ReadMark, RecordCache};
use crate::roster_versions::{RosterChange, RosterVersions, RosterWatch};
use crate::route::{EventPlace, Routed};

/// Lifetime of cached agents and access tokens. A change on this node takes effect at once, one on another node whose
/// notification was lost within this time.
const REMEMBERED: Duration = Duration::from_secs(5);
/// Lifetime of cached routes. They are read for every message.
const ROUTES_REMEMBERED: Duration = Duration::from_secs(600);

/// The roster as all doors see it. Clones share one cache.
#[derive(Clone)]
pub struct RosterView(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub records: Arc<dyn Roster>,
    pub versions: RosterVersions,
    /// The routes of bots that have a single one for everything.
    pub whole_routes: RecordCache<BotRef, Routed>,
    /// All others, by place. Also places that have no route.
    pub place_routes: RecordCache<(BotRef, EventPlace), Option<Routed>>,
    keyring: Keyring,
    bus: Bus,
    timepiece: Timepiece,
    /// By tenant, and by name or id.
    agents: RecordCache<(TenantId, String), Arc<Instance>>,
    agents_of_logins: RecordCache<(TenantId, LoginId), Arc<Instance>>,
    access_tokens: RecordCache<TokenHash, Arc<AccessRecord>>,
}

impl RosterView {
    pub(crate) fn new(records: Arc<dyn Roster>, keyring: Keyring, bus: Bus, timepiece: Timepiece) -> Self {
        Self(Arc::new(Inner {
            records,
            versions: RosterVersions::default(),
            whole_routes: RecordCache::new(100_000, ROUTES_REMEMBERED),
            place_routes: RecordCache::new(200_000, ROUTES_REMEMBERED),
            keyring,
            bus,
            timepiece,
            agents: RecordCache::new(100_000, REMEMBERED),
            agents_of_logins: RecordCache::new(10_000, REMEMBERED),
            access_tokens: RecordCache::new(10_000, REMEMBERED),
        }))
    }

    /// The stored records themselves, for lists and for changes. Announce a change with the methods below.
    pub fn records(&self) -> &Arc<dyn Roster> {
        &self.0.records
    }

    /// An agent of this tenant by its name or id.
    pub async fn agent(&self, tenant: &TenantId, name_or_id: &str) -> Result<Option<Arc<Instance>>, Fault> {
        let key = (tenant.clone(), name_or_id.to_owned());
        if let Some(known) = self.0.agents.get(&key, &self.0.versions, self.now()) {
            return Ok(Some(known));
        }
        let read = self.read_mark();
        let found = match name_or_id.starts_with("inst_") {
            true => {
                let found = self.0.records.instance(&InstanceId::new(name_or_id)).await?;
                found.filter(|found| found.tenant == *tenant)
            }
            false => self.0.records.instance_named(tenant, name_or_id).await?,
        };
        let Some(agent) = found.map(Arc::new) else { return Ok(None) };
        let depends_on = vec![RosterChange::Agent(agent.id.clone())];
        self.0.agents.insert(key, Arc::clone(&agent), depends_on, read);
        Ok(Some(agent))
    }

    /// The agent that a login belongs to. A login is looked up inside its own tenant (cron contract section 1.1).
    pub(crate) async fn agent_of_login(
        &self,
        tenant: &TenantId,
        login: &LoginId,
    ) -> Result<Option<Arc<Instance>>, Fault> {
        let key = (tenant.clone(), login.clone());
        if let Some(known) = self.0.agents_of_logins.get(&key, &self.0.versions, self.now()) {
            return Ok(Some(known));
        }
        let read = self.read_mark();
        let found = self.0.records.instance_of_login(tenant, login).await?;
        let Some(agent) = found.map(Arc::new) else { return Ok(None) };
        let depends_on = vec![RosterChange::Agent(agent.id.clone()), RosterChange::Login(login.clone())];
        self.0.agents_of_logins.insert(key, Arc::clone(&agent), depends_on, read);
        Ok(Some(agent))
    }

    /// The owner of this access token. `None` when it is unknown, expired or revoked.
    pub(crate) async fn access_token(&self, token: &str) -> Result<Option<Arc<AccessRecord>>, Fault> {
        let (hash, now) = (Keyring::token_hash(token), self.0.timepiece.now());
        let known = self.0.access_tokens.get(&hash, &self.0.versions, self.now());
        if let Some(known) = known.filter(|known| known.expires > now) {
            return Ok(Some(known));
        }
        let read = self.read_mark();
        let Some(record) = self.0.keyring.access_record(hash).await?.map(Arc::new) else { return Ok(None) };
        let mut depends_on =
            vec![RosterChange::Tenant(record.tenant.clone()), RosterChange::Client(record.client.clone())];
        depends_on.extend(record.login.clone().map(RosterChange::Login));
        let agent = record.agent.clone().or_else(|| agent_of_client(&record.client));
        depends_on.extend(agent.map(RosterChange::Agent));
        self.0.access_tokens.insert(hash, Arc::clone(&record), depends_on, read);
        Ok(Some(record))
    }

    /// Announces that agents, connectors, aliases, permissions or access tokens of a tenant were changed.
    pub fn tenant_changed(&self, tenant: &TenantId) {
        self.0.versions.note(RosterChange::Tenant(tenant.clone()));
        self.0.bus.publish(Notification::TenantChanged { tenant: tenant.to_string() });
    }

    /// Announces that the settings or credentials of an agent were changed, or that it was removed.
    pub fn agent_changed(&self, agent: &InstanceId) {
        self.0.versions.note(RosterChange::Agent(agent.clone()));
        self.0.bus.publish(Notification::AgentChanged { instance: agent.to_string() });
    }

    /// Announces that a bot, its routes, or the list of people who may write to it was changed.
    pub fn bot_changed(&self, on: &BotRef) {
        self.0.versions.note(RosterChange::Bot(on.clone()));
        self.0
            .bus
            .publish(Notification::BotChanged { platform: on.platform.to_string(), bot: on.bot.to_string() });
    }

    /// Announces that an agent announced other commands for a bot. Only those who watch the roster hear of it.
    pub(crate) fn commands_changed(&self, on: &BotRef) {
        self.0.versions.note(RosterChange::Commands(on.clone()));
        let (platform, bot) = (on.platform.to_string(), on.bot.to_string());
        self.0.bus.publish(Notification::CommandsChanged { platform, bot });
    }

    /// Announces that the links of an author were changed.
    pub(crate) fn author_changed(&self, platform: &Platform, user: &UserId) {
        self.0.versions.note(RosterChange::Author(platform.clone(), user.clone()));
        let (platform, user) = (platform.to_string(), user.to_string());
        self.0.bus.publish(Notification::AuthorChanged { platform, user });
    }

    /// Announces that a place got another owner by a claim.
    pub(crate) fn place_changed(&self, on: &BotRef, place: &Discriminator) {
        self.0.versions.note(RosterChange::Place(on.clone(), place.clone()));
        self.0.bus.publish(Notification::PlaceChanged {
            platform: on.platform.to_string(),
            bot: on.bot.to_string(),
            kind: place.kind().to_owned(),
            value: place.value().to_owned(),
        });
    }

    /// Announces that a client credential was revoked.
    pub(crate) fn client_ended(&self, client: &ClientId) {
        self.0.versions.note(RosterChange::Client(client.clone()));
        self.0.bus.publish(Notification::ClientEnded { client: client.to_string() });
    }

    /// Announces that a login has ended.
    pub(crate) fn login_ended(&self, login: &LoginId) {
        self.0.versions.note(RosterChange::Login(login.clone()));
        self.0.bus.publish(Notification::LoginEnded { login: login.to_string() });
    }

    /// Notes a change that another node announced.
    pub(crate) fn react_to(&self, notification: &Notification) {
        let change = match notification {
            Notification::TenantChanged { tenant } => RosterChange::Tenant(tenant.as_str().into()),
            Notification::AgentChanged { instance } => RosterChange::Agent(instance.as_str().into()),
            Notification::BotChanged { platform, bot } => {
                RosterChange::Bot(BotRef { platform: platform.as_str().into(), bot: bot.as_str().into() })
            }
            Notification::CommandsChanged { platform, bot } => RosterChange::Commands(BotRef {
                platform: platform.as_str().into(),
                bot: bot.as_str().into(),
            }),
            Notification::AuthorChanged { platform, user } => {
                RosterChange::Author(platform.as_str().into(), user.as_str().into())
            }
            Notification::PlaceChanged { platform, bot, kind, value } => {
                let on = BotRef { platform: platform.as_str().into(), bot: bot.as_str().into() };
                match Discriminator::from_parts(kind, value) {
                    Some(place) => RosterChange::Place(on, place),
                    None => RosterChange::Bot(on),
                }
            }
            Notification::ClientEnded { client } => RosterChange::Client(client.as_str().into()),
            Notification::LoginEnded { login } => RosterChange::Login(login.as_str().into()),
            Notification::Revoked { .. }
            | Notification::Removed { .. }
            | Notification::Interrupt { .. }
            | Notification::Redriven { .. }
            | Notification::Arrived { .. } => return,
        };
        self.0.versions.note(change);
    }

    /// Notes that notifications were missed, so that anything may be stale.
    pub(crate) fn missed(&self) {
        self.0.versions.note(RosterChange::Anything);
    }

    /// Number of changes so far. A cache outside this crate remembers it from before its read.
    pub fn change_count(&self) -> u64 {
        self.0.versions.current()
    }

    /// Whether a bot, its routes, or the list of people who may write to it has changed after this number of changes.
    pub fn bot_changed_since(&self, count: u64, on: &BotRef) -> bool {
        // Mostly nothing at all has changed. Then no lookup is needed.
        self.change_count() != count && self.bot_version(on) > count
    }

    /// Version of a bot, its routes, and the list of people who may write to it.
    pub(crate) fn bot_version(&self, on: &BotRef) -> u64 {
        self.0.versions.of(&RosterChange::Bot(on.clone()))
    }

    /// Notifies of changes, for components that follow parts of the roster.
    pub fn watch(&self) -> RosterWatch {
        self.0.versions.watch()
    }

    pub(crate) fn now(&self) -> Instant {
        self.0.timepiece.instant()
    }

    /// A cached record of another component, if nothing that it depends on has changed.
    pub(crate) fn cached<K, V, Q>(&self, records: &RecordCache<K, V>, key: &Q) -> Option<V>
    where
        K: Hash + Eq,
        V: Clone,
        Q: Hash + Equivalent<K> + ?Sized,
    {
        records.get(key, &self.0.versions, self.now())
    }

    /// Whether what was read then still holds: nothing that it depends on has changed, and it is not too old.
    pub(crate) fn still_holds(
        &self,
        read: ReadMark,
        depends_on: &[RosterChange],
        lifetime: Duration,
    ) -> bool {
        self.now().since(read.at) < lifetime && !self.0.versions.changed_since(read.version, depends_on)
    }

    pub(crate) fn read_mark(&self) -> ReadMark {
        ReadMark { version: self.0.versions.current(), at: self.now() }
    }
}

/// The agent id in the client id of an agent.
pub(crate) fn agent_of_client(client: &ClientId) -> Option<InstanceId> {
    let id = client.as_str().strip_prefix("agent:").map(InstanceId::new)?;
    debug_assert_eq!(Owner::Instance(id.clone()).client(), *client);
    Some(id)
}

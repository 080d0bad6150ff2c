//! Routing: from an event's chat, scope or path to the agent it belongs to; removal of routes.

use std::sync::atomic::{AtomicU64, Ordering};

use ledger::{Discriminator, BotRef, Removed, RouteTo};
use posthouse_wire::{InstanceId, Source};

use crate::{Fault, Relay};

/// The parts of an event that decide its agent. The bot that received it only selects the set of routes.
#[derive(Clone, Copy, Debug)]
pub struct Bearings<'a> {
    pub source: &'a Source,
    /// The rest of the webhook's path, for platforms that route by it.
    pub path: Option<&'a str>,
}

impl Bearings<'_> {
    /// Most specific first. A thread belongs to its parent's agent unless it has its own route.
    fn discriminators(&self) -> Vec<Discriminator> {
        let chats = [&self.source.chat_id, &self.source.parent_chat_id];
        let mut candidates: Vec<_> = chats.into_iter().flatten().cloned().map(Discriminator::Chat).collect();
        candidates.extend(self.source.scope_id.clone().map(Discriminator::Scope));
        candidates.extend(self.path.map(|path| Discriminator::Path(path.to_owned())));
        candidates.push(Discriminator::Any);
        candidates
    }
}

/// The agent for an event, and the kind of route that led there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routed {
    pub to: RouteTo,
    /// The route names the event's chat or scope, so its creator wants messages from there.
    pub names_place: bool,
}

/// Counts removals of routes, so that code that found a route can tell whether one was removed before it was used.
#[derive(Default)]
pub(crate) struct RouteRemovals {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// A running removal. It ends when this is dropped.
struct Removing<'a>(&'a RouteRemovals);

impl RouteRemovals {
    fn begin(&self) -> Removing<'_> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        Removing(self)
    }
}

impl Drop for Removing<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

impl Relay {
    /// Number of route removals that have ended. Read it before looking up a route.
    pub fn route_removals(&self) -> u64 {
        self.0.route_removals.ended.load(Ordering::SeqCst)
    }

    /// Call this after an entry was stored by a route that was looked up at `removals_before`. A removal that began
    /// meanwhile may have removed that route and ended its waiting entries before this one was stored. In that case the
    /// waiting entries are ended again.
    pub async fn end_if_unrouted(
        &self,
        on: &BotRef,
        to: &InstanceId,
        removals_before: u64,
    ) -> Result<(), Fault> {
        if self.0.route_removals.begun.load(Ordering::SeqCst) == removals_before {
            return Ok(());
        }
        if self.0.roster.end_unrouted(on, to).await? {
            self.read_inbox_again(to);
        }
        Ok(())
    }

    /// Returns the agent for an event of this bot. `None` when there is no route for it.
    pub async fn route(&self, on: &BotRef, bearings: Bearings<'_>) -> Result<Option<RouteTo>, Fault> {
        Ok(self.find_route(on, bearings).await?.map(|routed| routed.to))
    }

    /// Same as [`Relay::route`], with the kind of route.
    pub async fn find_route(&self, on: &BotRef, bearings: Bearings<'_>) -> Result<Option<Routed>, Fault> {
        // The bot's version before the read is part of the cache key, so that an entry from before a change cannot
        // be found after it.
        let version = self.bot_version(on);
        let whole = (version, on.clone(), vec![Discriminator::Any]);
        if let Some(known) = self.0.routes.get(&whole) {
            return Ok(Some(known));
        }
        // The key also holds all bearings of the event, because scopes or paths of two tenants may contain the same
        // chat.
        let particular = (version, on.clone(), bearings.discriminators());
        if let Some(known) = self.0.routes.get(&particular) {
            return Ok(Some(known));
        }
        let Some(to) = self.0.roster.route(on, &particular.2).await? else { return Ok(None) };
        // An owned bot has one route for everything. A shared bot is cached per chat.
        let owned = self.0.roster.route(on, &whole.2).await?.is_some();
        let places: Vec<Discriminator> =
            particular.2.iter().filter(|which| which.is_place()).cloned().collect();
        let names_place =
            !owned && (bearings.path.is_none() || self.0.roster.route(on, &places).await?.is_some());
        let routed = Routed { to, names_place };
        self.0.routes.insert(if owned { whole } else { particular }, routed.clone());
        Ok(Some(routed))
    }

    /// Removes a route with immediate effect. From now on its agent's actions as this bot are declined, unless another
    /// route leads there. Entries that waited for the agent by this route alone are not delivered any more. Actions
    /// that have begun go on.
    pub async fn remove_route(&self, on: &BotRef, which: &Discriminator) -> Result<Removed, Fault> {
        let _removing = self.0.route_removals.begin();
        let owner = self.0.roster.route(on, std::slice::from_ref(which)).await?;
        let removed = self.0.roster.remove_route(&on.platform, &on.bot, which).await?;
        self.bot_changed(on);
        if let Some(owner) = owner {
            self.read_inbox_again(&owner.instance);
        }
        Ok(removed)
    }

    /// Removes a bot with its secrets and routes. The effect is that of [`Relay::remove_route`] for every agent of it.
    pub async fn remove_bot(&self, on: &BotRef) -> Result<Removed, Fault> {
        let _removing = self.0.route_removals.begin();
        let routes = self.0.roster.routes().await?;
        let removed = self.0.roster.remove_bot(&on.platform, &on.bot).await?;
        self.bot_changed(on);
        for route in routes.iter().filter(|route| route.platform == on.platform && route.bot == on.bot) {
            self.read_inbox_again(&route.instance);
        }
        Ok(removed)
    }

    /// Makes a live socket drop the entries it has read ahead and read the ledger again, after entries left the inbox
    /// without an acknowledgement.
    fn read_inbox_again(&self, of: &InstanceId) {
        let connections = self.connections(of);
        let mut state = connections.state.lock();
        state.fall_behind();
        state.rewound = true;
        if let Some(live) = state.live() {
            live.look();
        }
    }
}

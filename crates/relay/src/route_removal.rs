//! Removal of routes and bots: declines later actions, and ends entries that waited because of the route.

use std::sync::atomic::{AtomicU64, Ordering};

use ledger::{BotRef, Discriminator, Removed};
use posthouse_wire::InstanceId;

use crate::{Fault, Relay};

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

    /// Removes a route with immediate effect. From now on its agent's actions as this bot are declined, unless another
    /// route leads there. Entries that waited for the agent by this route alone are not delivered any more. Actions
    /// that have begun go on.
    pub async fn remove_route(&self, on: &BotRef, which: &Discriminator) -> Result<Removed, Fault> {
        let _removing = self.0.route_removals.begin();
        let owner = self.0.roster.route(on, std::slice::from_ref(which)).await?;
        let removed = self.0.roster.remove_route(&on.platform, &on.bot, which).await?;
        self.0.identity.roster.bot_changed(on);
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
        self.0.identity.roster.bot_changed(on);
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

//! Removal of routes and bots: declines later actions, and ends entries that waited because of the route.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use identity::Accounts;
use ledger::{BotRef, Discriminator, Removed, Roster, SharedBots};
use posthouse_wire::InstanceId;

use crate::Fault;
use crate::connections::Connections;

/// Removes routes, and counts removals, so that code that found a route can tell whether one was removed before it was
/// used.
pub struct RouteRemovals {
    begun: AtomicU64,
    ended: AtomicU64,
    accounts: Accounts,
    roster: Arc<dyn Roster>,
    shared_bots: Arc<dyn SharedBots>,
    connections: Arc<Connections>,
}

/// A running removal. It ends when this is dropped.
struct RemovalGuard<'a>(&'a RouteRemovals);

impl RouteRemovals {
    pub(crate) fn new(
        accounts: Accounts,
        roster: Arc<dyn Roster>,
        shared_bots: Arc<dyn SharedBots>,
        connections: Arc<Connections>,
    ) -> Self {
        Self {
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            accounts,
            roster,
            shared_bots,
            connections,
        }
    }

    fn begin(&self) -> RemovalGuard<'_> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        RemovalGuard(self)
    }

    /// Number of route removals that have ended. Read it before looking up a route.
    pub fn ended_count(&self) -> u64 {
        self.ended.load(Ordering::SeqCst)
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
        if self.begun.load(Ordering::SeqCst) == removals_before {
            return Ok(());
        }
        if self.roster.end_unrouted(on, to).await? {
            self.connections.read_inbox_again(to);
        }
        Ok(())
    }

    /// Removes a route with immediate effect. From now on its agent's actions as this bot are declined, unless another
    /// route leads there. Entries that waited for the agent by this route alone are not delivered any more. Actions
    /// that have begun go on.
    pub async fn remove_route(&self, on: &BotRef, which: &Discriminator) -> Result<Removed, Fault> {
        let _removing = self.begin();
        let owner = self.roster.route(on, std::slice::from_ref(which)).await?;
        let removed = self.accounts.remove_route(on, which).await?;
        if let Some(owner) = owner {
            self.connections.read_inbox_again(&owner.instance);
        }
        Ok(removed)
    }

    /// Removes a bot with its secrets and routes. The effect is that of [`RouteRemovals::remove_route`] for every agent
    /// of it.
    pub async fn remove_bot(&self, on: &BotRef) -> Result<Removed, Fault> {
        let _removing = self.begin();
        let agents = self.shared_bots.agents_on(on).await?;
        let removed = self.accounts.remove_bot(on).await?;
        agents.iter().for_each(|agent| self.connections.read_inbox_again(agent));
        Ok(removed)
    }

    /// Runs a change that takes a link, a claim or a bot from agents, with the effect of
    /// [`RouteRemovals::remove_route`]. `from` names the agents, as far as the result of the change tells.
    pub async fn take_away<T>(
        &self,
        change: impl Future<Output = Result<T, identity::Fault>>,
        from: impl FnOnce(&T) -> Vec<InstanceId>,
    ) -> Result<T, Fault> {
        let _removing = self.begin();
        let changed = change.await?;
        from(&changed).iter().for_each(|agent| self.connections.read_inbox_again(agent));
        Ok(changed)
    }
}

impl Drop for RemovalGuard<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::{Records, bot_of};

    use super::*;

    #[tokio::test]
    async fn an_entry_that_was_stored_while_its_route_was_removed_is_ended() {
        let records = Records::open().await;
        let (heron, on) = (records.enrol("heron").await.instance, bot_of("heron"));
        let removals = RouteRemovals::new(
            records.identity.accounts.clone(),
            records.ledger.roster(),
            records.ledger.shared_bots(),
            records.connections(),
        );
        let before = removals.ended_count();
        records.append(&heron, &on, None).await;
        removals.end_if_unrouted(&on, &heron, before).await.unwrap();
        assert_eq!(records.waiting(&heron).await, 1, "no route was removed meanwhile");
        removals.remove_bot(&on).await.unwrap();
        assert_eq!(records.waiting(&heron).await, 0);
        records.append(&heron, &on, None).await;
        removals.end_if_unrouted(&on, &heron, before).await.unwrap();
        assert_eq!(records.waiting(&heron).await, 0, "the entry came after the removal by an older lookup");
    }
}

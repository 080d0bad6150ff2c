//! Version numbers of bots and tenants, to invalidate caches of the roster.
//!
//! A change concerns one bot or one tenant, and invalidates only the cached data of that one. So a tenant that changes
//! its own roster all the time causes no ledger reads for others.

use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;
use ledger::BotRef;
use posthouse_wire::TenantId;
use tokio::sync::broadcast;

/// Maximum number of bots, and of tenants, with their own version. Beyond it, all count as changed once.
const MOST: usize = 100_000;
/// Capacity of a watcher's queue. A watcher that falls further behind gets `Anything`.
const WAITING: usize = 1024;

/// Subject of a roster change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RosterChange {
    /// A bot, its routes, or the list of people who may write to it.
    Bot(BotRef),
    /// A tenant: its agents, connectors, aliases or permissions.
    Tenant(TenantId),
    /// Unknown. It may concern everything.
    Anything,
}

pub(crate) struct RosterVersions {
    /// Counts all changes.
    count: AtomicU64,
    /// Everything cached before this change is stale.
    floor: AtomicU64,
    bots: DashMap<BotRef, u64>,
    tenants: DashMap<TenantId, u64>,
    changes: broadcast::Sender<RosterChange>,
}

impl Default for RosterVersions {
    fn default() -> Self {
        Self {
            count: AtomicU64::default(),
            floor: AtomicU64::default(),
            bots: DashMap::new(),
            tenants: DashMap::new(),
            changes: broadcast::Sender::new(WAITING),
        }
    }
}

impl RosterVersions {
    pub fn note(&self, change: RosterChange) {
        let version = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        match &change {
            RosterChange::Bot(on) => drop(self.bots.insert(on.clone(), version)),
            RosterChange::Tenant(tenant) => drop(self.tenants.insert(tenant.clone(), version)),
            RosterChange::Anything => self.raise_floor(version),
        }
        if self.bots.len() > MOST || self.tenants.len() > MOST {
            self.raise_floor(version);
        }
        // There may be no watcher.
        let _ = self.changes.send(change);
    }

    /// Raises the floor first, so that a concurrent reader finds either the floor or the single version. Later changes
    /// stay: without them, data cached between the two would become valid again.
    fn raise_floor(&self, version: u64) {
        self.floor.fetch_max(version, Ordering::SeqCst);
        self.bots.retain(|_, last| *last > version);
        self.tenants.retain(|_, last| *last > version);
    }

    pub fn of_bot(&self, on: &BotRef) -> u64 {
        let known = self.bots.get(on).map_or(0, |version| *version);
        known.max(self.floor.load(Ordering::SeqCst))
    }

    pub fn of_tenant(&self, tenant: &TenantId) -> u64 {
        let known = self.tenants.get(tenant).map_or(0, |version| *version);
        known.max(self.floor.load(Ordering::SeqCst))
    }

    pub fn watch(&self) -> RosterWatch {
        RosterWatch(self.changes.subscribe())
    }
}

/// Receives roster changes of this node and of others.
pub struct RosterWatch(broadcast::Receiver<RosterChange>);

impl RosterWatch {
    /// The next change. `None` when the relay was dropped.
    pub async fn changed(&mut self) -> Option<RosterChange> {
        match self.0.recv().await {
            Ok(change) => Some(change),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(RosterChange::Anything),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bot(id: &str) -> BotRef {
        BotRef { platform: "pigeon".into(), bot: id.into() }
    }

    #[test]
    fn a_change_concerns_its_own_bot_or_tenant_and_an_unknown_one_everything() {
        let versions = RosterVersions::default();
        let all = || {
            [
                versions.of_bot(&bot("1")),
                versions.of_bot(&bot("2")),
                versions.of_tenant(&"ten_1".into()),
                versions.of_tenant(&"ten_2".into()),
            ]
        };
        for (change, concerned) in [
            (RosterChange::Bot(bot("1")), [true, false, false, false]),
            (RosterChange::Tenant("ten_2".into()), [false, false, false, true]),
            (RosterChange::Anything, [true; 4]),
            (RosterChange::Bot(bot("1")), [true, false, false, false]),
        ] {
            let before = all();
            versions.note(change.clone());
            let changed: Vec<bool> =
                before.iter().zip(all()).map(|(before, after)| *before != after).collect();
            assert_eq!(changed, concerned, "{change:?}");
        }
    }

    #[test]
    fn a_change_that_comes_while_everything_is_forgotten_is_not_forgotten() {
        let versions = RosterVersions::default();
        // A change that concerns everything has taken its number, but has not raised the floor yet.
        let anything = versions.count.fetch_add(1, Ordering::SeqCst) + 1;
        versions.note(RosterChange::Bot(bot("1")));
        versions.note(RosterChange::Tenant("ten_1".into()));
        let (of_bot, of_tenant) = (versions.of_bot(&bot("1")), versions.of_tenant(&"ten_1".into()));
        versions.raise_floor(anything);
        assert_eq!((versions.of_bot(&bot("1")), versions.of_tenant(&"ten_1".into())), (of_bot, of_tenant));
        assert_eq!(versions.of_bot(&bot("2")), anything);
    }
}

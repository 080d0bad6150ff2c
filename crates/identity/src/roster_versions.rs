//! Version numbers of tenants, agents, bots and credentials, to invalidate cached records of them.
//!
//! A change concerns one of them, and invalidates only what was cached about that one. So a tenant that changes its own
//! roster all the time causes no ledger reads for others.

use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;
use ledger::{BotRef, Discriminator};
use posthouse_wire::{ClientId, InstanceId, LoginId, Platform, TenantId, UserId};
use tokio::sync::broadcast;

/// Maximum number of subjects with their own version. Beyond it, all count as changed once.
const MOST: usize = 100_000;
/// Capacity of a watcher's queue. A watcher that falls further behind gets `Anything`.
const WAITING: usize = 1024;

/// Subject of a roster change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RosterChange {
    /// A tenant: which agents, connectors and aliases it has, or its permissions.
    Tenant(TenantId),
    /// An agent: its settings or credentials, or that it was removed.
    Agent(InstanceId),
    /// A bot, its routes, or the list of people who may write to it.
    Bot(BotRef),
    /// The commands that agents announced for a bot. An agent can change them as often as it likes, so no cached record
    /// depends on them.
    Commands(BotRef),
    /// An author on a platform: the agents they are linked to.
    Author(Platform, UserId),
    /// A chat, scope or path of a bot: the agent it belongs to by a claim.
    Place(BotRef, Discriminator),
    /// A client credential: it was revoked.
    Client(ClientId),
    /// A login: it has ended.
    Login(LoginId),
    /// Unknown. It may concern everything.
    Anything,
}

pub(crate) struct RosterVersions {
    /// Counts all changes.
    count: AtomicU64,
    /// Everything cached before this change is stale.
    floor: AtomicU64,
    /// Number of the last change of each subject.
    last: DashMap<RosterChange, u64>,
    changes: broadcast::Sender<RosterChange>,
}

impl Default for RosterVersions {
    fn default() -> Self {
        Self {
            count: AtomicU64::default(),
            floor: AtomicU64::default(),
            last: DashMap::new(),
            changes: broadcast::Sender::new(WAITING),
        }
    }
}

impl RosterVersions {
    /// Number of changes so far. A cache reads it before it reads the ledger, so that a change during the read counts
    /// as later.
    pub fn current(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Whether one of these subjects has changed after this number of changes.
    pub fn changed_since(&self, version: u64, subjects: &[RosterChange]) -> bool {
        // Mostly nothing at all has changed. Then no lookup is needed.
        if self.current() == version {
            return false;
        }
        let changed = |subject: &RosterChange| self.last.get(subject).is_some_and(|last| *last > version);
        subjects.iter().any(changed) || self.floor.load(Ordering::SeqCst) > version
    }

    /// Version of one subject. It grows with every change.
    pub fn of(&self, subject: &RosterChange) -> u64 {
        let known = self.last.get(subject).map_or(0, |version| *version);
        known.max(self.floor.load(Ordering::SeqCst))
    }

    pub fn note(&self, change: RosterChange) {
        match &change {
            RosterChange::Commands(_) => {}
            RosterChange::Anything => {
                let version = self.next();
                self.raise_floor(version);
            }
            subject => {
                let version = self.next();
                self.raise(subject, version);
                if self.last.len() > MOST {
                    self.raise_floor(version);
                }
            }
        }
        // There may be no watcher.
        let _ = self.changes.send(change);
    }

    fn next(&self) -> u64 {
        self.count.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Two changes of one subject may get here in the other order than they got their numbers. The higher one stays.
    fn raise(&self, subject: &RosterChange, version: u64) {
        self.last.entry(subject.clone()).and_modify(|last| *last = version.max(*last)).or_insert(version);
    }

    /// Raises the floor first, so that a concurrent reader finds either the floor or the single version. Later changes
    /// stay: without them, data cached between the two would become valid again.
    fn raise_floor(&self, version: u64) {
        self.floor.fetch_max(version, Ordering::SeqCst);
        self.last.retain(|_, last| *last > version);
    }

    pub fn watch(&self) -> RosterWatch {
        RosterWatch(self.changes.subscribe())
    }
}

/// Receives roster changes of this node and of others.
pub struct RosterWatch(broadcast::Receiver<RosterChange>);

impl RosterWatch {
    /// The next change. `None` when the view of the roster was dropped.
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
    fn a_change_concerns_its_own_subject_and_an_unknown_one_everything() {
        let versions = RosterVersions::default();
        let subjects = [
            RosterChange::Bot(bot("1")),
            RosterChange::Bot(bot("2")),
            RosterChange::Tenant("ten_1".into()),
            RosterChange::Agent("inst_1".into()),
            RosterChange::Client("agent:inst_1".into()),
            RosterChange::Login("log_1".into()),
            RosterChange::Author("pigeon".into(), "u1".into()),
            RosterChange::Author("pigeon".into(), "u2".into()),
            RosterChange::Place(bot("1"), Discriminator::Any),
        ];
        for (changed, change) in subjects.iter().enumerate() {
            let before = versions.current();
            versions.note(change.clone());
            for (place, subject) in subjects.iter().enumerate() {
                let concerned = versions.changed_since(before, std::slice::from_ref(subject));
                assert_eq!(concerned, place == changed, "{change:?} and {subject:?}");
            }
        }
        let before = versions.current();
        versions.note(RosterChange::Anything);
        assert!(subjects.iter().all(|one| versions.changed_since(before, std::slice::from_ref(one))));
    }

    #[test]
    fn a_change_that_comes_while_everything_is_forgotten_is_not_forgotten() {
        let versions = RosterVersions::default();
        // A change that concerns everything has taken its number, but has not raised the floor yet.
        let anything = versions.count.fetch_add(1, Ordering::SeqCst) + 1;
        let subject = RosterChange::Bot(bot("1"));
        versions.note(subject.clone());
        versions.raise_floor(anything);
        assert!(versions.changed_since(anything, std::slice::from_ref(&subject)));
        assert!(!versions.changed_since(anything, &[RosterChange::Bot(bot("2"))]));
    }

    #[test]
    fn of_two_changes_of_one_subject_the_later_counts_whichever_is_recorded_last() {
        let versions = RosterVersions::default();
        let subject = RosterChange::Tenant("ten_1".into());
        versions.raise(&subject, 6);
        versions.raise(&subject, 5);
        assert!(versions.changed_since(5, std::slice::from_ref(&subject)));
    }
}

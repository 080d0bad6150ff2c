//! The handle of this plane.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bus::{Bus, Heard, Word};
use dashmap::DashMap;
use errand::Errand;
use ledger::{Discriminator, Identity, Inbox, Outbox, Roster, RouteTo, Traces};
use moka::sync::Cache;
use posthouse_time::Timepiece;
use posthouse_wire::{ChatId, GatewayId, InstanceId};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vault::Keyring;

use crate::auth::Refusals;
use crate::desk::Desk;
use crate::fires::Fires;
use crate::rouse::Rouse;
use crate::taken::Taken;
use crate::{Config, Fault, Metrics};

/// How long a closing relay waits for its sockets' goodbyes and for actions under way.
const CLOSED_WITHIN: Duration = Duration::from_secs(7);

/// What the relay is built from. It holds a keyring, never the vault.
pub struct Parts {
    pub config: Config,
    pub inbox: Arc<dyn Inbox>,
    pub outbox: Arc<dyn Outbox>,
    pub roster: Arc<dyn Roster>,
    pub traces: Arc<dyn Traces>,
    pub keyring: Keyring,
    pub bus: Bus,
    pub errand: Errand,
    pub timepiece: Timepiece,
}

/// Agents on the line; a handle to share.
#[derive(Clone)]
pub struct Relay(pub(crate) Arc<Inner>);

/// Tells when the roster has changed, here or on another node.
pub struct RosterWatch(watch::Receiver<u64>);

impl RosterWatch {
    /// Resolves after the next change; false when the relay is gone.
    pub async fn changed(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}

pub(crate) struct Inner {
    pub config: Config,
    pub inbox: Arc<dyn Inbox>,
    pub outbox: Arc<dyn Outbox>,
    pub roster: Arc<dyn Roster>,
    pub traces: Arc<dyn Traces>,
    pub keyring: Keyring,
    pub bus: Bus,
    pub timepiece: Timepiece,
    pub metrics: Arc<Metrics>,
    pub desks: DashMap<InstanceId, Arc<Desk>>,
    pub routes: Cache<(u64, Identity, Vec<Discriminator>), RouteTo>,
    /// Conversations remembered lately, with the identity they were last seen under.
    pub sighted: Cache<(InstanceId, ChatId), u64>,
    pub refusals: Refusals,
    pub rouse: Rouse,
    pub fires: Fires,
    pub taken: Taken,
    pub sockets: AtomicU64,
    /// Counts changes of the roster, for whoever remembers parts of it.
    pub roster_version: watch::Sender<u64>,
    pub tasks: TaskTracker,
    /// Told when the house closes: sockets say 1012 and end.
    pub closing: CancellationToken,
}

impl Relay {
    pub fn new(parts: Parts) -> Self {
        let inner = Arc::new(Inner {
            rouse: Rouse::new(parts.errand),
            config: parts.config.clone(),
            inbox: parts.inbox,
            outbox: parts.outbox,
            roster: parts.roster,
            traces: parts.traces,
            keyring: parts.keyring.granting_access_for(parts.config.access_token.0),
            bus: parts.bus,
            timepiece: parts.timepiece,
            metrics: Arc::default(),
            desks: DashMap::new(),
            routes: Cache::builder().max_capacity(200_000).time_to_live(Duration::from_secs(600)).build(),
            sighted: Cache::builder().max_capacity(100_000).time_to_live(Duration::from_secs(60)).build(),
            refusals: Refusals::default(),
            fires: Fires::default(),
            taken: Taken::default(),
            sockets: AtomicU64::new(1),
            roster_version: watch::Sender::new(0),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        });
        // The ledger calls from its writer's thread, in commit order: that order is the inbox's.
        let weak = Arc::downgrade(&inner);
        inner.inbox.follow(Arc::new(move |entry| {
            if let Some(inner) = weak.upgrade() {
                Relay(inner).appended(entry);
            }
        }));
        Self(inner)
    }

    /// The loops of this plane, until the house closes.
    pub async fn run(&self) -> Result<(), Fault> {
        let mut words = self.0.bus.listen();
        let rousing = self.0.tasks.spawn({
            let relay = self.clone();
            async move { relay.keep_rousing().await }
        });
        loop {
            tokio::select! {
                () = self.0.closing.cancelled() => break,
                heard = words.hear() => match heard {
                    Heard::Word(word) => self.heard(word),
                    // Whatever was missed, what is remembered may be stale.
                    Heard::Missed => self.catch_up_with_roster(),
                    Heard::Silence => break,
                },
            }
        }
        let _ = rousing.await;
        Ok(())
    }

    fn catch_up_with_roster(&self) {
        self.forget_roster();
        let relay = self.clone();
        self.0.tasks.spawn(async move {
            if let Err(fault) = relay.look_over_seats().await {
                tracing::error!(%fault, "could not check the credentials of those connected");
            }
        });
    }

    fn heard(&self, word: Word) {
        match word {
            Word::RosterChanged => self.forget_roster(),
            Word::Revoked { gateway } => self.close_gateway(&GatewayId::from(gateway)),
            Word::Removed { instance } => {
                self.forget_roster();
                self.close_instance(&InstanceId::from(instance));
            }
            Word::Interrupt { instance, session_key, chat } => {
                self.stop_turn(&instance.into(), &session_key.into(), &chat.into());
            }
            Word::Redriven { instance } => self.rewind(&InstanceId::from(instance)),
            // For those who listen through `arrivals`.
            Word::Arrived { .. } => {}
        }
    }

    /// Stops delivering, lets acknowledgements and answers in flight finish, then closes every socket.
    pub async fn close(&self) {
        self.0.closing.cancel();
        self.0.tasks.close();
        // An action that hangs is not waited for: its record says that its end is unknown.
        if self.0.timepiece.within(CLOSED_WITHIN, self.0.tasks.wait()).await.is_err() {
            tracing::warn!("closed with actions under way");
        }
    }

    /// Work that the closing house waits for.
    pub fn tasks(&self) -> &TaskTracker {
        &self.0.tasks
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    pub fn keyring(&self) -> &Keyring {
        &self.0.keyring
    }

    pub fn roster(&self) -> &Arc<dyn Roster> {
        &self.0.roster
    }

    pub fn traces(&self) -> &Arc<dyn Traces> {
        &self.0.traces
    }

    pub fn inbox(&self) -> &Arc<dyn Inbox> {
        &self.0.inbox
    }

    /// Says that routes, bots or agents were changed.
    pub fn roster_changed(&self) {
        self.forget_roster();
        self.0.bus.tell(Word::RosterChanged);
    }

    /// Nobody finds what was remembered under an earlier version (see `route`); letting go of it only
    /// makes room.
    fn forget_roster(&self) {
        self.0.roster_version.send_modify(|version| *version += 1);
        self.0.routes.invalidate_all();
        // Whoever was removed took its tokens along.
        self.0.keyring.forget_bearers();
    }

    /// Counts the changes of the roster that this node knows of: what is remembered under the count at which
    /// it was asked for cannot be found after a change.
    pub fn roster_version(&self) -> u64 {
        *self.0.roster_version.borrow()
    }

    /// For whoever remembers parts of the roster.
    pub fn watch_roster(&self) -> RosterWatch {
        RosterWatch(self.0.roster_version.subscribe())
    }

    pub(crate) fn desk(&self, instance: &InstanceId) -> Arc<Desk> {
        if let Some(desk) = self.0.desks.get(instance) {
            return Arc::clone(&desk);
        }
        let made =
            self.0.desks.entry(instance.clone()).or_insert_with(|| Arc::new(Desk::new(instance.clone())));
        Arc::clone(&made)
    }
}

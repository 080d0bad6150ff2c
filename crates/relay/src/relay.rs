//! `Relay`, the handle of this plane: construction, main loop, shutdown.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bus::{Bus, BusEvent, Word};
use dashmap::DashMap;
use errand::Errand;
use identity::Identity;
use ledger::{Inbox, Outbox, Roster};
use moka::sync::Cache;
use posthouse_time::Timepiece;
use posthouse_wire::{ChatId, GatewayId, InstanceId};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::ack_waiters::AckWaiters;
use crate::agent_connections::AgentConnections;
use crate::fires::Fires;
use crate::full_inboxes::FullInboxes;
use crate::long_lines::LongLines;
use crate::route_removal::RouteRemovals;
use crate::wake_calls::WakeCalls;
use crate::{Config, Fault, Metrics};

/// Time limit at shutdown for closing handshakes of sockets and for running actions.
const CLOSED_WITHIN: Duration = Duration::from_secs(7);

/// Dependencies of the relay.
pub struct Parts {
    pub config: Config,
    pub inbox: Arc<dyn Inbox>,
    pub outbox: Arc<dyn Outbox>,
    pub identity: Identity,
    pub bus: Bus,
    pub errand: Errand,
    pub timepiece: Timepiece,
}

/// The agents' connections and inboxes. A cloneable handle.
#[derive(Clone)]
pub struct Relay(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub config: Config,
    pub inbox: Arc<dyn Inbox>,
    pub outbox: Arc<dyn Outbox>,
    pub roster: Arc<dyn Roster>,
    pub identity: Identity,
    pub bus: Bus,
    pub timepiece: Timepiece,
    pub metrics: Arc<Metrics>,
    pub connections: DashMap<InstanceId, Arc<AgentConnections>>,
    /// Conversations recorded recently, with a fingerprint of the identity they were last seen under.
    pub sighted: Cache<(InstanceId, ChatId), u64>,
    pub wake_calls: WakeCalls,
    pub fires: Fires,
    pub ack_waiters: AckWaiters,
    pub full_inboxes: FullInboxes,
    pub route_removals: RouteRemovals,
    pub sockets: AtomicU64,
    pub long_lines: LongLines,
    pub tasks: TaskTracker,
    /// Cancelled at shutdown: sockets close with 1012.
    pub closing: CancellationToken,
}

impl Relay {
    pub fn new(parts: Parts) -> Self {
        let inner = Arc::new(Inner {
            wake_calls: WakeCalls::new(parts.errand),
            config: parts.config.clone(),
            inbox: parts.inbox,
            outbox: parts.outbox,
            roster: Arc::clone(parts.identity.roster.records()),
            identity: parts.identity,
            bus: parts.bus,
            timepiece: parts.timepiece,
            metrics: Arc::default(),
            connections: DashMap::new(),
            sighted: Cache::builder().max_capacity(100_000).time_to_live(Duration::from_secs(60)).build(),
            fires: Fires::default(),
            ack_waiters: AckWaiters::default(),
            full_inboxes: FullInboxes::default(),
            route_removals: RouteRemovals::default(),
            sockets: AtomicU64::new(1),
            long_lines: LongLines::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        });
        // The ledger calls this from its writer thread in commit order, which is the order of the inbox.
        let weak = Arc::downgrade(&inner);
        inner.inbox.follow(Arc::new(move |entry| {
            if let Some(inner) = weak.upgrade() {
                Relay(inner).appended(entry);
            }
        }));
        Self(inner)
    }

    /// Runs the loops of this plane until shutdown.
    pub async fn run(&self) -> Result<(), Fault> {
        let mut words = self.0.bus.listen();
        let rousing = self.0.tasks.spawn({
            let relay = self.clone();
            async move { relay.keep_waking().await }
        });
        loop {
            tokio::select! {
                () = self.0.closing.cancelled() => break,
                heard = words.hear() => match heard {
                    BusEvent::Word(word) => self.heard(word),
                    BusEvent::Missed => self.check_seats_again(),
                    BusEvent::Silence => break,
                },
            }
        }
        let _ = rousing.await;
        Ok(())
    }

    /// A revocation may have been missed, so the credentials of all connected agents are checked.
    fn check_seats_again(&self) {
        let relay = self.clone();
        self.0.tasks.spawn(async move {
            if let Err(fault) = relay.look_over_seats().await {
                tracing::error!(%fault, "could not check the credentials of the connected agents");
            }
        });
    }

    fn heard(&self, word: Word) {
        match word {
            Word::Revoked { gateway } => self.close_gateway(&GatewayId::from(gateway)),
            Word::Removed { instance } => self.close_instance(&InstanceId::from(instance)),
            Word::Interrupt { instance, session_key, chat } => {
                self.stop_turn(&instance.into(), &session_key.into(), &chat.into());
            }
            Word::Redriven { instance } => self.rewind(&InstanceId::from(instance)),
            // These are for listeners of `arrivals`, and for the view of the roster.
            Word::Arrived { .. }
            | Word::BotChanged { .. }
            | Word::TenantChanged { .. }
            | Word::AgentChanged { .. }
            | Word::ClientEnded { .. }
            | Word::LoginEnded { .. }
            | Word::RosterChanged => {}
        }
    }

    /// Stops delivering, waits for acknowledgements and results in flight, then closes every socket.
    pub async fn close(&self) {
        self.0.closing.cancel();
        self.0.tasks.close();
        // A hanging action is not waited for. Its record says that its outcome is unknown.
        if self.0.timepiece.within(CLOSED_WITHIN, self.0.tasks.wait()).await.is_err() {
            tracing::warn!("the relay closed while actions were still running");
        }
    }

    /// Tasks that shutdown waits for.
    pub fn tasks(&self) -> &TaskTracker {
        &self.0.tasks
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    pub fn inbox(&self) -> &Arc<dyn Inbox> {
        &self.0.inbox
    }

    pub(crate) fn connections(&self, instance: &InstanceId) -> Arc<AgentConnections> {
        if let Some(connections) = self.0.connections.get(instance) {
            return Arc::clone(&connections);
        }
        let made = self
            .0
            .connections
            .entry(instance.clone())
            .or_insert_with(|| Arc::new(AgentConnections::new(instance.clone())));
        Arc::clone(&made)
    }
}

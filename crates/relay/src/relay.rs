//! `Relay`, the handle of this plane: construction, main loop, shutdown, cache invalidation.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bus::{Bus, BusEvent, Word};
use dashmap::DashMap;
use errand::Errand;
use ledger::{Discriminator, Identity, Inbox, Outbox, Roster, Traces};
use moka::sync::Cache;
use posthouse_time::Timepiece;
use posthouse_wire::{ChatId, GatewayId, InstanceId, TenantId};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vault::Keyring;

use crate::ack_waiters::AckWaiters;
use crate::agent_connections::AgentConnections;
use crate::auth::Refusals;
use crate::fires::Fires;
use crate::full_inboxes::FullInboxes;
use crate::long_lines::LongLines;
use crate::refresh_log::RefreshLog;
use crate::roster_versions::{RosterChange, RosterVersions, RosterWatch};
use crate::route::{RouteRemovals, Routed};
use crate::wake_calls::WakeCalls;
use crate::{Config, Fault, Metrics};

/// Time limit at shutdown for closing handshakes of sockets and for running actions.
const CLOSED_WITHIN: Duration = Duration::from_secs(7);

/// Dependencies of the relay. It gets a keyring, never the vault.
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

/// The agents' connections and inboxes. A cloneable handle.
#[derive(Clone)]
pub struct Relay(pub(crate) Arc<Inner>);

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
    pub connections: DashMap<InstanceId, Arc<AgentConnections>>,
    pub routes: Cache<(u64, Identity, Vec<Discriminator>), Routed>,
    /// Conversations recorded recently, with a fingerprint of the identity they were last seen under.
    pub sighted: Cache<(InstanceId, ChatId), u64>,
    pub refusals: Refusals,
    pub wake_calls: WakeCalls,
    pub fires: Fires,
    pub ack_waiters: AckWaiters,
    pub full_inboxes: FullInboxes,
    pub refresh_log: RefreshLog,
    pub route_removals: RouteRemovals,
    pub sockets: AtomicU64,
    pub long_lines: LongLines,
    /// Versions of the parts of the roster, for caches.
    pub roster_versions: RosterVersions,
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
            roster: parts.roster,
            traces: parts.traces,
            keyring: parts.keyring.granting_access_for(parts.config.access_token.0),
            bus: parts.bus,
            timepiece: parts.timepiece,
            metrics: Arc::default(),
            connections: DashMap::new(),
            routes: Cache::builder().max_capacity(200_000).time_to_live(Duration::from_secs(600)).build(),
            sighted: Cache::builder().max_capacity(100_000).time_to_live(Duration::from_secs(60)).build(),
            refusals: Refusals::default(),
            fires: Fires::default(),
            ack_waiters: AckWaiters::default(),
            full_inboxes: FullInboxes::default(),
            refresh_log: RefreshLog::default(),
            route_removals: RouteRemovals::default(),
            sockets: AtomicU64::new(1),
            long_lines: LongLines::default(),
            roster_versions: RosterVersions::default(),
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
                    // Any notification may have been missed, so all cached data may be stale.
                    BusEvent::Missed => self.catch_up_with_roster(),
                    BusEvent::Silence => break,
                },
            }
        }
        let _ = rousing.await;
        Ok(())
    }

    fn catch_up_with_roster(&self) {
        self.forget(RosterChange::Anything);
        let relay = self.clone();
        self.0.tasks.spawn(async move {
            if let Err(fault) = relay.look_over_seats().await {
                tracing::error!(%fault, "could not check the credentials of the connected agents");
            }
        });
    }

    fn heard(&self, word: Word) {
        match word {
            Word::BotChanged { platform, bot } => {
                self.forget(RosterChange::Bot(Identity { platform: platform.into(), bot: bot.into() }));
            }
            Word::TenantChanged { tenant } => self.forget(RosterChange::Tenant(tenant.into())),
            Word::RosterChanged => self.forget(RosterChange::Anything),
            Word::Revoked { gateway } => self.close_gateway(&GatewayId::from(gateway)),
            Word::Removed { instance } => self.close_instance(&InstanceId::from(instance)),
            Word::Interrupt { instance, session_key, chat } => {
                self.stop_turn(&instance.into(), &session_key.into(), &chat.into());
            }
            Word::Redriven { instance } => self.rewind(&InstanceId::from(instance)),
            // Only listeners of `arrivals` use this.
            Word::Arrived { .. } => {}
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

    /// Announces that a bot, its routes, or the list of people who may write to it was changed.
    pub fn bot_changed(&self, on: &Identity) {
        self.forget(RosterChange::Bot(on.clone()));
        self.0.bus.tell(Word::BotChanged { platform: on.platform.to_string(), bot: on.bot.to_string() });
    }

    /// Announces that agents, connectors, aliases or permissions of a tenant were changed.
    pub fn tenant_changed(&self, tenant: &TenantId) {
        self.forget(RosterChange::Tenant(tenant.clone()));
        self.0.bus.tell(Word::TenantChanged { tenant: tenant.to_string() });
    }

    /// Announces that anything in the roster may have changed. This empties the caches of every tenant, so a caller
    /// that knows what changed uses [`Relay::bot_changed`] or [`Relay::tenant_changed`] instead.
    pub fn roster_changed(&self) {
        self.forget(RosterChange::Anything);
        self.0.bus.tell(Word::RosterChanged);
    }

    /// Invalidates caches. Entries under an earlier version are not found any more and expire later.
    fn forget(&self, change: RosterChange) {
        // Tokens of a removed agent or tenant have ended too.
        match &change {
            RosterChange::Bot(_) => {}
            RosterChange::Tenant(tenant) => self.0.keyring.forget_bearers_of(tenant),
            RosterChange::Anything => {
                self.0.routes.invalidate_all();
                self.0.keyring.forget_bearers();
            }
        }
        self.0.roster_versions.note(change);
    }

    /// Version of a bot, its routes, and the list of people who may write to it. A cache uses the version from before
    /// the read as part of its key, so that an entry is not found after a change.
    pub fn bot_version(&self, on: &Identity) -> u64 {
        self.0.roster_versions.of_bot(on)
    }

    /// Version of a tenant's agents, connectors, aliases and permissions, for caches.
    pub fn tenant_version(&self, tenant: &TenantId) -> u64 {
        self.0.roster_versions.of_tenant(tenant)
    }

    /// Notifies of roster changes, for components that cache parts of the roster.
    pub fn watch_roster(&self) -> RosterWatch {
        self.0.roster_versions.watch()
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

//! `Relay`, the handle of this plane: construction, main loop, shutdown.

use std::sync::Arc;

use bus::{Bus, BusEvent, Notification};
use errand::Errand;
use identity::Identity;
use ledger::{Inbox, InboxLimits, Outbox, Roster};
use posthouse_time::Timepiece;
use posthouse_wire::{GatewayId, InstanceId};
use tokio_util::task::TaskTracker;

use crate::acknowledgements::Acknowledgements;
use crate::actions::Actions;
use crate::background::RelayTasks;
use crate::connections::Connections;
use crate::expirations::Expirations;
use crate::fires::Fires;
use crate::gateway_records::GatewayRecords;
use crate::inbox::{InboxParts, Inboxes};
use crate::interrupt::{self, Interrupts};
use crate::long_lines::LongLines;
use crate::media::{MediaParts, MediaStore};
use crate::route_removal::RouteRemovals;
use crate::sleep_calls::{SleepCallParts, SleepCalls};
use crate::socket::SocketComponents;
use crate::socket_roles::SocketRoles;
use crate::stop_command::Stops;
use crate::wake_calls::{WakeCallParts, WakeCalls};
use crate::{Config, Fault, Metrics};

/// Dependencies of the relay.
pub struct Parts {
    pub config: Config,
    pub inbox: Arc<dyn Inbox>,
    pub outbox: Arc<dyn Outbox>,
    pub identity: Identity,
    pub bus: Bus,
    pub errand: Errand,
    pub media: MediaParts,
    pub timepiece: Timepiece,
}

/// The agents' connections and inboxes. A cloneable handle of its components.
#[derive(Clone)]
pub struct Relay(pub(crate) Arc<RelayComponents>);

/// The components. Each owns its state, and holds only the components that it calls.
pub(crate) struct RelayComponents {
    pub identity: Identity,
    pub roster: Arc<dyn Roster>,
    pub metrics: Arc<Metrics>,
    pub timepiece: Timepiece,
    pub background: RelayTasks,
    pub connections: Arc<Connections>,
    pub seats: Arc<SocketRoles>,
    pub inboxes: Arc<Inboxes>,
    pub acknowledgements: Arc<Acknowledgements>,
    pub interrupts: Interrupts,
    pub wake_calls: Arc<WakeCalls>,
    pub fires: Arc<Fires>,
    pub route_removals: Arc<RouteRemovals>,
    pub expirations: Arc<Expirations>,
    pub sleep_calls: Arc<SleepCalls>,
    pub media: MediaStore,
    pub sockets: Arc<SocketComponents>,
    bus: Bus,
}

impl Relay {
    /// Builds the components, the ones that others call first.
    pub fn new(parts: Parts) -> Self {
        let Parts { config, inbox, outbox, identity, bus, errand, media, timepiece } = parts;
        let roster = Arc::clone(identity.roster.records());
        let media = MediaStore::new(media, errand.clone(), timepiece.clone());
        let metrics = Arc::<Metrics>::default();
        let background = RelayTasks::new(timepiece.clone());
        let connections = Arc::new(Connections::new(timepiece.clone()));
        connections.follow_revocations(&identity.accounts);
        let acknowledgements =
            Arc::new(Acknowledgements::new(Arc::clone(&inbox), Arc::clone(&metrics), timepiece.clone()));
        let wake_calls = Arc::new(WakeCalls::new(WakeCallParts {
            errand: errand.clone(),
            inbox: Arc::clone(&inbox),
            roster: Arc::clone(&roster),
            connections: Arc::clone(&connections),
            pauses: (config.wake_cooldown.0, config.wake_at_most.0),
            metrics: Arc::clone(&metrics),
            background: background.clone(),
        }));
        let sleep_calls = Arc::new(SleepCalls::new(SleepCallParts {
            errand,
            inbox: Arc::clone(&inbox),
            roster: Arc::clone(&roster),
            connections: Arc::clone(&connections),
            wake_calls: Arc::clone(&wake_calls),
            metrics: Arc::clone(&metrics),
            background: background.clone(),
        }));
        let inboxes = Arc::new(Inboxes::new(InboxParts {
            records: Arc::clone(&inbox),
            roster: identity.roster.clone(),
            connections: Arc::clone(&connections),
            wake_calls: Arc::clone(&wake_calls),
            stops: Arc::new(Stops::new(
                Arc::clone(&connections),
                Arc::clone(&acknowledgements),
                background.clone(),
            )),
            media: media.clone(),
            limits: InboxLimits { entries: config.inbox_entries, bytes: config.inbox_bytes },
            metrics: Arc::clone(&metrics),
            timepiece: timepiece.clone(),
        }));
        inboxes.follow_commits();
        let sockets = Arc::new(SocketComponents {
            seats: Arc::new(SocketRoles::new(
                Arc::clone(&connections),
                Arc::clone(&wake_calls),
                identity.accounts.clone(),
                Arc::clone(&roster),
                bus.clone(),
                timepiece.clone(),
            )),
            gateway_records: GatewayRecords::new(
                identity.accounts.clone(),
                identity.gateways.clone(),
                Arc::clone(&roster),
            ),
            acknowledgements,
            expirations: Arc::new(Expirations::new(
                Arc::clone(&inbox),
                Arc::clone(&connections),
                Arc::clone(&metrics),
                background.clone(),
            )),
            actions: Arc::new(Actions::new(
                outbox,
                Arc::clone(&roster),
                identity.quotas.clone(),
                Arc::clone(&metrics),
                background.clone(),
            )),
            interrupts: Interrupts::new(Arc::clone(&roster), bus.clone()),
            fires: Arc::new(Fires::new(Arc::clone(&connections), bus.clone(), timepiece.clone())),
            media: media.clone(),
            long_lines: LongLines::default(),
            inbox,
            metrics: Arc::clone(&metrics),
            background: background.clone(),
            timepiece: timepiece.clone(),
            config,
        });
        Self(Arc::new(RelayComponents {
            seats: Arc::clone(&sockets.seats),
            inboxes,
            acknowledgements: Arc::clone(&sockets.acknowledgements),
            interrupts: sockets.interrupts.clone(),
            wake_calls,
            fires: Arc::clone(&sockets.fires),
            route_removals: Arc::new(RouteRemovals::new(
                identity.accounts.clone(),
                Arc::clone(&roster),
                Arc::clone(identity.gate.claims().shared_bots()),
                Arc::clone(&connections),
            )),
            expirations: Arc::clone(&sockets.expirations),
            sleep_calls,
            media,
            sockets,
            connections,
            identity,
            roster,
            metrics,
            timepiece,
            background,
            bus,
        }))
    }

    /// Runs the loops of this plane until shutdown.
    pub async fn run(&self) -> Result<(), Fault> {
        let mut notifications = self.0.bus.listen();
        let wake_calls = Arc::clone(&self.0.wake_calls);
        let waking = self.0.background.tasks.spawn(async move { wake_calls.keep_waking().await });
        let (media, closing) = (self.0.media.clone(), self.0.background.closing.clone());
        let cleaning =
            self.0.background.tasks.spawn(async move { media.delete_unneeded_files(closing).await });
        loop {
            tokio::select! {
                () = self.0.background.closing.cancelled() => break,
                event = notifications.next() => match event {
                    BusEvent::Notification(notification) => self.react_to(notification),
                    BusEvent::Missed => self.check_credentials(),
                    BusEvent::Closed => break,
                },
            }
        }
        let _ = tokio::join!(waking, cleaning);
        Ok(())
    }

    /// A revocation may have been missed, so the credentials of all connected agents are checked.
    fn check_credentials(&self) {
        let relay = self.clone();
        self.0.background.tasks.spawn(async move {
            if let Err(fault) = relay.0.seats.check_credentials().await {
                tracing::error!(%fault, "could not check the credentials of the connected agents");
            }
        });
    }

    fn react_to(&self, notification: Notification) {
        match notification {
            Notification::Revoked { gateway } => self.0.connections.close_gateway(&GatewayId::from(gateway)),
            Notification::Removed { instance } => {
                self.0.connections.close_instance(&InstanceId::from(instance))
            }
            Notification::Interrupt { instance, session_key, chat } => {
                interrupt::stop_turn(
                    &self.0.connections,
                    &instance.into(),
                    &session_key.into(),
                    &chat.into(),
                );
            }
            Notification::Redriven { instance } => self.0.inboxes.rewind(&InstanceId::from(instance)),
            // These are for listeners of `arrivals`, and for the view of the roster.
            Notification::Arrived { .. }
            | Notification::BotChanged { .. }
            | Notification::CommandsChanged { .. }
            | Notification::TenantChanged { .. }
            | Notification::AgentChanged { .. }
            | Notification::ClientEnded { .. }
            | Notification::AuthorChanged { .. }
            | Notification::PlaceChanged { .. }
            | Notification::LoginEnded { .. } => {}
        }
    }

    /// Stops delivering, waits for acknowledgements and results in flight, then closes every socket.
    pub async fn close(&self) {
        self.0.background.close().await;
    }

    /// Tasks that shutdown waits for.
    pub fn tasks(&self) -> &TaskTracker {
        &self.0.background.tasks
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    /// The sockets of all agents.
    pub fn connections(&self) -> &Arc<Connections> {
        &self.0.connections
    }

    /// The roles of sockets.
    pub fn seats(&self) -> &SocketRoles {
        &self.0.seats
    }

    /// The stored messages of all agents.
    pub fn inboxes(&self) -> &Arc<Inboxes> {
        &self.0.inboxes
    }

    /// Acknowledgements of stored messages.
    pub fn acknowledgements(&self) -> &Arc<Acknowledgements> {
        &self.0.acknowledgements
    }

    /// Stops of turns.
    pub fn interrupts(&self) -> &Interrupts {
        &self.0.interrupts
    }

    /// Calls of wake URLs.
    pub fn wake_calls(&self) -> &Arc<WakeCalls> {
        &self.0.wake_calls
    }

    /// Cron fires over sockets.
    pub fn fires(&self) -> &Arc<Fires> {
        &self.0.fires
    }

    /// Files that travel between agents and chats.
    pub fn media(&self) -> &MediaStore {
        &self.0.media
    }

    /// Expiry of messages that waited too long.
    pub fn expirations(&self) -> &Expirations {
        &self.0.expirations
    }

    /// Removal of routes and bots.
    pub fn route_removals(&self) -> &Arc<RouteRemovals> {
        &self.0.route_removals
    }
}

//! Fixtures of unit tests: components of the relay built alone, over a ledger in memory, without a network.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bus::Bus;
use bytes::Bytes;
use errand::Errand;
use identity::{Enrolment, GatewayOwner, Identity};
use ledger::{
    Append, Appended, Bot, BotRef, EntryTurn, InboxLimits, Ledger, Location, PrincipalPolicy, Seq, Sighting,
    StalePolicy,
};
use parking_lot::Mutex;
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::{Action, DedupKey, Descriptor, EntryId, InstanceId, Outcome, Secret};
use tokio::sync::Notify;
use vault::{MasterKeys, Vault};

use crate::Metrics;
use crate::agent_connections::{Orders, QueuedFrame, Role, Seat};
use crate::background::RelayTasks;
use crate::connections::Connections;
use crate::egress::{Egress, EgressResult, PermittedAction};
use crate::wake_calls::{WakeCallParts, WakeCalls};

/// The records of one server, and the clock that a test drives.
pub(crate) struct Records {
    pub ledger: Ledger,
    pub identity: Identity,
    pub bus: Bus,
    pub errand: Errand,
    pub clock: Timepiece,
}

/// A bot that agents of [`Records::enrol`] own, one each.
pub(crate) fn bot_of(agent: &str) -> BotRef {
    BotRef { platform: "telegram".into(), bot: format!("bot-{agent}").into() }
}

impl Records {
    pub async fn open() -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let clock = Timepiece::wound(Moment::from_seconds(1_800_000_000));
        let ledger = Ledger::open(Location::Memory, clock.clone()).await.unwrap();
        let key = Secret::new("test:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
        let keys = MasterKeys::read(&key).unwrap();
        let vault = Vault::unlock(keys, ledger.vault(), ledger.tokens(), &*ledger.facts(), clock.clone())
            .await
            .unwrap();
        let (bus, errand) = (Bus::local(), Errand::new(errand::Config::loopback()));
        let parts =
            identity::Parts::over(&ledger, vault.keyring(), bus.clone(), errand.clone(), clock.clone());
        Self { identity: Identity::new(parts), ledger, bus, errand, clock }
    }

    /// An agent of the tenant `acme` with a bot of its own.
    pub async fn enrol(&self, name: &str) -> GatewayOwner {
        let on = bot_of(name);
        let bot = Bot {
            platform: on.platform.clone(),
            id: on.bot.clone(),
            shared: false,
            principals: PrincipalPolicy::open(true),
            settings: "{}".to_owned(),
            created: self.clock.now(),
        };
        self.ledger.roster().create_bot(bot).await.unwrap();
        let accounts = &self.identity.accounts;
        accounts.create_tenant("acme").await.unwrap().unwrap();
        let enrolment = Enrolment {
            tenant: "acme".to_owned(),
            name: name.to_owned(),
            bots: vec![on],
            ..Enrolment::default()
        };
        let enrolled = accounts.enrol(enrolment).await.unwrap().unwrap();
        GatewayOwner { gateway: enrolled.gateway, instance: enrolled.instance.id, tenant: enrolled.tenant.id }
    }

    /// Stores an entry for an agent, as if its bot had brought it.
    pub async fn append(&self, to: &InstanceId, on: &BotRef, stale: Option<StalePolicy>) -> EntryId {
        let append = Append {
            id: None,
            to: to.clone(),
            platform: on.platform.clone(),
            bot: on.bot.clone(),
            chat: "c1".into(),
            message: None,
            dedup: DedupKey::new(EntryId::mint(self.clock.now().millis())),
            event: Bytes::from_static(b"{}"),
            forward: None,
            references: Vec::new(),
            album: None,
            accepted: self.clock.now(),
            sighting: Some(Sighting { scope: None, session_keys: Vec::new() }),
            receipt: None,
            sender: None,
            limits: InboxLimits::NONE,
            stale,
            turn: EntryTurn::default(),
        };
        match self.ledger.inbox().append(append).await.unwrap() {
            Appended::Kept(entry) => entry,
            other => panic!("the entry was not stored: {other:?}"),
        }
    }

    /// Number of entries that wait for an agent.
    pub async fn waiting(&self, of: &InstanceId) -> i64 {
        self.ledger.inbox().size(of).await.unwrap().entries
    }

    pub async fn entries(&self, of: &InstanceId) -> Vec<EntryId> {
        let unread = self.ledger.inbox().unread(of, Seq(0), 9).await.unwrap();
        unread.into_iter().map(|entry| entry.id).collect()
    }

    pub fn background(&self) -> RelayTasks {
        RelayTasks::new(self.clock.clone())
    }

    pub fn connections(&self) -> Arc<Connections> {
        Arc::new(Connections::new(self.clock.clone()))
    }

    /// Wake calls with a cooldown of one minute.
    pub fn wake_calls(&self, connections: &Arc<Connections>) -> Arc<WakeCalls> {
        Arc::new(WakeCalls::new(WakeCallParts {
            errand: self.errand.clone(),
            inbox: self.ledger.inbox(),
            roster: self.ledger.roster(),
            connections: Arc::clone(connections),
            pauses: (Duration::from_secs(60), Duration::from_secs(900)),
            metrics: Arc::<Metrics>::default(),
            background: self.background(),
        }))
    }
}

/// An egress that records the actions it gets, and carries out none.
#[derive(Default)]
pub(crate) struct RecordedActions(pub Mutex<Vec<Action>>);

#[async_trait]
impl Egress for RecordedActions {
    async fn descriptor(&self, _: &BotRef) -> Option<Descriptor> {
        None
    }

    fn is_built_in(&self, _: &BotRef) -> bool {
        false
    }

    async fn perform(&self, permitted: PermittedAction) -> EgressResult {
        self.0.lock().push(permitted.action);
        Outcome::failed("not carried out").into()
    }
}

pub(crate) fn connections() -> Arc<Connections> {
    Arc::new(Connections::new(Timepiece::wound(Moment::default())))
}

pub(crate) fn heron() -> InstanceId {
    "inst_heron".into()
}

impl Connections {
    /// Adds a live socket of an agent.
    pub(crate) fn with_live_socket(&self, of: &InstanceId, adjust: impl FnOnce(&mut Seat)) -> u64 {
        let socket = self.next_socket_id();
        let mut seat = Seat::arriving(
            socket,
            "gw-1".into(),
            Moment::default(),
            Arc::new(RecordedActions::default()),
            Arc::new(Notify::new()),
        );
        seat.becomes(Role::Live);
        adjust(&mut seat);
        self.of(of).state.lock().seats.push(seat);
        socket
    }

    /// The lines that wait for a socket, and the code with which it was ordered to close.
    pub(crate) fn orders_of(&self, of: &InstanceId, socket: u64) -> (Vec<String>, Option<u16>) {
        let orders = self.of(of).state.lock().orders(socket);
        let Some(Orders { lines, close, .. }) = orders else { return (Vec::new(), None) };
        let text = |line: QueuedFrame| line.text().to_owned();
        (lines.into_iter().map(text).collect(), close.map(|(code, _)| code))
    }
}

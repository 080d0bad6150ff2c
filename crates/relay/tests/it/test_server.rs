//! Test server: a ledger, a relay and its routes, with a clock driven by hand.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Extension;
use axum::serve::ListenerExt;
use bus::Bus;
use errand::Errand;
use http_kit::ClientAddress;
use identity::{
    Admitted, Enrolment, EventOrigin, GateDecision, Identity, IncomingMessage, LimitValues, Principal,
};
use ledger::{Bot, BotRef, Created, DeadLetterFilter, Discriminator, Invitation, Ledger, Location, Route};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::passthrough::Forward;
use posthouse_wire::{DedupKey, EntryId, Event, GatewayId, InstanceId, Secret, Source, token};
use relay::{Config, NewEntry, Parts, Relay, StopRule};
use vault::{Keyring, MasterKeys, Vault};

use crate::failing_inbox::FailingInbox;
use crate::gateway::Gateway;
use crate::recorder::{Recorder, Reluctant};

/// The key of every test's vault, so that a folder can be opened again.
const KEY: &str = "test:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
/// How long a test waits for what must come. Never waited out by one that passes.
pub const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub struct TestServer {
    pub identity: Identity,
    /// Changes credentials without telling anybody, as another node does whose notification is lost.
    pub keyring: Keyring,
    pub relay: Relay,
    pub ledger: Ledger,
    pub clock: Timepiece,
    pub egress: Arc<Recorder>,
    pub outbox: Arc<Reluctant>,
    pub inbox: Arc<FailingInbox>,
    pub address: SocketAddr,
    pub media_folder: Arc<tempfile::TempDir>,
    said: Arc<AtomicU64>,
}

/// One enrolled agent.
#[derive(Clone)]
pub struct Agent {
    pub server: TestServer,
    pub instance: InstanceId,
    pub gateway: GatewayId,
    pub secret: Secret,
    /// The bots it fronts, the first being what it says hello for by default.
    pub bots: Vec<BotRef>,
}

pub fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

pub fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub fn bot(platform: &str, id: &str) -> BotRef {
    BotRef { platform: platform.into(), bot: id.into() }
}

/// Waits until something has become true.
pub async fn eventually(mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("it did not become true");
}

/// A message in a direct conversation.
pub fn message(on: &BotRef, chat: &str, text: &str) -> Event {
    Event {
        text: text.to_owned(),
        source: Source {
            platform: on.platform.clone(),
            chat_id: Some(chat.into()),
            chat_type: "dm".to_owned(),
            user_id: Some("u1".into()),
            ..Source::default()
        },
        message_id: Some(text.into()),
        ..Event::default()
    }
}

impl TestServer {
    pub async fn open() -> Self {
        Self::open_with(Config::default()).await
    }

    pub async fn open_with(config: Config) -> Self {
        Self::build(Location::Memory, config, Timepiece::wound(Moment::from_seconds(1_800_000_000))).await
    }

    pub async fn open_in(folder: &Path, clock: Timepiece) -> Self {
        Self::build(Location::Folder(folder.to_owned()), Config::default(), clock).await
    }

    /// A server whose outgoing calls find their hosts by this lookup.
    pub async fn open_with_lookup(lookup: Arc<dyn errand::Lookup>) -> Self {
        let clock = Timepiece::wound(Moment::from_seconds(1_800_000_000));
        let errand = || Errand::with_lookup(errand::Config::loopback(), lookup);
        Self::build_calling(Location::Memory, Config::default(), clock, errand).await
    }

    pub async fn build(place: Location, config: Config, clock: Timepiece) -> Self {
        Self::build_calling(place, config, clock, || Errand::new(errand::Config::loopback())).await
    }

    async fn build_calling(
        place: Location,
        config: Config,
        clock: Timepiece,
        errand: impl FnOnce() -> Errand,
    ) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let errand = errand();
        let ledger = Ledger::open(place, clock.clone()).await.unwrap();
        let keys = MasterKeys::read(&Secret::new(KEY)).unwrap();
        let vault = Vault::unlock(keys, ledger.vault(), ledger.tokens(), &*ledger.facts(), clock.clone())
            .await
            .unwrap();
        let outbox =
            Arc::new(Reluctant { inner: ledger.outbox(), is_full: false.into(), calls: Default::default() });
        let inbox = Arc::new(FailingInbox { inner: ledger.inbox(), fails: false.into(), reads: 0.into() });
        let bus = Bus::local();
        // The clock stands still, so that a test's whole load counts as one moment's.
        let limits = LimitValues::all(1_000_000);
        let parts =
            identity::Parts::over(&ledger, vault.keyring(), bus.clone(), errand.clone(), clock.clone());
        let identity = Identity::new(identity::Parts { limits, ..parts });
        let media_folder = Arc::new(tempfile::tempdir().unwrap());
        let relay = Relay::new(Parts {
            config,
            inbox: inbox.clone(),
            outbox: outbox.clone(),
            identity: identity.clone(),
            bus,
            errand,
            media: relay::MediaParts {
                records: ledger.media(),
                usage: ledger.usage(),
                folder: media_folder.path().to_owned(),
                public_url: "https://house.example".to_owned(),
            },
            timepiece: clock.clone(),
        });
        let egress = Arc::new(Recorder::new(clock.clone()));
        let here = IpAddr::from([127, 0, 0, 1]);
        let door = relay::routes(&relay, egress.clone()).layer(Extension(ClientAddress(here)));
        let listener = tokio::net::TcpListener::bind((here, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
        tokio::spawn(async move { axum::serve(listener, door).await });
        tokio::spawn({
            let relay = relay.clone();
            async move { relay.run().await }
        });
        // The loops listen before the first test says anything.
        tokio::task::yield_now().await;
        Self {
            identity,
            keyring: vault.keyring(),
            relay,
            ledger,
            clock,
            egress,
            outbox,
            inbox,
            address,
            media_folder,
            said: Arc::default(),
        }
    }

    pub fn winds(&self, by: Duration) {
        self.clock.wind(by);
    }

    /// Advances time by the longest pause of the relay until something has come. More than once, because a pause may
    /// begin after the clock was advanced; and rarely, so that time does not run ahead of a slow machine.
    pub async fn winds_until<T>(&self, coming: impl Future<Output = T>) -> T {
        let mut coming = std::pin::pin!(coming);
        loop {
            self.winds(seconds(5));
            if let Ok(came) = tokio::time::timeout(seconds(1), &mut coming).await {
                return came;
            }
        }
    }

    pub async fn has_bot(&self, on: &BotRef, shared: bool) {
        let bot = Bot {
            platform: on.platform.clone(),
            id: on.bot.clone(),
            shared,
            principals: ledger::PrincipalPolicy::open(true),
            settings: "{}".to_owned(),
            created: self.clock.now(),
        };
        self.ledger.roster().create_bot(bot).await.unwrap();
    }

    pub async fn routes(&self, on: &BotRef, discriminator: Discriminator, to: &Agent) {
        let route = Route {
            platform: on.platform.clone(),
            bot: on.bot.clone(),
            discriminator,
            instance: to.instance.clone(),
            created: self.clock.now(),
            profile: None,
        };
        assert_eq!(self.ledger.roster().create_route(route).await.unwrap(), Created::Made);
        self.identity.roster.bot_changed(on);
    }

    /// An agent that owns these bots.
    pub async fn enrol(&self, tenant: &str, name: &str, bots: &[BotRef]) -> Agent {
        for bot in bots {
            self.has_bot(bot, false).await;
        }
        self.enrol_as(Enrolment {
            tenant: tenant.to_owned(),
            name: name.to_owned(),
            bots: bots.to_vec(),
            ..Enrolment::default()
        })
        .await
    }

    pub async fn enrol_as(&self, enrolment: Enrolment) -> Agent {
        self.identity.accounts.create_tenant(&enrolment.tenant).await.unwrap().unwrap();
        let bots = enrolment.bots.clone();
        let enrolled = self.identity.accounts.enrol(enrolment).await.unwrap().unwrap();
        Agent {
            server: self.clone(),
            instance: enrolled.instance.id,
            gateway: enrolled.gateway,
            secret: enrolled.secret,
            bots,
        }
    }

    /// One agent with one bot, which is what most stories need.
    pub async fn heron(&self) -> Agent {
        self.enrol("acme", "heron", &[bot("telegram", "7001")]).await
    }

    /// The invited person who writes on the web chat. Its bots are built in, one for each agent.
    async fn person_for(&self, on: &BotRef) -> Option<Principal> {
        let agent = InstanceId::new(on.bot.as_str());
        let found = self.ledger.roster().instance(&agent).await.unwrap()?;
        Some(Principal::Person(Arc::new(Invitation {
            id: "inv_1".into(),
            tenant: found.tenant,
            agents: None,
            person: "ann".to_owned(),
            owner: false,
            created: self.clock.now(),
        })))
    }

    /// What the gate says about a message to this bot; nothing when it is not admitted.
    pub async fn admitted(&self, on: &BotRef, origin: EventOrigin<'_>, addressed: bool) -> Option<Admitted> {
        let person = self.person_for(on).await;
        let incoming = IncomingMessage {
            on,
            shared: true,
            origin,
            addressed,
            several_people: false,
            from_bot: false,
            person: person.as_ref(),
        };
        match self.identity.gate.decide(incoming).await.unwrap() {
            GateDecision::Admitted(admitted) => Some(admitted),
            _ => None,
        }
    }

    /// Brings an event to a bot; nothing when it is nobody's or was not let in.
    pub async fn brings(&self, on: &BotRef, event: Event, path: Option<&str>) -> Option<EntryId> {
        self.brings_with(on, event, path, None).await
    }

    /// An event with the interaction that it was made from.
    pub async fn brings_with(
        &self,
        on: &BotRef,
        event: Event,
        path: Option<&str>,
        forward: Option<Forward>,
    ) -> Option<EntryId> {
        let origin = EventOrigin { source: &event.source, path };
        let admitted = self.admitted(on, origin, false).await?;
        let policies = &self.identity.stale_policies;
        let stale = policies.policy(on, origin, &admitted.to().instance).await.unwrap();
        let dedup = DedupKey::new(format!("d{}", self.said.fetch_add(1, Ordering::Relaxed)));
        let accepted = self.clock.now();
        let new_entry = NewEntry {
            forward: forward.map(Box::new),
            event: event.deliverable().ok()?,
            id: None,
            dedup,
            references: Vec::new(),
            album: None,
            accepted,
            receipt: None,
            stop: match on.platform.as_str() {
                "web" => StopRule::Interrupt,
                "slack" => StopRule::Text,
                _ => StopRule::InterruptIfTyping,
            },
            stale,
        };
        self.relay.inboxes().admit(&admitted, Box::new(new_entry)).await.unwrap().entry().cloned()
    }

    /// Somebody says something to a bot in a direct conversation.
    pub async fn says(&self, on: &BotRef, chat: &str, text: &str) -> EntryId {
        self.brings(on, message(on, chat, text), None).await.expect("the message is somebody's")
    }

    /// Everything that was asked of the ledger so far has happened.
    pub async fn ledger_is_quiet(&self) {
        self.ledger.inbox().backlogs().await.unwrap();
    }
}

impl Agent {
    pub fn token(&self) -> String {
        token::mint(&self.gateway, &self.secret, 300, self.server.clock.now().seconds())
    }

    /// Another credential of the same agent.
    pub async fn with_another_gateway(&self, id: &str) -> Agent {
        let gateway = GatewayId::new(id);
        let secret = self.server.identity.accounts.rotate(&gateway, &self.instance).await.unwrap().unwrap();
        Agent { gateway, secret, ..self.clone() }
    }

    /// Dials and says nothing.
    pub async fn dials(&self) -> Gateway {
        Gateway::dial(&self.server, Some(&self.token())).await
    }

    /// A stock gateway: says hello for its first bot. The server leaves it alone for a while.
    pub async fn sits(&self) -> Gateway {
        let mut gateway = self.dials().await;
        gateway.says_hello(&self.bots[0]).await;
        // The descriptor goes out first; whoever winds the clock now wants the hello over and done with.
        gateway.hears_nothing().await;
        gateway
    }

    /// A stock gateway that has been left alone long enough.
    pub async fn sits_settled(&self) -> Gateway {
        let gateway = self.sits().await;
        self.server.winds(seconds(4));
        gateway
    }

    /// An agent of our SDK.
    pub async fn sits_with_window(&self, window: u16) -> Gateway {
        let mut gateway = self.dials().await;
        let on = &self.bots[0];
        gateway
            .say(serde_json::json!({"type": "hello", "platform": on.platform.as_str(), "botId": on.bot.as_str(),
                "client": "sdk", "window": window}))
            .await;
        assert_eq!(gateway.hears().await["type"], "descriptor");
        gateway
    }

    pub async fn hears_from(&self, text: &str) -> EntryId {
        self.server.says(&self.bots[0], "c1", text).await
    }

    pub async fn unread(&self) -> i64 {
        self.server.ledger.inbox().size(&self.instance).await.unwrap().entries
    }

    pub async fn has_unread(&self, count: i64) {
        let reading = async {
            while self.unread().await != count {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("the inbox does not hold that many");
    }

    pub async fn has_unread_at_most(&self, count: i64) {
        let reading = async {
            while self.unread().await > count {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("the inbox holds more");
    }

    pub async fn dead_letters(&self) -> Vec<EntryId> {
        let filter =
            DeadLetterFilter { instance: Some(self.instance.clone()), ..DeadLetterFilter::default() };
        let letters = self.server.ledger.inbox().dead_letters(filter, 100).await.unwrap();
        letters.into_iter().map(|letter| letter.entry).collect()
    }
}

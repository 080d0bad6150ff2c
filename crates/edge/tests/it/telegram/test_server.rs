//! A test server that receives the updates of a Telegram bot.

use std::path::Path;
use std::sync::Arc;

use edge::platform::Platform;
use edge::{Edge, Intake, OpenedBot};
use identity::Identity;
use ledger::{Discriminator, Generation, Instance, Ledger, Location, PrincipalPolicy, Route, Seq, Tenant};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::{Event, InstanceId};
use vault::{MasterKeys, Vault};

/// A server with one agent, which owns the bot unless it is shared.
pub struct TestServer {
    pub ledger: Ledger,
    pub vault: Vault,
    pub agent: InstanceId,
    pub identity: Identity,
    pub relay: relay::Relay,
    edge: Edge,
    pub media_folder: tempfile::TempDir,
}

fn record_of(bot: &OpenedBot, principals: PrincipalPolicy) -> ledger::Bot {
    ledger::Bot {
        platform: bot.platform.clone(),
        id: bot.id.clone(),
        shared: bot.shared,
        principals,
        settings: serde_json::Value::Object(bot.settings.clone()).to_string(),
        created: Moment::default(),
    }
}

fn route_of(bot: &OpenedBot, discriminator: Discriminator, agent: &InstanceId) -> Route {
    Route {
        platform: bot.platform.clone(),
        bot: bot.id.clone(),
        discriminator,
        instance: agent.clone(),
        created: Moment::default(),
        profile: None,
    }
}

impl TestServer {
    pub async fn with(bot: &OpenedBot, clock: &Timepiece) -> TestServer {
        TestServer::routed(bot, Discriminator::Any, clock).await
    }

    /// A server whose bot is open to everybody, with this route to the agent.
    pub async fn routed(bot: &OpenedBot, discriminator: Discriminator, clock: &Timepiece) -> TestServer {
        let config = relay::Config::default();
        TestServer::build(
            bot,
            discriminator,
            PrincipalPolicy::Any,
            clock,
            config,
            Vec::new(),
            Location::Memory,
        )
        .await
    }

    /// A server whose bot is open to everybody, with its ledger in this folder.
    pub async fn in_folder(bot: &OpenedBot, clock: &Timepiece, folder: &Path) -> TestServer {
        let (config, location) = (relay::Config::default(), Location::Folder(folder.to_owned()));
        TestServer::build(bot, Discriminator::Any, PrincipalPolicy::Any, clock, config, Vec::new(), location)
            .await
    }

    /// A server whose bot has the default access policy.
    pub async fn closed(bot: &OpenedBot, discriminator: Discriminator, clock: &Timepiece) -> TestServer {
        let config = relay::Config::default();
        TestServer::build(
            bot,
            discriminator,
            PrincipalPolicy::default(),
            clock,
            config,
            Vec::new(),
            Location::Memory,
        )
        .await
    }

    /// A server with this platform, whose bot has the default access policy.
    pub async fn closed_with_platform(
        bot: &OpenedBot,
        clock: &Timepiece,
        platform: Arc<dyn Platform>,
    ) -> TestServer {
        let (config, principals) = (relay::Config::default(), PrincipalPolicy::default());
        TestServer::build(
            bot,
            Discriminator::Any,
            principals,
            clock,
            config,
            vec![platform],
            Location::Memory,
        )
        .await
    }

    /// A server with this platform, whose agent's inbox has this many places.
    pub async fn with_small_inbox(
        bot: &OpenedBot,
        inbox_entries: i64,
        clock: &Timepiece,
        platform: Arc<dyn Platform>,
    ) -> TestServer {
        let config = relay::Config { inbox_entries, ..relay::Config::default() };
        TestServer::build(
            bot,
            Discriminator::Any,
            PrincipalPolicy::Any,
            clock,
            config,
            vec![platform],
            Location::Memory,
        )
        .await
    }

    /// A server with this platform.
    pub async fn with_platform(
        bot: &OpenedBot,
        clock: &Timepiece,
        platform: Arc<dyn Platform>,
    ) -> TestServer {
        let config = relay::Config::default();
        TestServer::build(
            bot,
            Discriminator::Any,
            PrincipalPolicy::Any,
            clock,
            config,
            vec![platform],
            Location::Memory,
        )
        .await
    }

    /// A server with this platform, whose bot is shared. No place is routed to the agent.
    pub async fn with_shared_bot(
        bot: &OpenedBot,
        clock: &Timepiece,
        platform: Arc<dyn Platform>,
    ) -> TestServer {
        let (config, nowhere) = (relay::Config::default(), Discriminator::Chat("nowhere".into()));
        TestServer::build(bot, nowhere, PrincipalPolicy::Any, clock, config, vec![platform], Location::Memory)
            .await
    }

    async fn build(
        bot: &OpenedBot,
        discriminator: Discriminator,
        principals: PrincipalPolicy,
        clock: &Timepiece,
        config: relay::Config,
        platforms: Vec<Arc<dyn Platform>>,
        location: Location,
    ) -> TestServer {
        let ledger = Ledger::open(location, clock.clone()).await.unwrap();
        let roster = ledger.roster();
        let (tenant, agent) = ("ten_1".into(), InstanceId::new("inst_1"));
        roster
            .create_tenant(Tenant { id: "ten_1".into(), name: "t".into(), created: Moment::default() })
            .await
            .unwrap();
        let instance = Instance {
            id: agent.clone(),
            tenant,
            name: "heron".into(),
            wake_url: None,
            callback_url: None,
            generation: Generation::Auto,
            idle: false,
            created: Moment::default(),
        };
        roster.create_instance(instance).await.unwrap();
        roster.create_bot(record_of(bot, principals)).await.unwrap();
        roster.create_route(route_of(bot, discriminator, &agent)).await.unwrap();
        let keys = MasterKeys::read(&MasterKeys::generate().unwrap()).unwrap();
        let vault = Vault::unlock(keys, ledger.vault(), ledger.tokens(), &*ledger.facts(), clock.clone())
            .await
            .unwrap();
        vault.keep(&bot.platform, &bot.id, &bot.credentials).await.unwrap();
        let bus = bus::Bus::local();
        let identity = Identity::new(identity::Parts::over(
            &ledger,
            vault.keyring(),
            bus.clone(),
            errand::Errand::new(errand::Config::default()),
            clock.clone(),
        ));
        let media_folder = tempfile::tempdir().unwrap();
        let relay = relay::Relay::new(relay::Parts {
            config,
            inbox: ledger.inbox(),
            outbox: ledger.outbox(),
            identity: identity.clone(),
            bus,
            errand: errand::Errand::new(errand::Config::default()),
            media: relay::MediaParts {
                records: ledger.media(),
                usage: ledger.usage(),
                folder: media_folder.path().to_owned(),
                public_url: "https://house.example".to_owned(),
            },
            timepiece: clock.clone(),
        });
        let edge = Edge::new(edge::Parts {
            prompts: ledger.prompts(),
            threads: ledger.threads(),
            identity: identity.clone(),
            vault: vault.clone(),
            relay: relay.clone(),
            dead_bots: ledger.dead_bots(),
            event_feeds: ledger.event_feeds(),
            person_chats: ledger.person_chats(),
            timepiece: clock.clone(),
            platforms,
            public_url: "http://127.0.0.1:7678".to_owned(),
        });
        TestServer { ledger, vault, agent, identity, relay, edge, media_folder }
    }

    /// Adds an open bot, whose messages go to the agent.
    pub async fn add_bot(&self, bot: &OpenedBot) {
        let roster = self.ledger.roster();
        roster.create_bot(record_of(bot, PrincipalPolicy::Any)).await.unwrap();
        roster.create_route(route_of(bot, Discriminator::Any, &self.agent)).await.unwrap();
        self.vault.keep(&bot.platform, &bot.id, &bot.credentials).await.unwrap();
    }

    /// Adds an agent of another tenant.
    pub async fn add_agent(&self, name: &str) -> InstanceId {
        let (roster, tenant) = (self.ledger.roster(), format!("ten_{name}"));
        let instance = Instance {
            id: InstanceId::new(format!("inst_{name}")),
            tenant: tenant.as_str().into(),
            name: name.into(),
            wake_url: None,
            callback_url: None,
            generation: Generation::Auto,
            idle: false,
            created: Moment::default(),
        };
        let (id, created) = (instance.id.clone(), Moment::default());
        roster
            .create_tenant(Tenant { id: tenant.as_str().into(), name: name.into(), created })
            .await
            .unwrap();
        roster.create_instance(instance).await.unwrap();
        id
    }

    /// Routes a part of a bot to an agent.
    pub async fn add_route(&self, bot: &OpenedBot, discriminator: Discriminator, agent: &InstanceId) {
        self.ledger.roster().create_route(route_of(bot, discriminator, agent)).await.unwrap();
    }

    /// The edge as a restart of the server builds it.
    pub fn new_edge(&self, clock: &Timepiece, platforms: Vec<Arc<dyn Platform>>) -> Edge {
        Edge::new(edge::Parts {
            prompts: self.ledger.prompts(),
            threads: self.ledger.threads(),
            identity: self.identity.clone(),
            vault: self.vault.clone(),
            relay: self.relay.clone(),
            dead_bots: self.ledger.dead_bots(),
            event_feeds: self.ledger.event_feeds(),
            person_chats: self.ledger.person_chats(),
            timepiece: clock.clone(),
            platforms,
            public_url: "http://127.0.0.1:7678".to_owned(),
        })
    }

    pub fn edge(&self) -> &Edge {
        &self.edge
    }

    /// Runs the edge, until the test ends.
    pub fn start_edge(&self) {
        let edge = self.edge.clone();
        tokio::spawn(async move { edge.run().await });
    }

    pub fn intake(&self) -> Intake {
        self.edge.intake().clone()
    }

    /// Access control of the bots.
    pub fn access(&self) -> &identity::SenderAccess {
        self.identity.gate.access()
    }

    pub async fn texts(&self) -> Vec<String> {
        self.events_of(&self.agent).await.into_iter().map(|event| event.text).collect()
    }

    /// The messages that an agent has not acknowledged.
    pub async fn events_of(&self, agent: &InstanceId) -> Vec<Event> {
        let unread = self.ledger.inbox().unread(agent, Seq(0), 1000).await.unwrap();
        unread.iter().map(|entry| serde_json::from_slice(&entry.event).unwrap()).collect()
    }
}

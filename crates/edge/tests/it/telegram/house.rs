//! A house that takes in what Telegram tells a bot.

use edge::{Bot, Edge, Intake};
use ledger::{Discriminator, Generation, Instance, Ledger, Place, Route, Seq, Tenant};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::{Event, InstanceId};
use vault::{Keys, Vault};

/// A house with one agent, which owns the bot unless it is shared.
pub struct House {
    pub ledger: Ledger,
    pub vault: Vault,
    pub agent: InstanceId,
    edge: Edge,
}

impl House {
    pub async fn with(bot: &Bot, clock: &Timepiece) -> House {
        House::routed(bot, Discriminator::Any, clock).await
    }

    /// A house whose agent has this much of the bot.
    pub async fn routed(bot: &Bot, discriminator: Discriminator, clock: &Timepiece) -> House {
        let ledger = Ledger::open(Place::Memory, clock.clone()).await.unwrap();
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
        let record = ledger::Bot {
            platform: bot.platform.clone(),
            id: bot.id.clone(),
            shared: bot.shared,
            settings: "{}".into(),
            created: Moment::default(),
        };
        roster.create_bot(record).await.unwrap();
        let route = Route {
            platform: bot.platform.clone(),
            bot: bot.id.clone(),
            discriminator,
            instance: agent.clone(),
            created: Moment::default(),
        };
        roster.create_route(route).await.unwrap();
        let keys = Keys::read(&Keys::generate().unwrap()).unwrap();
        let vault = Vault::unlock(keys, ledger.vault(), ledger.tokens(), &*ledger.house(), clock.clone())
            .await
            .unwrap();
        let relay = relay::Relay::new(relay::Parts {
            config: relay::Config::default(),
            inbox: ledger.inbox(),
            outbox: ledger.outbox(),
            roster: ledger.roster(),
            traces: ledger.traces(),
            keyring: vault.keyring(),
            bus: bus::Bus::local(),
            errand: errand::Errand::new(errand::Config::default()),
            timepiece: clock.clone(),
        });
        let edge = Edge::new(edge::Parts {
            roster: ledger.roster(),
            vault: vault.clone(),
            relay,
            timepiece: clock.clone(),
            platforms: Vec::new(),
            public_url: "http://127.0.0.1:7678".to_owned(),
        });
        House { ledger, vault, agent, edge }
    }

    pub fn intake(&self) -> Intake {
        self.edge.intake().clone()
    }

    pub async fn texts(&self) -> Vec<String> {
        let unread = self.ledger.inbox().unread(&self.agent, Seq(0), 1000).await.unwrap();
        unread.iter().map(|entry| serde_json::from_slice::<Event>(&entry.event).unwrap().text).collect()
    }
}

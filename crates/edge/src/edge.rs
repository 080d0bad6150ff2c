//! The handle of the edge: starts and stops the event source of every bot.

mod serving;

use std::collections::HashMap;
use std::sync::Arc;

use identity::{Identity, RosterChange};
use ledger::{BotRef, DeadBots, EventFeeds, PersonChats, Prompts, Threads};
use parking_lot::Mutex;
use posthouse_time::Timepiece;
use relay::Relay;
use tokio_util::sync::CancellationToken;
use vault::Vault;

use crate::Fault;
use crate::announced_commands::AnnouncedCommands;
use crate::asked_prompts::AskedPrompts;
use crate::bot_health::BotHealth;
use crate::bot_uses::BotUses;
use crate::bots::{Bots, OpenedBot};
use crate::chat_capabilities::ChatCapabilities;
use crate::chat_visibility::PlatformVisibility;
use crate::edit_streams::EditStreams;
use crate::intake::{IncomingRecords, Intake};
use crate::known_people::KnownPeople;
use crate::mapped_hosts::MappedHosts;
use crate::metrics::Metrics;
use crate::notices::Notices;
use crate::own_threads::OwnThreads;
use crate::platform::{EventDelivery, Platform, door_url};
use crate::staleness::StaleMessages;

/// The parts the edge is built from. No other plane gets the vault.
pub struct Parts {
    pub identity: Identity,
    pub vault: Vault,
    pub relay: Relay,
    pub dead_bots: Arc<dyn DeadBots>,
    pub event_feeds: Arc<dyn EventFeeds>,
    pub person_chats: Arc<dyn PersonChats>,
    pub timepiece: Timepiece,
    pub platforms: Vec<Arc<dyn Platform>>,
    pub prompts: Arc<dyn Prompts>,
    pub threads: Arc<dyn Threads>,
    /// The public URL of this server.
    pub public_url: String,
}

/// The chat platforms of this server. Clones share one state.
#[derive(Clone)]
pub struct Edge(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub platforms: HashMap<&'static str, Arc<dyn Platform>>,
    pub bots: Bots,
    pub health: BotHealth,
    pub identity: Identity,
    pub vault: Vault,
    pub relay: Relay,
    pub intake: Intake,
    pub bot_uses: BotUses,
    pub prompts: AskedPrompts,
    pub threads: OwnThreads,
    stale_messages: StaleMessages,
    pub metrics: Arc<Metrics>,
    pub timepiece: Timepiece,
    pub public_url: Arc<str>,
    pub chat_capabilities: ChatCapabilities,
    pub edit_streams: EditStreams,
    commands: AnnouncedCommands,
    hosts: MappedHosts,
    event_feeds: Arc<dyn EventFeeds>,
    /// Bots whose event source is running.
    sources: Mutex<HashMap<BotRef, EventSource>>,
    closing: CancellationToken,
}

/// A running event source of a bot.
struct EventSource {
    /// The bot as it was opened for this source.
    bot: Arc<OpenedBot>,
    stop: CancellationToken,
}

impl Edge {
    pub fn new(parts: Parts) -> Self {
        let metrics = Arc::<Metrics>::default();
        let health = BotHealth::new(parts.dead_bots, Arc::clone(&metrics), parts.timepiece.clone());
        let bot_uses = BotUses::new(parts.vault.clone());
        let notices = Notices::new(parts.timepiece.clone(), health.clone(), bot_uses.clone());
        let bots = Bots::new(Arc::clone(parts.identity.roster.records()), parts.vault.clone());
        let stale_messages = StaleMessages {
            relay: parts.relay.clone(),
            bots: bots.clone(),
            notices: notices.clone(),
            timepiece: parts.timepiece.clone(),
        };
        let (prompts, threads) = (AskedPrompts::new(parts.prompts), OwnThreads::new(parts.threads));
        let gate = parts.identity.gate.clone();
        let chat_capabilities = ChatCapabilities::new(parts.vault.clone());
        let edge = Self(Arc::new(Inner {
            platforms: parts.platforms.into_iter().map(|platform| (platform.name(), platform)).collect(),
            bots,
            stale_messages,
            intake: Intake::new(
                parts.vault.clone(),
                &parts.relay,
                parts.identity.clone(),
                notices,
                Arc::clone(&metrics),
                IncomingRecords {
                    feeds: Arc::clone(&parts.event_feeds),
                    chat_capabilities: chat_capabilities.clone(),
                    prompts: prompts.clone(),
                    threads: threads.clone(),
                    people: KnownPeople::new(parts.person_chats),
                },
                &parts.timepiece,
            ),
            health,
            bot_uses,
            prompts,
            threads,
            identity: parts.identity,
            vault: parts.vault,
            relay: parts.relay,
            metrics,
            timepiece: parts.timepiece.clone(),
            public_url: parts.public_url.into(),
            commands: AnnouncedCommands::new(Arc::clone(&parts.event_feeds), parts.timepiece.clone()),
            hosts: MappedHosts::default(),
            event_feeds: parts.event_feeds,
            chat_capabilities,
            edit_streams: EditStreams::new(parts.timepiece),
            sources: Mutex::default(),
            closing: CancellationToken::new(),
        }));
        gate.set_chat_visibility(Arc::new(PlatformVisibility(Arc::downgrade(&edge.0))));
        edge
    }

    /// Starts the event source of every bot and follows changes of the roster, until [`Edge::close`].
    pub async fn run(&self) -> Result<(), Fault> {
        let mut roster = self.0.identity.roster.watch();
        self.0.health.load().await?;
        for bot in self.0.bots.all().await? {
            self.start(bot).await;
        }
        let expiring = self.0.stale_messages.run(|name| self.platform(name).cloned());
        tokio::pin!(expiring);
        loop {
            tokio::select! {
                () = self.0.closing.cancelled() => return Ok(()),
                () = &mut expiring => return Ok(()),
                changed = roster.changed() => match changed {
                    Some(RosterChange::Bot(bot_ref)) => self.follow_bot(&bot_ref).await?,
                    Some(RosterChange::Commands(bot_ref)) => self.0.commands.may_have_changed(&bot_ref),
                    Some(
                        RosterChange::Tenant(_)
                        | RosterChange::Agent(_)
                        | RosterChange::Client(_)
                        | RosterChange::Author(..)
                        | RosterChange::Place(..)
                        | RosterChange::Login(_),
                    ) => {}
                    Some(RosterChange::Anything) => self.follow_roster().await?,
                    None => return Ok(()),
                },
            }
        }
    }

    /// Stops every event source. What was stored stays stored; the platform delivers the rest again.
    pub fn close(&self) {
        self.0.closing.cancel();
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    pub fn bots(&self) -> &Bots {
        &self.0.bots
    }

    pub fn health(&self) -> &BotHealth {
        &self.0.health
    }

    /// Host names that are mapped to bots.
    pub fn hosts(&self) -> &MappedHosts {
        &self.0.hosts
    }

    pub fn intake(&self) -> &Intake {
        &self.0.intake
    }

    pub fn platform(&self, name: &str) -> Option<&Arc<dyn Platform>> {
        self.0.platforms.get(name)
    }

    /// The webhook URL of this bot, if its platform can reach this server. Platforms require https, except local
    /// ones that we call over plain http ourselves.
    pub fn door(&self, bot: &OpenedBot) -> Option<String> {
        let platform = self.platform(bot.platform.as_str())?;
        let reaches = self.0.public_url.starts_with("https://") || platform.is_neighbour(bot);
        reaches.then(|| door_url(&self.0.public_url, bot))
    }

    /// The way in which a bot gets its events. `None` for a platform that this server does not have.
    pub fn delivery(&self, bot: &OpenedBot) -> Option<EventDelivery> {
        let platform = self.platform(bot.platform.as_str())?;
        Some(platform.delivery(bot, self.door(bot).as_deref()))
    }

    /// What the operator must do at the platform, one sentence each.
    pub fn setup_steps(&self, bot: &OpenedBot) -> Vec<String> {
        let platform = self.platform(bot.platform.as_str());
        platform.map(|platform| platform.setup_steps(bot, self.door(bot).as_deref())).unwrap_or_default()
    }

    async fn follow_bot(&self, bot_ref: &BotRef) -> Result<(), Fault> {
        match self.0.bots.open_again(bot_ref).await? {
            Some(bot) => {
                self.start(bot).await;
                self.0.commands.may_have_changed(bot_ref);
            }
            None => {
                self.stop(bot_ref);
                self.0.health.forget(bot_ref);
            }
        }
        Ok(())
    }

    async fn follow_roster(&self) -> Result<(), Fault> {
        self.0.bots.forget_all();
        let bots = self.0.bots.all().await?;
        let left: Vec<BotRef> = bots.iter().map(|bot| bot.bot_ref()).collect();
        self.0.sources.lock().retain(|bot_ref, source| {
            let stays = left.contains(bot_ref);
            if !stays {
                self.0.hosts.map(bot_ref, None);
                source.stop.cancel();
                self.0.health.forget(bot_ref);
            }
            stays
        });
        for bot in bots {
            let bot_ref = bot.bot_ref();
            self.start(bot).await;
            self.0.commands.may_have_changed(&bot_ref);
        }
        Ok(())
    }

    /// Runs the event source of a bot. If one runs already, it goes on, unless the bot's credentials or settings have
    /// changed since it was started.
    async fn start(&self, bot: Arc<OpenedBot>) {
        let Some(platform) = self.platform(bot.platform.as_str()).cloned() else { return };
        self.0.hosts.map(&bot.bot_ref(), platform.host_of(&bot));
        let stop = self.0.closing.child_token();
        {
            let mut sources = self.0.sources.lock();
            if let Some(running) = sources.get(&bot.bot_ref()) {
                if running.bot.same_as(&bot) {
                    return;
                }
                running.stop.cancel();
            }
            sources.insert(bot.bot_ref(), EventSource { bot: Arc::clone(&bot), stop: stop.clone() });
        }
        let edge = self.clone();
        self.0.relay.tasks().spawn(async move { edge.serve(&platform, &bot, &stop).await });
    }

    /// Stops the event source of a bot, if it has one.
    pub(crate) fn stop(&self, bot: &BotRef) {
        self.0.hosts.map(bot, None);
        if let Some(source) = self.0.sources.lock().remove(bot) {
            source.stop.cancel();
        }
    }
}

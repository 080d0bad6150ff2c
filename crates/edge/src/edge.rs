//! The handle of the edge: starts and stops the event source of every bot.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use identity::{Identity, RosterChange};
use ledger::{BotRef, Prompts, Threads};
use parking_lot::Mutex;
use posthouse_time::Timepiece;
use relay::Relay;
use tokio_util::sync::CancellationToken;
use vault::Vault;

use crate::Fault;
use crate::asked_prompts::AskedPrompts;
use crate::bots::{Bots, OpenedBot};
use crate::context_buffer::ContextBuffer;
use crate::intake::Intake;
use crate::metrics::Metrics;
use crate::notices::Notices;
use crate::own_threads::OwnThreads;
use crate::platform::{EventDelivery, Platform};

/// Pause after the first failed registration of a bot with its platform. It doubles up to `LONGEST_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// The parts the edge is built from. No other plane gets the vault.
pub struct Parts {
    pub identity: Identity,
    pub vault: Vault,
    pub relay: Relay,
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
    pub identity: Identity,
    pub vault: Vault,
    pub relay: Relay,
    pub intake: Intake,
    pub prompts: AskedPrompts,
    pub threads: OwnThreads,
    pub metrics: Arc<Metrics>,
    pub timepiece: Timepiece,
    pub public_url: String,
    /// Bots whose event source is running, with the token that stops it.
    fetching: Mutex<HashMap<BotRef, CancellationToken>>,
    closing: CancellationToken,
}

impl Edge {
    pub fn new(parts: Parts) -> Self {
        let metrics = Arc::<Metrics>::default();
        let notices = Notices::new(parts.timepiece.clone());
        let roster = Arc::clone(parts.identity.roster.records());
        let (prompts, threads) = (AskedPrompts::new(parts.prompts), OwnThreads::new(parts.threads));
        Self(Arc::new(Inner {
            platforms: parts.platforms.into_iter().map(|platform| (platform.name(), platform)).collect(),
            bots: Bots::new(roster, parts.vault.clone()),
            intake: Intake::new(
                parts.vault.clone(),
                parts.relay.clone(),
                parts.identity.clone(),
                notices,
                Arc::clone(&metrics),
                (prompts.clone(), threads.clone(), ContextBuffer::new(parts.timepiece.clone())),
            ),
            prompts,
            threads,
            identity: parts.identity,
            vault: parts.vault,
            relay: parts.relay,
            metrics,
            timepiece: parts.timepiece,
            public_url: parts.public_url,
            fetching: Mutex::default(),
            closing: CancellationToken::new(),
        }))
    }

    /// Starts the event source of every bot and follows changes of the roster, until [`Edge::close`].
    pub async fn run(&self) -> Result<(), Fault> {
        let mut roster = self.0.identity.roster.watch();
        for bot in self.0.bots.all().await? {
            self.start(bot).await;
        }
        loop {
            tokio::select! {
                () = self.0.closing.cancelled() => return Ok(()),
                changed = roster.changed() => match changed {
                    Some(RosterChange::Bot(identity)) => self.follow_bot(&identity).await?,
                    Some(
                        RosterChange::Tenant(_)
                        | RosterChange::Agent(_)
                        | RosterChange::Client(_)
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
        reaches.then(|| format!("{}/door/{}/{}", self.0.public_url, bot.platform, bot.id))
    }

    async fn follow_bot(&self, identity: &BotRef) -> Result<(), Fault> {
        match self.0.bots.open_again(identity).await? {
            Some(bot) => self.start(bot).await,
            None => self.stop(identity),
        }
        Ok(())
    }

    async fn follow_roster(&self) -> Result<(), Fault> {
        self.0.bots.forget_all();
        let bots = self.0.bots.all().await?;
        let left: Vec<BotRef> = bots.iter().map(|bot| bot.bot_ref()).collect();
        self.0.fetching.lock().retain(|identity, source| {
            let stays = left.contains(identity);
            if !stays {
                source.cancel();
            }
            stays
        });
        for bot in bots {
            self.start(bot).await;
        }
        Ok(())
    }

    /// Registers a bot with its platform and runs its event source. Does nothing if that is already running.
    async fn start(&self, bot: Arc<OpenedBot>) {
        let Some(platform) = self.platform(bot.platform.as_str()).cloned() else { return };
        let stop = self.0.closing.child_token();
        if self.0.fetching.lock().contains_key(&bot.bot_ref()) {
            return;
        }
        self.0.fetching.lock().insert(bot.bot_ref(), stop.clone());
        let (edge, intake) = (self.clone(), self.0.intake.clone());
        self.0.relay.tasks().spawn(async move {
            let delivery = tokio::select! {
                () = stop.cancelled() => return,
                delivery = edge.register(&platform, &bot) => delivery,
            };
            if delivery == EventDelivery::Fetched {
                platform.fetch(bot, intake, stop).await;
            }
        });
    }

    /// Stops the event source of a bot, if it has one.
    pub(crate) fn stop(&self, bot: &BotRef) {
        if let Some(source) = self.0.fetching.lock().remove(bot) {
            source.cancel();
        }
    }

    /// Registers a bot with its platform. Retries until that succeeds, because a bot without its webhook would get no
    /// messages.
    async fn register(&self, platform: &Arc<dyn Platform>, bot: &OpenedBot) -> EventDelivery {
        let door = self.door(bot);
        if door.is_none() && bot.setting("mode") == Some("webhook") {
            tracing::warn!(bot.id = %bot.id, platform = platform.name(), "the platform cannot call this server, so the bot polls; to use its webhook, set server.public_url to an https address");
        }
        let mut pause = FIRST_PAUSE;
        loop {
            match platform.register(bot, door.as_deref()).await {
                Ok(delivery) => {
                    if !platform.needs().is_empty() {
                        let how = if delivery == EventDelivery::Pushed { "webhook" } else { "polling" };
                        tracing::info!(bot.id = %bot.id, platform = platform.name(), "a bot is registered with its platform and gets events by {how}");
                    }
                    return delivery;
                }
                Err(trouble) => {
                    tracing::warn!(bot.id = %bot.id, platform = platform.name(), %trouble, "could not register a bot with its platform; trying again");
                    self.0.timepiece.after(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }
}

//! The handle of the edge: starts and stops the event source of every bot.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use identity::{Identity, RosterChange};
use ledger::{BotRef, DeadBots, Prompts, Threads};
use parking_lot::Mutex;
use posthouse_time::Timepiece;
use relay::Relay;
use tokio_util::sync::CancellationToken;
use vault::Vault;

use crate::Fault;
use crate::asked_prompts::AskedPrompts;
use crate::bot_health::BotHealth;
use crate::bots::{Bots, OpenedBot};
use crate::chat_visibility::PlatformVisibility;
use crate::intake::Intake;
use crate::metrics::Metrics;
use crate::notices::Notices;
use crate::own_threads::OwnThreads;
use crate::platform::{BotTrouble, EventDelivery, Platform};
use crate::staleness::StaleMessages;

/// Pause after the first failed registration of a bot with its platform. It doubles up to `LONGEST_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Time between two checks of the credential of a dead bot.
const DEAD_BOT_CHECK: Duration = Duration::from_secs(15 * 60);
/// Shortest time between two checks of a credential that works after all.
const DOUBT_PAUSE: Duration = Duration::from_secs(30);

/// The parts the edge is built from. No other plane gets the vault.
pub struct Parts {
    pub identity: Identity,
    pub vault: Vault,
    pub relay: Relay,
    pub dead_bots: Arc<dyn DeadBots>,
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
    pub prompts: AskedPrompts,
    pub threads: OwnThreads,
    stale_messages: StaleMessages,
    pub metrics: Arc<Metrics>,
    pub timepiece: Timepiece,
    pub public_url: String,
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
        let notices = Notices::new(parts.timepiece.clone(), health.clone());
        let bots = Bots::new(Arc::clone(parts.identity.roster.records()), parts.vault.clone());
        let stale_messages = StaleMessages {
            relay: parts.relay.clone(),
            bots: bots.clone(),
            notices: notices.clone(),
            timepiece: parts.timepiece.clone(),
        };
        let (prompts, threads) = (AskedPrompts::new(parts.prompts), OwnThreads::new(parts.threads));
        let gate = parts.identity.gate.clone();
        let edge = Self(Arc::new(Inner {
            platforms: parts.platforms.into_iter().map(|platform| (platform.name(), platform)).collect(),
            bots,
            stale_messages,
            intake: Intake::new(
                parts.vault.clone(),
                parts.relay.clone(),
                parts.identity.clone(),
                notices,
                Arc::clone(&metrics),
                (prompts.clone(), threads.clone()),
                &parts.timepiece,
            ),
            health,
            prompts,
            threads,
            identity: parts.identity,
            vault: parts.vault,
            relay: parts.relay,
            metrics,
            timepiece: parts.timepiece,
            public_url: parts.public_url,
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

    async fn follow_bot(&self, bot_ref: &BotRef) -> Result<(), Fault> {
        match self.0.bots.open_again(bot_ref).await? {
            Some(bot) => self.start(bot).await,
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
                source.stop.cancel();
                self.0.health.forget(bot_ref);
            }
            stays
        });
        for bot in bots {
            self.start(bot).await;
        }
        Ok(())
    }

    /// Runs the event source of a bot. If one runs already, it goes on, unless the bot's credentials or settings have
    /// changed since it was started.
    async fn start(&self, bot: Arc<OpenedBot>) {
        let Some(platform) = self.platform(bot.platform.as_str()).cloned() else { return };
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
        if let Some(source) = self.0.sources.lock().remove(bot) {
            source.stop.cancel();
        }
    }

    /// Gets the events of a bot while its credential is accepted, until `stop`.
    async fn serve(&self, platform: &Arc<dyn Platform>, bot: &Arc<OpenedBot>, stop: &CancellationToken) {
        let on = bot.bot_ref();
        // A bot that was dead before a restart is checked at once.
        let mut pause = Duration::ZERO;
        loop {
            if self.0.health.is_dead(&on) {
                let accepted = stop.run_until_cancelled(self.until_accepted(platform, bot, pause)).await;
                if accepted.is_none() {
                    return;
                }
                if let Err(fault) = self.0.health.mark_working(&on).await {
                    tracing::error!(%fault, "could not store that a dead bot works again");
                    pause = DEAD_BOT_CHECK;
                    continue;
                }
            }
            let stop_events = stop.child_token();
            let events = self.receive_events(platform, bot, &stop_events);
            tokio::pin!(events);
            let why = tokio::select! {
                why = self.until_refused(platform, bot) => why,
                () = &mut events => return,
            };
            // The source stops between two events, never inside one.
            stop_events.cancel();
            events.await;
            self.0.health.mark_dead(&on, why, stop).await;
            pause = DEAD_BOT_CHECK;
        }
    }

    /// Registers a bot and gets its events until `stop`. Returns at once for a platform without credentials, whose
    /// events arise in this server.
    async fn receive_events(
        &self,
        platform: &Arc<dyn Platform>,
        bot: &Arc<OpenedBot>,
        stop: &CancellationToken,
    ) {
        let Some(delivery) = stop.run_until_cancelled(self.register(platform, bot)).await else { return };
        match delivery {
            EventDelivery::Fetched => {
                platform.fetch(Arc::clone(bot), self.0.intake.clone(), stop.clone()).await;
            }
            EventDelivery::Pushed if platform.required_secrets().is_empty() => {}
            EventDelivery::Pushed => stop.cancelled().await,
        }
    }

    /// Waits until the platform does not accept the bot's credential. Returns its answer.
    async fn until_refused(&self, platform: &Arc<dyn Platform>, bot: &OpenedBot) -> String {
        loop {
            platform.credential_doubted(bot).await;
            match platform.check_credentials(bot).await {
                Err(BotTrouble::CredentialRefused(why)) => return why,
                Ok(_) => {
                    tracing::warn!(bot.id = %bot.id, platform = platform.name(), "the platform refused a call of a bot as unauthorized, but accepts its credential");
                }
                Err(BotTrouble::Other(trouble)) => {
                    tracing::warn!(bot.id = %bot.id, platform = platform.name(), trouble, "could not check the credential of a bot after a refused call");
                }
            }
            self.0.timepiece.after(DOUBT_PAUSE).await;
        }
    }

    /// Waits until the platform accepts the bot's credential.
    async fn until_accepted(&self, platform: &Arc<dyn Platform>, bot: &OpenedBot, mut pause: Duration) {
        loop {
            self.0.timepiece.after(pause).await;
            if platform.check_credentials(bot).await.is_ok() {
                tracing::info!(bot.id = %bot.id, platform = platform.name(), "the platform accepts the credential of a dead bot again");
                return;
            }
            pause = DEAD_BOT_CHECK;
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
                    if !platform.required_secrets().is_empty() {
                        let how = if delivery == EventDelivery::Pushed { "webhook" } else { "polling" };
                        tracing::info!(bot.id = %bot.id, platform = platform.name(), "a bot is registered with its platform and gets events by {how}");
                    }
                    return delivery;
                }
                // Its credential is checked now, and that check is logged.
                Err(BotTrouble::CredentialRefused(_)) => {}
                Err(BotTrouble::Other(trouble)) => {
                    tracing::warn!(bot.id = %bot.id, platform = platform.name(), trouble, "could not register a bot with its platform; trying again");
                }
            }
            self.0.timepiece.after(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

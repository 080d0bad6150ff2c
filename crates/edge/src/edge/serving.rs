//! Serving one bot: registration, its event feed, and checks of its credential.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Edge;
use crate::bots::OpenedBot;
use crate::event_feed::{self, EventFeed};
use crate::platform::{BotTrouble, EventDelivery, Platform};

/// Pause after the first failed registration of a bot with its platform. It doubles up to `LONGEST_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Time between two checks of the credential of a dead bot.
const DEAD_BOT_CHECK: Duration = Duration::from_secs(15 * 60);
/// Shortest time between two checks of a credential that works after all.
const DOUBT_PAUSE: Duration = Duration::from_secs(30);

impl Edge {
    /// Gets the events of a bot while its credential is accepted, until `stop`.
    pub(super) async fn serve(
        &self,
        platform: &Arc<dyn Platform>,
        bot: &Arc<OpenedBot>,
        stop: &CancellationToken,
    ) {
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
            // The feed stops between two events, never during one.
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
        if delivery == EventDelivery::BuiltIn {
            return;
        }
        let commands = stop.run_until_cancelled(self.0.commands.follow(&**platform, bot));
        let events = async {
            match delivery {
                EventDelivery::Polling | EventDelivery::Socket => {
                    self.fetch_events(platform, bot, stop).await
                }
                EventDelivery::Webhook | EventDelivery::BuiltIn => stop.cancelled().await,
            }
        };
        tokio::join!(commands, events);
    }

    /// Keeps the event feed of a bot open until `stop`.
    async fn fetch_events(
        &self,
        platform: &Arc<dyn Platform>,
        bot: &Arc<OpenedBot>,
        stop: &CancellationToken,
    ) {
        loop {
            let records = Arc::clone(&self.0.event_feeds);
            match EventFeed::open(Arc::clone(bot), self.0.intake.clone(), records, stop.clone()).await {
                Ok(feed) => {
                    let feed = feed.reporting_to(self.0.health.clone());
                    return event_feed::keep_open(&**platform, feed, &self.0.timepiece).await;
                }
                Err(fault) => {
                    tracing::error!(%fault, bot.id = %bot.id, "could not read the position of an event feed");
                    if stop.run_until_cancelled(self.0.timepiece.after(LONGEST_PAUSE)).await.is_none() {
                        return;
                    }
                }
            }
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
                Ok(()) => {
                    let delivery = platform.delivery(bot, door.as_deref());
                    let how = match delivery {
                        EventDelivery::BuiltIn => return delivery,
                        EventDelivery::Webhook => "webhook",
                        EventDelivery::Polling => "polling",
                        EventDelivery::Socket => "a socket",
                    };
                    tracing::info!(bot.id = %bot.id, platform = platform.name(), "a bot is registered with its platform and gets events by {how}");
                    return delivery;
                }
                // This leads to a check of the credential, which logs it.
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

//! The handle of this plane.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ledger::{Identity, Roster};
use parking_lot::Mutex;
use posthouse_time::Timepiece;
use relay::Relay;
use tokio_util::sync::CancellationToken;
use vault::Vault;

use crate::Fault;
use crate::bots::{Bot, Bots};
use crate::intake::Intake;
use crate::metrics::Metrics;
use crate::platform::{Platform, Settled};

/// Between two tries to settle a bot in with its platform.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// What the edge is built from. It alone is handed the vault.
pub struct Parts {
    pub roster: Arc<dyn Roster>,
    pub vault: Vault,
    pub relay: Relay,
    pub timepiece: Timepiece,
    pub platforms: Vec<Arc<dyn Platform>>,
    /// The one address of this house.
    pub public_url: String,
}

/// The chat platforms of this house; a handle to share.
#[derive(Clone)]
pub struct Edge(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub platforms: HashMap<&'static str, Arc<dyn Platform>>,
    pub bots: Bots,
    pub roster: Arc<dyn Roster>,
    pub vault: Vault,
    pub relay: Relay,
    pub intake: Intake,
    pub metrics: Arc<Metrics>,
    pub timepiece: Timepiece,
    pub public_url: String,
    /// Bots whose source is running, and how to stop it.
    fetching: Mutex<HashMap<Identity, CancellationToken>>,
    closing: CancellationToken,
}

impl Edge {
    pub fn new(parts: Parts) -> Self {
        let metrics = Arc::<Metrics>::default();
        Self(Arc::new(Inner {
            platforms: parts.platforms.into_iter().map(|platform| (platform.name(), platform)).collect(),
            bots: Bots::new(Arc::clone(&parts.roster), parts.vault.clone()),
            intake: Intake::new(parts.vault.clone(), parts.relay.clone(), Arc::clone(&metrics)),
            roster: parts.roster,
            vault: parts.vault,
            relay: parts.relay,
            metrics,
            timepiece: parts.timepiece,
            public_url: parts.public_url,
            fetching: Mutex::default(),
            closing: CancellationToken::new(),
        }))
    }

    /// Starts every bot's source and follows changes of the roster, until the house closes.
    pub async fn run(&self) -> Result<(), Fault> {
        let mut roster = self.0.relay.watch_roster();
        for bot in self.0.bots.all().await? {
            self.start(bot).await;
        }
        loop {
            tokio::select! {
                () = self.0.closing.cancelled() => return Ok(()),
                changed = roster.changed() => match changed {
                    true => self.follow_roster().await?,
                    false => return Ok(()),
                },
            }
        }
    }

    /// Ends every source. What they fetched and kept stays kept; the rest the platform gives again.
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

    /// The address at which a platform delivers to this bot, if it can reach this house: platforms insist
    /// on https, unless they are neighbours that we ourselves speak plain http with.
    pub fn door(&self, bot: &Bot) -> Option<String> {
        let platform = self.platform(bot.platform.as_str())?;
        let reaches = self.0.public_url.starts_with("https://") || platform.is_neighbour(bot);
        reaches.then(|| format!("{}/door/{}/{}", self.0.public_url, bot.platform, bot.id))
    }

    async fn follow_roster(&self) -> Result<(), Fault> {
        self.0.bots.forget_all();
        let bots = self.0.bots.all().await?;
        let left: Vec<Identity> = bots.iter().map(|bot| bot.identity()).collect();
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

    /// Settles a bot in with its platform and runs its source; once per bot.
    async fn start(&self, bot: Arc<Bot>) {
        let Some(platform) = self.platform(bot.platform.as_str()).cloned() else { return };
        let stop = self.0.closing.child_token();
        if self.0.fetching.lock().contains_key(&bot.identity()) {
            return;
        }
        self.0.fetching.lock().insert(bot.identity(), stop.clone());
        let (edge, intake) = (self.clone(), self.0.intake.clone());
        self.0.relay.tasks().spawn(async move {
            let settled = tokio::select! {
                () = stop.cancelled() => return,
                settled = edge.settle_in(&platform, &bot) => settled,
            };
            if settled == Settled::Fetches {
                platform.fetch(bot, intake, stop).await;
            }
        });
    }

    /// Ends a bot's source, if it has one.
    pub(crate) fn stop(&self, bot: &Identity) {
        if let Some(source) = self.0.fetching.lock().remove(bot) {
            source.cancel();
        }
    }

    /// Tries until the platform has taken it: a bot whose webhook was never set would stay deaf.
    async fn settle_in(&self, platform: &Arc<dyn Platform>, bot: &Bot) -> Settled {
        let door = self.door(bot);
        if door.is_none() && bot.setting("mode") == Some("webhook") {
            tracing::warn!(bot.id = %bot.id, platform = platform.name(), "nobody can call this house: the bot polls instead; set server.public_url to an https address");
        }
        let mut pause = FIRST_PAUSE;
        loop {
            match platform.settle_in(bot, door.as_deref()).await {
                Ok(settled) => {
                    if !platform.needs().is_empty() {
                        let how = if settled == Settled::Called { "calls us" } else { "is asked" };
                        tracing::info!(bot.id = %bot.id, platform = platform.name(), "a bot is settled in: its platform {how}");
                    }
                    return settled;
                }
                Err(trouble) => {
                    tracing::warn!(bot.id = %bot.id, platform = platform.name(), %trouble, "a bot could not be settled in");
                    self.0.timepiece.after(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }
}

//! Event feeds: the polling loops and sockets by which the server fetches the events of a bot.
//!
//! A platform serves one connection, or polls until it fails. This module opens the feed again after a pause, and keeps
//! the position at which the next connection continues.

mod event_lanes;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use ledger::EventFeeds;
use posthouse_time::Timepiece;
use tokio_util::sync::CancellationToken;

use crate::Fault;
use crate::bot_health::BotHealth;
use crate::bots::OpenedBot;
use crate::intake::Intake;
use crate::platform::Platform;

pub(crate) use event_lanes::{EventLanes, StoringEvent, lane_of};

/// Pause after the first failure. It doubles up to `LONGEST_PAUSE`, until the feed works again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Pause after a failure that only the operator can end.
const OPERATOR_PAUSE: Duration = Duration::from_secs(300);

/// Pause after another connection has taken over. Shorter pauses would make both servers lose it by turns.
const DISPLACED_PAUSE: Duration = Duration::from_secs(3600);

/// The reason why a feed ended. The platform's code has logged it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedEnd {
    /// It was stopped.
    Stopped,
    /// The platform asked for a new connection, which is opened at once.
    Reopen,
    /// It failed. It is opened again after a pause.
    Failed,
    /// It fails until the operator changes something at the platform.
    NeedsOperator,
    /// The platform accepts one connection per bot, and another one has taken over.
    Displaced,
}

/// The feed of one bot. It lasts over its connections.
pub struct EventFeed {
    pub bot: Arc<OpenedBot>,
    pub intake: Intake,
    pub stop: CancellationToken,
    records: Arc<dyn EventFeeds>,
    cursor: Option<String>,
    works: bool,
    health: Option<BotHealth>,
}

impl EventFeed {
    /// Opens the feed of a bot at its saved position.
    pub async fn open(
        bot: Arc<OpenedBot>,
        intake: Intake,
        records: Arc<dyn EventFeeds>,
        stop: CancellationToken,
    ) -> Result<Self, Fault> {
        let cursor = records.feed_cursor(&bot.bot_ref()).await?;
        Ok(Self { bot, intake, stop, records, cursor, works: false, health: None })
    }

    /// Reports to the bot's health when another program has taken over the connection, and when it works again.
    pub(crate) fn reporting_to(self, health: BotHealth) -> Self {
        Self { health: Some(health), ..self }
    }

    /// The position at which the platform continues.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// Changes the position in memory only, for platforms that keep unconfirmed events themselves.
    pub fn set_cursor(&mut self, cursor: Option<String>) {
        self.cursor = cursor;
    }

    /// Saves the position. A restart of the server continues there.
    pub async fn save_cursor(&mut self, cursor: Option<String>) -> Result<(), Fault> {
        if cursor != self.cursor {
            self.records.save_feed_cursor(&self.bot.bot_ref(), cursor.as_deref()).await?;
            self.cursor = cursor;
        }
        Ok(())
    }

    /// Notes that the platform has accepted the connection or delivered events. The next pause is the shortest again.
    pub fn works(&mut self) {
        self.works = true;
        if let Some(health) = &self.health {
            health.mark_connected(&self.bot.bot_ref());
        }
    }
}

/// Keeps the feed of a bot open until it is stopped.
pub async fn keep_open(platform: &dyn Platform, mut feed: EventFeed, timepiece: &Timepiece) {
    let stop = feed.stop.clone();
    let mut pause = FIRST_PAUSE;
    while !stop.is_cancelled() {
        feed.works = false;
        let end = platform.fetch(&mut feed).await;
        if feed.works {
            pause = FIRST_PAUSE;
        }
        let wait = match end {
            FeedEnd::Stopped => return,
            FeedEnd::Reopen if feed.works => continue,
            FeedEnd::Reopen | FeedEnd::Failed => some_of(pause),
            FeedEnd::NeedsOperator => OPERATOR_PAUSE,
            FeedEnd::Displaced => {
                if let Some(health) = &feed.health {
                    health.mark_displaced(&feed.bot.bot_ref());
                }
                DISPLACED_PAUSE
            }
        };
        stop.run_until_cancelled(timepiece.after(wait)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// A random part of a pause, at least half, so that bots whose connections broke together do not reconnect together.
pub(crate) fn some_of(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + random_fraction() / 2.0)
}

/// A number from 0 to 1 that differs at each call. Not for secrets.
pub(crate) fn random_fraction() -> f64 {
    RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64
}

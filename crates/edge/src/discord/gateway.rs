//! Discord's gateway: the sockets over which it sends the events of a bot, one per shard.

mod connection;
mod identify_limit;
mod inflate;
mod sessions;
mod storing;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::event_feed::{EventFeed, FeedEnd, random_fraction, some_of};
use crate::platform_calls::CallFailure;

use super::api::DiscordCall;
use super::{Discord, LABEL};
use connection::{ShardConnection, ShardEnd};
use identify_limit::IdentifyLimit;
use sessions::ShardSessions;

const TIME_LIMIT: Duration = Duration::from_secs(20);
/// Most shards of one bot. Discord demands one for 2500 servers.
const MOST_SHARDS: u32 = 1000;
/// Pauses of a shard whose connection failed.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Connections in a row without a stored event after which a session is given up.
const GIVE_UP_SESSION: u32 = 5;
/// Longest pause after a session was given up. Discord allows a bot a thousand new sessions in a day.
const LONGEST_PAUSE_AFTER_GIVING_UP: Duration = Duration::from_secs(600);

/// The address of the gateway, and how often a bot may identify.
#[derive(Deserialize)]
struct GatewayAddress {
    url: String,
    #[serde(default = "one")]
    shards: u32,
    #[serde(default)]
    session_start_limit: SessionStartLimit,
}

#[derive(Deserialize)]
#[serde(default)]
struct SessionStartLimit {
    remaining: u32,
    /// Milliseconds until `remaining` is filled again.
    reset_after: u64,
    max_concurrency: u32,
}

impl Default for SessionStartLimit {
    fn default() -> Self {
        Self { remaining: 1, reset_after: 0, max_concurrency: 1 }
    }
}

fn one() -> u32 {
    1
}

/// Serves the shards of a bot until the feed is stopped, or all shards have to start again.
pub(super) async fn fetch(discord: &Discord, feed: &mut EventFeed) -> FeedEnd {
    let (bot, stop) = (Arc::clone(&feed.bot), feed.stop.clone());
    let asked = discord.call::<GatewayAddress>(
        &bot,
        DiscordCall::get("GET /gateway/bot", "/gateway/bot"),
        TIME_LIMIT,
    );
    let address = match stop.run_until_cancelled(asked).await {
        None => return FeedEnd::Stopped,
        Some(Ok(address)) => address,
        Some(Err(failure)) => {
            // A refused token leads to a check of the credential, which logs it.
            if !failure.is_credential_dead() {
                tracing::warn!(bot.id = %bot.id, "could not ask Discord for its gateway: {}", failure.cause(LABEL));
            }
            return FeedEnd::Failed;
        }
    };
    let wanted = bot.setting("shards").and_then(|shards| shards.parse().ok());
    let shards = wanted.unwrap_or(address.shards).clamp(1, MOST_SHARDS);
    let limit = &address.session_start_limit;
    let sessions = ShardSessions::open(feed, shards);
    if limit.remaining < shards && !sessions.all_known() {
        let wait = Duration::from_millis(limit.reset_after);
        tracing::warn!(bot.id = %bot.id, wait_s = wait.as_secs(), "Discord allows this bot no new session now");
        stop.run_until_cancelled(discord.timepiece.after(wait)).await;
        return FeedEnd::Failed;
    }
    let identifying = IdentifyLimit::new(limit.max_concurrency, discord.timepiece.clone());
    // The shards end together: an error that ends one shard permanently, such as a wrong token, ends all.
    let ending = stop.child_token();
    let shared = Shards {
        discord,
        url: &address.url,
        sessions: &sessions,
        identifying: &identifying,
        shards,
        ending: &ending,
    };
    let mut running: FuturesUnordered<_> = (0..shards).map(|shard| shared.serve(shard)).collect();
    let mut end = FeedEnd::Stopped;
    while let Some(ended) = running.next().await {
        if ended != FeedEnd::Stopped {
            end = ended;
            ending.cancel();
        }
    }
    drop(running);
    sessions.save().await;
    end
}

/// What the shards of a bot share.
#[derive(Clone, Copy)]
struct Shards<'a> {
    discord: &'a Discord,
    url: &'a str,
    sessions: &'a ShardSessions<'a>,
    identifying: &'a IdentifyLimit,
    shards: u32,
    /// Ends all shards, each between two events.
    ending: &'a CancellationToken,
}

impl Shards<'_> {
    /// Keeps one shard connected. Returns what ended it.
    async fn serve(&self, shard: u32) -> FeedEnd {
        let sessions = self.sessions;
        let bot = sessions.bot();
        let (mut pause, mut fruitless) = (FIRST_PAUSE, 0);
        let mut pause_after_giving_up = FIRST_PAUSE;
        loop {
            let session = sessions.session(shard);
            let url = session.as_ref().map_or(self.url, |session| session.url.as_str());
            let mut works = false;
            let opening = ShardConnection::open(*self, shard, url);
            let Some(opened) = self.ending.run_until_cancelled(opening).await else {
                return FeedEnd::Stopped;
            };
            let end = match opened {
                Ok(connection) => {
                    let end = connection.serve(&mut works).await;
                    let is_ahead = works || sessions.session(shard) != session;
                    match end {
                        _ if is_ahead => fruitless = 0,
                        ShardEnd::Resume => fruitless += 1,
                        // An event that could not be stored must not be lost, however long that takes.
                        _ => {}
                    }
                    end
                }
                Err(failure) => {
                    fruitless += 1;
                    let cause = match &failure {
                        CallFailure::Unreached(cause) => cause.clone(),
                        failure => failure.cause(LABEL),
                    };
                    tracing::warn!(bot.id = %bot.id, shard, "could not connect to Discord's gateway: {cause}");
                    ShardEnd::Failed
                }
            };
            if works {
                pause = FIRST_PAUSE;
            }
            let mut wait = match end {
                ShardEnd::Stopped => return FeedEnd::Stopped,
                ShardEnd::Resume if works => Duration::ZERO,
                // Discord asks for a random pause of one to five seconds.
                ShardEnd::NewSession => {
                    sessions.forget(shard);
                    Duration::from_secs(1) + Duration::from_secs(4).mul_f64(random_fraction())
                }
                ShardEnd::Resume | ShardEnd::Failed => some_of(pause),
                ShardEnd::TokenRefused => {
                    self.discord.refused.report(&bot.id);
                    return FeedEnd::Failed;
                }
                ShardEnd::ShardsRefused => {
                    sessions.forget_all();
                    return FeedEnd::Failed;
                }
                ShardEnd::IntentsRefused => return FeedEnd::NeedsOperator,
            };
            if fruitless >= GIVE_UP_SESSION {
                fruitless = 0;
                if session.is_some() {
                    // Its address may be gone, or it repeats an event that cannot be read. What it missed is lost.
                    tracing::warn!(bot.id = %bot.id, shard, "gave up a session with Discord's gateway; some messages may be lost");
                    sessions.forget(shard);
                    wait = wait.max(pause_after_giving_up);
                    pause_after_giving_up = (pause_after_giving_up * 2).min(LONGEST_PAUSE_AFTER_GIVING_UP);
                }
            }
            sessions.save().await;
            if self.ending.run_until_cancelled(self.discord.timepiece.after(wait)).await.is_none() {
                return FeedEnd::Stopped;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

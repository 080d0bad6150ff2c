//! Threads in which the bot has written. A message there is an answer to the bot, also without a mention.

use std::time::Duration;

use moka::sync::Cache;
use posthouse_wire::BotId;

/// Time since the last message after which people must mention the bot again.
const FORGOTTEN: Duration = Duration::from_secs(24 * 3600);
const MOST: u64 = 50_000;

/// Threads by bot, channel and first message. They are forgotten at a restart. Clones share one state.
#[derive(Clone)]
pub(super) struct JoinedThreads(Cache<(BotId, String, String), ()>);

impl Default for JoinedThreads {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(MOST).time_to_idle(FORGOTTEN).build())
    }
}

impl JoinedThreads {
    pub fn note(&self, bot: &BotId, channel: &str, thread: &str) {
        self.0.insert((bot.clone(), channel.to_owned(), thread.to_owned()), ());
    }

    pub fn has(&self, bot: &BotId, channel: &str, thread: &str) -> bool {
        self.0.get(&(bot.clone(), channel.to_owned(), thread.to_owned())).is_some()
    }
}

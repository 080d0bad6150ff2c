//! Messages of the bot itself, and threads in which it has written. A reply to one is an answer to the bot, also without
//! a mention.

use std::time::Duration;

use moka::sync::Cache;
use posthouse_wire::BotId;

/// Time since the last use after which people must mention the bot again.
const FORGOTTEN: Duration = Duration::from_secs(24 * 3600);
const MOST: u64 = 100_000;

/// Events by bot and id. They are forgotten at a restart. Clones share one state.
#[derive(Clone)]
pub(super) struct OwnEvents {
    messages: Cache<(BotId, String), ()>,
    threads: Cache<(BotId, String), ()>,
}

impl Default for OwnEvents {
    fn default() -> Self {
        let cache = || Cache::builder().max_capacity(MOST).time_to_idle(FORGOTTEN).build();
        Self { messages: cache(), threads: cache() }
    }
}

impl OwnEvents {
    pub fn note_message(&self, bot: &BotId, event: &str) {
        self.messages.insert((bot.clone(), event.to_owned()), ());
    }

    pub fn note_thread(&self, bot: &BotId, root: &str) {
        self.threads.insert((bot.clone(), root.to_owned()), ());
    }

    pub fn has_message(&self, bot: &BotId, event: &str) -> bool {
        self.messages.get(&(bot.clone(), event.to_owned())).is_some()
    }

    /// Whether the bot has written in the thread, or began it.
    pub fn has_thread(&self, bot: &BotId, root: &str) -> bool {
        self.threads.get(&(bot.clone(), root.to_owned())).is_some() || self.has_message(bot, root)
    }
}

//! Conversion and splitting of texts of agents. Long texts are handled on a blocking thread, one per bot at a time.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use posthouse_wire::BotId;
use tokio::sync::{Mutex, Semaphore};

/// Largest text, in bytes, that is handled on the async worker; it takes about a millisecond.
const SHORT: usize = 4096;
/// Number of long texts of one platform that are handled at the same time, over all its bots.
const AT_ONCE: usize = 2;

/// Limits of concurrent splitting on one platform. Clones share them.
#[derive(Clone)]
pub(crate) struct SplitLimits {
    in_all: Arc<Semaphore>,
    bots: Cache<BotId, Arc<Mutex<()>>>,
}

impl Default for SplitLimits {
    fn default() -> Self {
        let bots = Cache::builder().max_capacity(10_000).time_to_idle(Duration::from_secs(60)).build();
        Self { in_all: Arc::new(Semaphore::new(AT_ONCE)), bots }
    }
}

impl SplitLimits {
    /// What `convert` makes of a text, such as its chunks.
    pub async fn run<T: Default + Send + 'static>(
        &self,
        bot: &BotId,
        content: &str,
        convert: impl FnOnce(&str) -> T + Send + 'static,
    ) -> T {
        if content.len() <= SHORT {
            return convert(content);
        }
        // The bot's own lock comes first, so that a text waits for at most one text of any other bot.
        let own = self.bots.get_with_by_ref(bot, Arc::default);
        let _own = own.lock().await;
        let Ok(_turn) = self.in_all.acquire().await else { return T::default() };
        let content = content.to_owned();
        match tokio::task::spawn_blocking(move || convert(&content)).await {
            Ok(converted) => converted,
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down.
                Err(_) => T::default(),
            },
        }
    }
}

#[cfg(test)]
mod tests;

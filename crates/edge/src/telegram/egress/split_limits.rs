//! Splitting of texts into Telegram messages. Long texts are split on a blocking thread, one per bot at a time.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use posthouse_wire::BotId;
use tokio::sync::{Mutex, Semaphore};

use crate::split::split_measured;
use crate::telegram::MESSAGE_LENGTH;
use crate::telegram::markdown::{to_markdown_v2, visible_units};

/// Largest text, in bytes, that is split on the async worker; it takes about a millisecond.
const SHORT: usize = 4096;
/// Number of long texts that are split at the same time, over all bots.
const AT_ONCE: usize = 2;

/// Limits of concurrent splitting. Clones share them.
#[derive(Clone)]
pub(in crate::telegram) struct SplitLimits {
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
    /// Chunks that each fit into one message, measured in visible characters.
    pub async fn chunks(&self, bot: &BotId, content: &str) -> Vec<String> {
        if content.len() <= SHORT {
            return chunks(content);
        }
        // The bot's own lock comes first, so that a text waits for at most one text of any other bot.
        let own = self.bots.get_with_by_ref(bot, Arc::default);
        let _own = own.lock().await;
        let Ok(_turn) = self.in_all.acquire().await else { return Vec::new() };
        let content = content.to_owned();
        match tokio::task::spawn_blocking(move || chunks(&content)).await {
            Ok(chunks) => chunks,
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down.
                Err(_) => Vec::new(),
            },
        }
    }
}

fn chunks(content: &str) -> Vec<String> {
    split_measured(content, MESSAGE_LENGTH, &|chunk| visible_units(&to_markdown_v2(chunk)))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_long_text_leaves_the_async_workers_while_it_is_fitted() {
        let (split_limits, bot) = (SplitLimits::default(), BotId::from("7001"));
        let text = "some *words* of a long answer\n".repeat(2_000);
        let mut fitted = std::pin::pin!(split_limits.chunks(&bot, &text));
        assert!(fitted.as_mut().now_or_never().is_none(), "it is fitted on the worker that asks for it");
        // This test has one worker, which is free meanwhile.
        let short = split_limits.chunks(&BotId::from("7002"), "short").now_or_never();
        assert_eq!(short, Some(vec!["short".to_owned()]));
        let together = fitted.await.concat();
        assert_eq!(together.matches("answer").count(), 2_000);
    }

    #[tokio::test]
    async fn long_texts_of_one_bot_leave_a_turn_for_another() {
        let split_limits = SplitLimits::default();
        let noisy = split_limits.bots.get_with_by_ref(&BotId::from("7001"), Arc::default);
        // One of its texts is being fitted, and more wait.
        let _own = noisy.lock().await;
        let _turn = split_limits.in_all.acquire().await.unwrap();
        let long = "word ".repeat(2_000);
        let (noisy_bot, quiet_bot) = (BotId::from("7001"), BotId::from("7002"));
        let waiting = split_limits.chunks(&noisy_bot, &long);
        let mut waiting = std::pin::pin!(waiting);
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(!split_limits.chunks(&quiet_bot, &long).await.is_empty());
        assert!(waiting.now_or_never().is_none(), "the other still waits for its own turn");
    }
}

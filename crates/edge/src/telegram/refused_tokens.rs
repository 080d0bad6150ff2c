//! Bots whose token Telegram refused in a call. Whoever serves such a bot then checks its token.

use std::sync::Arc;

use dashmap::DashMap;
use posthouse_wire::BotId;
use tokio::sync::Notify;

/// Those who wait for a refusal, by bot. Clones share one state. It holds only bots for which somebody waits.
#[derive(Clone, Default)]
pub(super) struct RefusedTokens(Arc<DashMap<BotId, Arc<Notify>>>);

impl RefusedTokens {
    /// A call of this bot was refused because of its token.
    pub fn report(&self, bot: &BotId) {
        if let Some(waiting) = self.0.get(bot) {
            waiting.notify_one();
        }
    }

    /// Waits for the next refusal.
    pub async fn reported(&self, bot: &BotId) {
        let waiting = WaitGuard { all: self, bot, refused: Arc::default() };
        self.0.insert(bot.clone(), Arc::clone(&waiting.refused));
        waiting.refused.notified().await;
    }
}

/// Removes itself when the waiting ends.
struct WaitGuard<'a> {
    all: &'a RefusedTokens,
    bot: &'a BotId,
    refused: Arc<Notify>,
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        // A newer one may have taken its place.
        self.all.0.remove_if(self.bot, |_, other| Arc::ptr_eq(other, &self.refused));
    }
}

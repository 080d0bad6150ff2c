//! Refused credentials: reports from calls that a platform does not accept a bot's credential. The task that serves the
//! bot then checks it.

use std::sync::Arc;

use dashmap::DashMap;
use posthouse_wire::BotId;
use tokio::sync::Notify;

/// Tasks that wait for a refusal, by bot. Clones share one state.
#[derive(Clone, Default)]
pub(crate) struct RefusedCredentials(Arc<DashMap<BotId, Arc<Notify>>>);

impl RefusedCredentials {
    /// Reports that a call of this bot was refused because of its credential.
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
    all: &'a RefusedCredentials,
    bot: &'a BotId,
    refused: Arc<Notify>,
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        // A newer wait may have replaced the entry.
        self.all.0.remove_if(self.bot, |_, other| Arc::ptr_eq(other, &self.refused));
    }
}

//! Refused credentials: reports from calls that a platform does not accept a bot's credential. The task that serves the
//! bot then checks it.

use std::sync::Arc;

use dashmap::DashMap;
use posthouse_wire::BotId;
use tokio::sync::Notify;

/// Reports by bot. Each keeps one report until the bot's task waits for it, because that task may be starting, or
/// checking the credential after an earlier report. Clones share one state. An entry stays: it is small, and there
/// is one for each bot.
#[derive(Clone, Default)]
pub(crate) struct RefusedCredentials(Arc<DashMap<BotId, Arc<Notify>>>);

impl RefusedCredentials {
    /// Reports that a call of this bot was refused because of its credential.
    pub fn report(&self, bot: &BotId) {
        self.of(bot).notify_one();
    }

    /// Waits for the next refusal. One that was reported since the last wait counts.
    pub async fn reported(&self, bot: &BotId) {
        self.of(bot).notified().await;
    }

    fn of(&self, bot: &BotId) -> Arc<Notify> {
        Arc::clone(&self.0.entry(bot.clone()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_refusal_that_is_reported_while_nobody_waits_is_not_lost() {
        let (refused, bot) = (RefusedCredentials::default(), BotId::from("posty"));
        refused.report(&bot);
        assert!(refused.reported(&bot).now_or_never().is_some());
        assert!(refused.reported(&bot).now_or_never().is_none(), "each report counts once");
        refused.report(&bot);
        refused.report(&bot);
        assert!(refused.reported(&bot).now_or_never().is_some());
        assert!(refused.reported(&BotId::from("another")).now_or_never().is_none());
    }
}

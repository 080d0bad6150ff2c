//! Health of bots: which of them have a credential that their platform does not accept, and which have lost their
//! connection to another program.
//!
//! A dead bot gets no events and makes no calls, except a check of its credential from time to time.

use std::collections::HashMap;
use std::sync::Arc;

use ledger::{BotRef, DeadBot, DeadBots, Sealed};
use parking_lot::RwLock;
use posthouse_time::{Moment, Timepiece};
use tokio_util::sync::CancellationToken;

use crate::Fault;
use crate::metrics::Metrics;

/// Longest reason that is stored, in bytes.
const LONGEST_REASON: usize = 300;

/// The dead bots, in memory and in the ledger. Clones share one state.
#[derive(Clone)]
pub struct BotHealth {
    records: Arc<dyn DeadBots>,
    metrics: Arc<Metrics>,
    timepiece: Timepiece,
    /// As many as there are dead bots.
    dead: Arc<RwLock<HashMap<BotRef, DeadBot>>>,
    /// Bots whose connection another program has taken over, and since when. Only in memory: a restart connects again.
    displaced: Arc<RwLock<HashMap<BotRef, Moment>>>,
    /// Held while a state is changed, so that memory and ledger agree.
    changing: Arc<tokio::sync::Mutex<()>>,
}

impl BotHealth {
    pub(crate) fn new(records: Arc<dyn DeadBots>, metrics: Arc<Metrics>, timepiece: Timepiece) -> Self {
        let (dead, displaced) = (Arc::default(), Arc::default());
        Self { records, metrics, timepiece, dead, displaced, changing: Arc::default() }
    }

    /// Reads the stored states.
    pub(crate) async fn load(&self) -> Result<(), Fault> {
        let _changing = self.changing.lock().await;
        let stored = self.records.dead_bots().await?;
        *self.dead.write() = stored.into_iter().map(|dead| (dead.bot.clone(), dead)).collect();
        self.count();
        Ok(())
    }

    /// The mark of a dead bot; `None` for a bot that works.
    pub fn dead(&self, bot: &BotRef) -> Option<DeadBot> {
        self.dead.read().get(bot).cloned()
    }

    pub fn is_dead(&self, bot: &BotRef) -> bool {
        self.dead.read().contains_key(bot)
    }

    /// Since when another program has the connection of this bot. `None` for a bot that has its own.
    pub fn displaced(&self, bot: &BotRef) -> Option<Moment> {
        self.displaced.read().get(bot).copied()
    }

    pub(crate) fn mark_displaced(&self, bot: &BotRef) {
        self.displaced.write().insert(bot.clone(), self.timepiece.now());
    }

    pub(crate) fn mark_connected(&self, bot: &BotRef) {
        if self.displaced(bot).is_some() {
            self.displaced.write().remove(bot);
        }
    }

    /// Marks a bot as dead, unless its event source was stopped meanwhile: its credential may have been replaced.
    pub(crate) async fn mark_dead(&self, bot: &BotRef, mut why: String, stopped: &CancellationToken) {
        why.truncate(why.floor_char_boundary(LONGEST_REASON));
        let _changing = self.changing.lock().await;
        if stopped.is_cancelled() || self.is_dead(bot) {
            return;
        }
        let dead = DeadBot { bot: bot.clone(), since: self.timepiece.now(), why };
        tracing::error!(
            bot.id = %bot.bot, platform = %bot.platform, why = dead.why,
            "bot {}:{} is dead: its platform does not accept its credential; replace it with `posthouse bot change {}:{} --secret-file NAME=FILE`",
            bot.platform, bot.bot, bot.platform, bot.bot
        );
        match self.records.mark_dead(dead.clone()).await {
            // The bot was removed.
            Ok(false) => return,
            Ok(true) => {}
            // It counts as dead all the same. After a restart it is found dead again.
            Err(fault) => tracing::error!(%fault, "could not store that a bot is dead"),
        }
        self.dead.write().insert(bot.clone(), dead);
        self.count();
    }

    pub(crate) async fn mark_working(&self, bot: &BotRef) -> Result<(), Fault> {
        let _changing = self.changing.lock().await;
        self.records.mark_working(bot).await?;
        self.forget(bot);
        Ok(())
    }

    /// Stores new secrets of a bot, which then counts as working. `stop` ends its event source, which has the old
    /// ones. False when there is no such bot.
    pub(crate) async fn replace_credentials(
        &self,
        bot: &BotRef,
        secrets: Vec<(String, Sealed)>,
        stop: impl FnOnce(),
    ) -> Result<bool, Fault> {
        let _changing = self.changing.lock().await;
        let replaced = self.records.replace_credentials(bot, secrets).await?;
        if replaced {
            stop();
            self.forget(bot);
        }
        Ok(replaced)
    }

    /// Forgets a bot that was removed or works again.
    pub(crate) fn forget(&self, bot: &BotRef) {
        self.dead.write().remove(bot);
        self.mark_connected(bot);
        self.count();
    }

    /// The number of dead bots.
    pub fn dead_count(&self) -> usize {
        self.dead.read().len()
    }

    fn count(&self) {
        self.metrics.set_dead_bots(self.dead_count());
    }
}

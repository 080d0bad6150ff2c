//! Bots with their settings and opened credentials, cached by platform and id.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use foldhash::fast::RandomState;
use ledger::{BotRef, Roster};
use moka::sync::Cache;
use posthouse_wire::{BotId, Platform as PlatformName, id};
use serde_json::{Map, Value};
use vault::{Credentials, Vault};

use crate::Fault;

/// One bot with its opened credentials. It has no `Debug`, so it cannot be printed.
#[derive(Clone)]
pub struct OpenedBot {
    pub platform: PlatformName,
    pub id: BotId,
    pub shared: bool,
    /// Only the platform's own code interprets these.
    pub settings: Map<String, Value>,
    pub credentials: Credentials,
}

impl OpenedBot {
    pub fn bot_ref(&self) -> BotRef {
        BotRef { platform: self.platform.clone(), bot: self.id.clone() }
    }

    /// Whether both have the same credentials and settings, so that the event source of one serves the other.
    pub(crate) fn same_as(&self, other: &OpenedBot) -> bool {
        self.shared == other.shared
            && self.settings == other.settings
            && self.credentials.same_as(&other.credentials)
    }

    /// A text setting; `None` if absent or empty.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }
}

/// Most bots that do not exist and are remembered, and for how long. Others are looked up at every request.
const ABSENT: u64 = 10_000;
const ABSENT_FOR: Duration = Duration::from_secs(600);

/// Cache of opened bots by platform and id. Opening a bot reads the ledger and the vault, so each is opened once and
/// dropped from the cache when the roster changes.
#[derive(Clone)]
pub struct Bots {
    roster: Arc<dyn Roster>,
    vault: Vault,
    open: Arc<DashMap<BotRef, Arc<OpenedBot>, RandomState>>,
    /// Placeholders for bots that somebody asked for and that do not exist.
    absent: Cache<BotRef, Arc<OpenedBot>>,
    /// Counts every removal from the cache.
    forgotten: Arc<AtomicU64>,
}

impl Bots {
    pub(crate) fn new(roster: Arc<dyn Roster>, vault: Vault) -> Self {
        let absent = Cache::builder().max_capacity(ABSENT).time_to_live(ABSENT_FOR).build();
        Self { roster, vault, open: Arc::default(), absent, forgotten: Arc::default() }
    }

    pub async fn find(&self, bot_ref: &BotRef) -> Result<Option<Arc<OpenedBot>>, Fault> {
        if let Some(bot) = self.open.get(bot_ref) {
            return Ok(Some(Arc::clone(&bot)));
        }
        let before = self.forgotten.load(Ordering::SeqCst);
        let Some(record) = self.roster.bot(&bot_ref.platform, &bot_ref.bot).await? else { return Ok(None) };
        let bot = Arc::new(self.opened(record).await?);
        self.open.insert(bot_ref.clone(), Arc::clone(&bot));
        // The roster changed while the bot was opened. A deleted bot must not stay in the cache.
        if self.forgotten.load(Ordering::SeqCst) != before {
            self.open.remove(bot_ref);
        }
        Ok(Some(bot))
    }

    /// The bot, or a placeholder if it does not exist. The placeholder is remembered like a bot: an unverified caller
    /// costs no read each time, and does not learn from the time of an answer which bots exist.
    pub(crate) async fn find_or(
        &self,
        bot_ref: &BotRef,
        placeholder: impl FnOnce() -> Result<OpenedBot, Fault>,
    ) -> Result<Arc<OpenedBot>, Fault> {
        if let Some(bot) = self.open.get(bot_ref) {
            return Ok(Arc::clone(&bot));
        }
        if let Some(placeholder) = self.absent.get(bot_ref) {
            return Ok(placeholder);
        }
        // No bot has such an id, and it may be long.
        if !id::is_bot_id(bot_ref.bot.as_str()) {
            return Ok(Arc::new(placeholder()?));
        }
        let before = self.forgotten.load(Ordering::SeqCst);
        if let Some(bot) = self.find(bot_ref).await? {
            return Ok(bot);
        }
        let placeholder = Arc::new(placeholder()?);
        self.absent.insert(bot_ref.clone(), Arc::clone(&placeholder));
        // The roster changed meanwhile. A new bot must not be taken for absent.
        if self.forgotten.load(Ordering::SeqCst) != before {
            self.absent.invalidate(bot_ref);
        }
        Ok(placeholder)
    }

    pub async fn all(&self) -> Result<Vec<Arc<OpenedBot>>, Fault> {
        let mut bots = Vec::new();
        for record in self.roster.bots().await? {
            bots.push(Arc::new(self.opened(record).await?));
        }
        Ok(bots)
    }

    /// Drops a bot from the cache and opens it again. `None` if it no longer exists.
    pub(crate) async fn open_again(&self, bot_ref: &BotRef) -> Result<Option<Arc<OpenedBot>>, Fault> {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        self.open.remove(bot_ref);
        self.absent.invalidate(bot_ref);
        self.find(bot_ref).await
    }

    /// Empties the cache. The counter is raised first, so that a concurrent `find` notices.
    pub(crate) fn forget_all(&self) {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        self.open.clear();
        self.absent.invalidate_all();
    }

    async fn opened(&self, record: ledger::Bot) -> Result<OpenedBot, Fault> {
        let credentials = self.vault.credentials(&record.platform, &record.id).await?;
        Ok(OpenedBot {
            settings: serde_json::from_str(&record.settings).unwrap_or_default(),
            platform: record.platform,
            id: record.id,
            shared: record.shared,
            credentials,
        })
    }
}

#[cfg(test)]
mod tests {
    use ledger::{Bot, Ledger, Location};
    use posthouse_time::{Moment, Timepiece};
    use posthouse_wire::Secret;
    use vault::MasterKeys;

    use super::*;

    fn placeholder() -> Result<OpenedBot, Fault> {
        Ok(OpenedBot {
            platform: "placeholder".into(),
            id: "1".into(),
            shared: false,
            settings: Map::new(),
            credentials: Credentials::default(),
        })
    }

    async fn bots() -> (Ledger, Bots) {
        let clock = Timepiece::wound(Moment::from_seconds(1_800_000_000));
        let ledger = Ledger::open(Location::Memory, clock.clone()).await.unwrap();
        let key = Secret::new("test:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
        let keys = MasterKeys::read(&key).unwrap();
        let vault =
            Vault::unlock(keys, ledger.vault(), ledger.tokens(), &*ledger.facts(), clock).await.unwrap();
        (ledger.clone(), Bots::new(ledger.roster(), vault))
    }

    #[tokio::test]
    async fn a_bot_that_does_not_exist_is_looked_up_once_and_found_when_it_is_created() {
        let (ledger, bots) = bots().await;
        let bot_ref = BotRef { platform: "telegram".into(), bot: "7001".into() };
        let found = async || bots.find_or(&bot_ref, placeholder).await.unwrap().platform.to_string();
        assert_eq!(found().await, "placeholder");
        let reads = ledger.reads();
        assert_eq!(found().await, "placeholder");
        assert_eq!(ledger.reads(), reads, "asking again costs no read");

        let bot = Bot {
            platform: "telegram".into(),
            id: "7001".into(),
            shared: false,
            principals: ledger::PrincipalPolicy::default(),
            settings: "{}".to_owned(),
            created: Moment::from_seconds(1_800_000_000),
        };
        ledger.roster().create_bot(bot).await.unwrap();
        bots.open_again(&bot_ref).await.unwrap();
        assert_eq!(found().await, "telegram");
    }

    #[tokio::test]
    async fn an_id_that_no_bot_can_have_is_neither_looked_up_nor_kept() {
        let (ledger, bots) = bots().await;
        let bot_ref = BotRef { platform: "telegram".into(), bot: "x".repeat(10_000).as_str().into() };
        let reads = ledger.reads();
        assert_eq!(bots.find_or(&bot_ref, placeholder).await.unwrap().platform.as_str(), "placeholder");
        assert_eq!((ledger.reads(), bots.absent.get(&bot_ref).is_none()), (reads, true));
    }
}

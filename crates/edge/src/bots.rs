//! Bots with their settings and opened credentials, cached by identity.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;
use ledger::{BotRef, Roster};
use posthouse_wire::{BotId, Platform as PlatformName};
use serde_json::{Map, Value};
use vault::{Credentials, Vault};

use crate::Fault;

/// One platform identity with its opened credentials. It has no `Debug`, so it cannot be printed.
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

/// Cache of opened bots by identity. Opening a bot reads the ledger and the vault, so each is opened once and
/// dropped from the cache when the roster changes.
#[derive(Clone)]
pub struct Bots {
    roster: Arc<dyn Roster>,
    vault: Vault,
    open: Arc<DashMap<BotRef, Arc<OpenedBot>>>,
    /// Counts every removal from the cache.
    forgotten: Arc<AtomicU64>,
}

impl Bots {
    pub(crate) fn new(roster: Arc<dyn Roster>, vault: Vault) -> Self {
        Self { roster, vault, open: Arc::default(), forgotten: Arc::default() }
    }

    pub async fn find(&self, identity: &BotRef) -> Result<Option<Arc<OpenedBot>>, Fault> {
        if let Some(bot) = self.open.get(identity) {
            return Ok(Some(Arc::clone(&bot)));
        }
        let before = self.forgotten.load(Ordering::SeqCst);
        let Some(record) = self.roster.bot(&identity.platform, &identity.bot).await? else { return Ok(None) };
        let bot = Arc::new(self.opened(record).await?);
        self.open.insert(identity.clone(), Arc::clone(&bot));
        // The roster changed while the bot was opened. A deleted bot must not stay in the cache.
        if self.forgotten.load(Ordering::SeqCst) != before {
            self.open.remove(identity);
        }
        Ok(Some(bot))
    }

    pub async fn all(&self) -> Result<Vec<Arc<OpenedBot>>, Fault> {
        let mut bots = Vec::new();
        for record in self.roster.bots().await? {
            bots.push(Arc::new(self.opened(record).await?));
        }
        Ok(bots)
    }

    /// Drops a bot from the cache and opens it again. `None` if it no longer exists.
    pub(crate) async fn open_again(&self, identity: &BotRef) -> Result<Option<Arc<OpenedBot>>, Fault> {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        self.open.remove(identity);
        self.find(identity).await
    }

    /// Empties the cache. The counter is raised first, so that a concurrent `find` notices.
    pub(crate) fn forget_all(&self) {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        self.open.clear();
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

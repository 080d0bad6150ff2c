//! The bots of this house, with their secrets in hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;
use ledger::{Identity, Roster};
use posthouse_wire::{BotId, Platform as PlatformName};
use serde_json::{Map, Value};
use vault::{Credentials, Vault};

use crate::Fault;

/// One platform identity, ready to be used. It cannot be printed.
#[derive(Clone)]
pub struct Bot {
    pub platform: PlatformName,
    pub id: BotId,
    pub shared: bool,
    /// Understood by the platform's own code alone.
    pub settings: Map<String, Value>,
    pub credentials: Credentials,
}

impl Bot {
    pub fn identity(&self) -> Identity {
        Identity { platform: self.platform.clone(), bot: self.id.clone() }
    }

    /// A text setting; nothing when absent or empty.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }
}

/// Opened bots by identity. Opening costs a look into ledger and vault, so each is opened once and
/// forgotten when the roster changes.
#[derive(Clone)]
pub struct Bots {
    roster: Arc<dyn Roster>,
    vault: Vault,
    open: Arc<DashMap<Identity, Arc<Bot>>>,
    /// Counts how often all were forgotten.
    forgotten: Arc<AtomicU64>,
}

impl Bots {
    pub(crate) fn new(roster: Arc<dyn Roster>, vault: Vault) -> Self {
        Self { roster, vault, open: Arc::default(), forgotten: Arc::default() }
    }

    pub async fn find(&self, identity: &Identity) -> Result<Option<Arc<Bot>>, Fault> {
        if let Some(bot) = self.open.get(identity) {
            return Ok(Some(Arc::clone(&bot)));
        }
        let before = self.forgotten.load(Ordering::SeqCst);
        let Some(record) = self.roster.bot(&identity.platform, &identity.bot).await? else { return Ok(None) };
        let bot = Arc::new(self.opened(record).await?);
        self.open.insert(identity.clone(), Arc::clone(&bot));
        // Changed while it was opened: a bot that is gone must not be remembered.
        if self.forgotten.load(Ordering::SeqCst) != before {
            self.open.remove(identity);
        }
        Ok(Some(bot))
    }

    pub async fn all(&self) -> Result<Vec<Arc<Bot>>, Fault> {
        let mut bots = Vec::new();
        for record in self.roster.bots().await? {
            bots.push(Arc::new(self.opened(record).await?));
        }
        Ok(bots)
    }

    /// The count goes first, so that whoever opens one meanwhile notices.
    pub(crate) fn forget_all(&self) {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        self.open.clear();
    }

    async fn opened(&self, record: ledger::Bot) -> Result<Bot, Fault> {
        let credentials = self.vault.credentials(&record.platform, &record.id).await?;
        Ok(Bot {
            settings: serde_json::from_str(&record.settings).unwrap_or_default(),
            platform: record.platform,
            id: record.id,
            shared: record.shared,
            credentials,
        })
    }
}

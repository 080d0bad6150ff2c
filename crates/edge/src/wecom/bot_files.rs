//! Files of messages to AI bots. WeCom names no id of a file, only a URL that ends after five minutes.

use std::time::Duration;

use moka::sync::Cache;
use posthouse_wire::{BotId, Secret};

/// Beginning of a reference to a file of an AI bot.
pub(super) const FILE_REFERENCE: &str = "wecom:file:";
/// The lifetime of a URL, and the most that are remembered.
const LIFETIME: Duration = Duration::from_secs(300);
const MOST: u64 = 10_000;

/// An encrypted file.
#[derive(Clone)]
pub(super) struct BotFile {
    pub url: Secret,
    /// The key of this file. Without it, the key of the bot's callbacks counts.
    pub key: Option<Secret>,
}

/// The files of the last minutes, by reference. URLs and keys are only here, in memory: stored references hold neither.
/// Clones share one state.
#[derive(Clone)]
pub(super) struct BotFiles(Cache<(BotId, String), BotFile>);

impl Default for BotFiles {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(MOST).time_to_live(LIFETIME).build())
    }
}

impl BotFiles {
    /// Keeps the file of a message, and returns its reference.
    pub fn keep(&self, bot: &BotId, message: &str, at: usize, file: BotFile) -> String {
        let reference = format!("{FILE_REFERENCE}{message}/{at}");
        self.0.insert((bot.clone(), reference.clone()), file);
        reference
    }

    pub fn get(&self, bot: &BotId, reference: &str) -> Option<BotFile> {
        self.0.get(&(bot.clone(), reference.to_owned()))
    }
}

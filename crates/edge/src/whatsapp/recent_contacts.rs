//! Recent contacts of WhatsApp bots: the last message and the name of each person, for typing signs and chat names.

use std::time::Duration;

use moka::sync::Cache;
use posthouse_wire::BotId;

/// Contacts that are remembered, over all bots.
const REMEMBERED: u64 = 20_000;
/// A typing sign belongs to a message of the last hours.
const FOR: Duration = Duration::from_secs(24 * 3600);

/// What is remembered about a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecentContact {
    /// The id of their last message.
    pub message: String,
    pub name: Option<String>,
}

/// Contacts by bot and by each id of the person. Clones share one state.
#[derive(Clone)]
pub(super) struct RecentContacts(Cache<(BotId, String), RecentContact>);

impl Default for RecentContacts {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(REMEMBERED).time_to_live(FOR).build())
    }
}

impl RecentContacts {
    pub fn note<'a>(&self, bot: &BotId, ids: impl Iterator<Item = &'a str>, contact: &RecentContact) {
        for id in ids {
            self.0.insert((bot.clone(), id.to_owned()), contact.clone());
        }
    }

    pub fn get(&self, bot: &BotId, id: &str) -> Option<RecentContact> {
        self.0.get(&(bot.clone(), id.to_owned()))
    }
}

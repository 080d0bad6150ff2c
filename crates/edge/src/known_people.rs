//! People whom a platform names by two ids: each keeps the direct chat in which they wrote first.
//!
//! On WhatsApp a person may hide the phone number, and show it again later. Without this, the conversation would be split
//! between an id and a number, and the list of senders would know only one of them.

use std::sync::Arc;
use std::time::Duration;

use ledger::{BotRef, KnownPerson, PersonChats, PersonIds};
use moka::sync::Cache;
use posthouse_wire::{ChatId, Source, UserId};

use crate::Fault;
use crate::platform::Arrival;

/// People whose chat is remembered in memory. Others are looked up in the ledger.
const REMEMBERED: u64 = 10_000;
/// After this time a chat is recorded again, so that it does not expire while the person writes.
const RECORDED_AGAIN: Duration = Duration::from_secs(3600);

/// The chats of people with two ids. Clones share one state.
#[derive(Clone)]
pub(crate) struct KnownPeople {
    records: Arc<dyn PersonChats>,
    recorded: Cache<(BotRef, PersonIds), ChatId>,
}

impl KnownPeople {
    pub fn new(records: Arc<dyn PersonChats>) -> Self {
        let recorded = Cache::builder().max_capacity(REMEMBERED).time_to_live(RECORDED_AGAIN).build();
        Self { records, recorded }
    }

    /// Replaces chat and sender of an arrival by those under which this person is known.
    pub async fn use_known_ids(&self, on: &BotRef, arrival: &mut Arrival) -> Result<(), Fault> {
        let Some(person) = &arrival.person else { return Ok(()) };
        let known = match self.recorded.get(&(on.clone(), person.clone())) {
            Some(chat) => KnownPerson::InChat(chat),
            None => self.records.chat_of_person(on, person).await?,
        };
        let chat: Option<ChatId> = match known {
            KnownPerson::InChat(chat) => Some(chat),
            KnownPerson::Unknown => None,
            // An answer in the old chat would be meant for the person who had this number before.
            KnownPerson::TookOver => person.lasting.as_ref().map(|id| id.as_str().into()),
        };
        if let Some(chat) = chat {
            let source = &mut arrival.event.source;
            source.user_id = Some(UserId::from(chat.as_str()));
            source.chat_id = Some(chat);
        }
        Ok(())
    }

    /// Records the chat of a person who was admitted. Strangers leave no record.
    pub async fn note(&self, on: &BotRef, person: &PersonIds, source: &Source) -> Result<(), Fault> {
        let Some(chat) = &source.chat_id else { return Ok(()) };
        let key = (on.clone(), person.clone());
        // A number alone says nothing that has to be remembered, and it may pass to somebody else.
        if person.lasting.is_none() || self.recorded.get(&key).as_ref() == Some(chat) {
            return Ok(());
        }
        self.records.note_person(on, person, chat).await?;
        self.recorded.insert(key, chat.clone());
        Ok(())
    }
}

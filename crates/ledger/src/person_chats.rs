//! Chats of people whom a platform names by two ids, of which they may hide one.

use async_trait::async_trait;
use posthouse_wire::{ChatId, UserId};

use crate::{BotRef, Fault};

/// The ids by which a platform names one person in one message. At least one is there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PersonIds {
    /// The id that belongs to this person alone and to nobody after them.
    pub lasting: Option<UserId>,
    /// An id that the person may hide and that may pass to somebody else, such as a phone number.
    pub shown: Option<UserId>,
}

#[async_trait]
pub trait PersonChats: Send + Sync {
    /// The direct chat in which this person wrote first.
    async fn chat_of_person(&self, on: &BotRef, person: &PersonIds) -> Result<KnownPerson, Fault>;
    /// Records that these ids lead to this chat, for 90 days. Does nothing if there is no such bot. Repeating it renews
    /// the time.
    async fn note_person(&self, on: &BotRef, person: &PersonIds, chat: &ChatId) -> Result<(), Fault>;
}

/// What is known about a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownPerson {
    /// They wrote before, in this chat.
    InChat(ChatId),
    /// Neither id is known.
    Unknown,
    /// The `shown` id belonged to somebody else before, whose chat this person must not get.
    TookOver,
}

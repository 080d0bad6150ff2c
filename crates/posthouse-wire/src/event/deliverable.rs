//! What may be kept for an agent at all: nothing that would kill its reader.

use super::{Event, Source};
use crate::session_key::{self, Options, Unkeyable};

/// Why an event cannot be handed to any agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undeliverable {
    /// Replies could not name where they go.
    #[error("event has no platform")]
    NoPlatform,
    /// The type is part of every session key, and an empty one is nobody's.
    #[error("event has no chat type")]
    NoChatType,
    /// Nothing could be answered: neither chat nor person.
    #[error("event has neither chat nor author")]
    FromNowhere,
    #[error(transparent)]
    Unkeyable(#[from] Unkeyable),
}

impl Event {
    /// To be asked before an event is kept. The rest that a stock reader dies of (numbers for ids, nulls
    /// for texts) cannot be written with these types.
    pub fn deliverable(&self) -> Result<(), Undeliverable> {
        self.source.deliverable()
    }
}

impl Source {
    /// See [`Event::deliverable`].
    pub fn deliverable(&self) -> Result<(), Undeliverable> {
        if self.platform.is_empty() {
            return Err(Undeliverable::NoPlatform);
        }
        if self.chat_type.is_empty() {
            return Err(Undeliverable::NoChatType);
        }
        let chat = self.chat_id.as_ref().is_some_and(|chat| !chat.is_empty());
        let author = self.user_id.as_ref().is_some_and(|user| !user.is_empty());
        if !chat && !author {
            return Err(Undeliverable::FromNowhere);
        }
        session_key::stock(self, &Options::default())?;
        Ok(())
    }
}

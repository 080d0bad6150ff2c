//! Check that an event is deliverable. An event that would crash an agent's reader must not be stored.

use super::{Event, Source};
use crate::session_key::{self, Options, Unkeyable};

/// Reason why an event cannot be delivered to any agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undeliverable {
    /// Replies would have no destination.
    #[error("event has no platform")]
    NoPlatform,
    /// The type is part of every session key and must not be empty.
    #[error("event has no chat type")]
    NoChatType,
    /// Without a chat and a person, an answer is impossible.
    #[error("event has neither chat nor author")]
    FromNowhere,
    #[error(transparent)]
    Unkeyable(#[from] Unkeyable),
}

impl Event {
    /// Must be called before an event is stored. Everything else that crashes a stock reader (numbers for ids, nulls
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

//! Check that an event is deliverable. An event that would crash an agent's reader must not be stored.

use std::ops::Deref;

use super::{Event, Source};
use crate::session_key::{self, Unkeyable};

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

/// An event that no agent's reader crashes on. Only such an event can be stored. It cannot be changed, so that it stays
/// what was checked.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliverableEvent(Event);

impl Event {
    /// Checks the event. Everything else that crashes a stock reader (numbers for ids, nulls for texts) cannot be
    /// written with these types.
    pub fn deliverable(self) -> Result<DeliverableEvent, Undeliverable> {
        self.source.deliverable()?;
        Ok(DeliverableEvent(self))
    }
}

impl DeliverableEvent {
    pub fn into_event(self) -> Event {
        self.0
    }
}

impl Deref for DeliverableEvent {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.0
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
        Ok(session_key::check(self)?)
    }
}

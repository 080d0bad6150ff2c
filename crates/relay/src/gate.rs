//! Gate: whether an incoming event is for the agent.

use ledger::{LimitReached, NewReceipt, Sender};
use posthouse_time::Moment;
use posthouse_wire::{DedupKey, EntryId, Event};

/// An incoming event with its metadata, before it is admitted.
#[derive(Clone)]
pub struct Entrant {
    pub event: Event,
    /// The id for its entry, if the event itself determines it.
    pub id: Option<EntryId>,
    /// Key by which the platform's repetition of the same event is recognized.
    pub dedup: DedupKey,
    /// Addressed to the bot. In a group, only addressed events are turns.
    pub addressed: bool,
    /// The platform's references to the attachments. Stored beside the event and never given to agents.
    pub references: Vec<String>,
    /// Time of receipt.
    pub accepted: Moment,
    /// The receipt promised to a program, stored in the same commit.
    pub receipt: Option<Box<NewReceipt>>,
    /// Rule that applies if the text is exactly `/stop`.
    pub stop: StopRule,
}

/// Handling of a message that is exactly `/stop`, chosen by its platform (relay contract section 13). It becomes an
/// interrupt only while a turn of its session may be running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StopRule {
    /// Always delivered as text.
    #[default]
    Text,
    /// An interrupt for SDK agents, and for sockets whose typing shows that they honour one. Text for others.
    InterruptIfTyping,
    /// An interrupt: every agent honours one on this platform.
    Interrupt,
}

/// Result of admitting an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    Kept(EntryId),
    /// The same event came before. This is its first entry.
    Known(EntryId),
    /// The inbox has no room for it. Nothing was stored, and the same event may be sent again.
    Full(LimitReached),
    /// Not for this agent. The reason is a metric label.
    Refused(&'static str),
}

impl Admission {
    /// The entry that holds the event, if one does.
    pub fn entry(&self) -> Option<&EntryId> {
        match self {
            Admission::Kept(entry) | Admission::Known(entry) => Some(entry),
            Admission::Full(_) | Admission::Refused(_) => None,
        }
    }
}

/// Chat types with several people, where an event is a turn only when it is addressed to the bot.
fn is_crowd(chat_type: &str) -> bool {
    matches!(chat_type, "group" | "thread" | "forum" | "room")
}

impl Entrant {
    /// The sender whose share of the inbox it counts against.
    pub(crate) fn sender(&self) -> Option<Sender> {
        match &self.receipt {
            Some(receipt) => Some(Sender::Program(receipt.sender.clone())),
            None => self.event.source.user_id.as_ref().map(|user| Sender::Person(user.to_string())),
        }
    }

    /// The reason for refusing it, if it is refused.
    pub fn refusal(&self) -> Option<&'static str> {
        refusal(&self.event, self.addressed)
    }
}

fn refusal(event: &Event, addressed: bool) -> Option<&'static str> {
    if is_crowd(&event.source.chat_type) && !addressed {
        return Some("not_addressed");
    }
    // An event that would crash a stock agent's reader must not get into its inbox.
    event.deliverable().err().map(|_| "undeliverable")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(chat_type: &str) -> Event {
        let mut event = Event::default();
        event.source.platform = "telegram".into();
        event.source.chat_id = Some("5".into());
        event.source.chat_type = chat_type.to_owned();
        event
    }

    #[test]
    fn in_a_group_an_event_is_a_turn_when_addressed_and_elsewhere_always() {
        assert_eq!(refusal(&event("group"), false), Some("not_addressed"));
        assert_eq!(refusal(&event("group"), true), None);
        assert_eq!(refusal(&event("dm"), false), None);
        assert_eq!(refusal(&event("channel"), false), None);
    }

    #[test]
    fn what_would_kill_a_stock_reader_is_refused() {
        assert_eq!(refusal(&event(""), true), Some("undeliverable"));
    }
}

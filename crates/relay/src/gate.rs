//! May this pass in?

use ledger::{Appended, NewReceipt};
use posthouse_time::Moment;
use posthouse_wire::{DedupKey, EntryId, Event};

/// An event at the gate, with what is known of it besides.
#[derive(Clone)]
pub struct Entrant {
    pub event: Event,
    /// The id that its entry gets, where the event itself names it.
    pub id: Option<EntryId>,
    /// The platform's own word for "the same again".
    pub dedup: DedupKey,
    /// Meant for us, which in a crowd is what makes it a turn.
    pub addressed: bool,
    /// What the platform calls the event's attachments; kept beside it and handed to nobody.
    pub references: Vec<String>,
    /// When it came through the door.
    pub accepted: Moment,
    /// The receipt that a program was promised, kept in the same commit.
    pub receipt: Option<Box<NewReceipt>>,
}

/// What became of an event at the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    Kept(Appended),
    /// Not for this agent to see; the reason is for counters.
    Refused(&'static str),
}

/// Where many people talk among themselves, an event is a turn only when it is meant for us.
fn is_crowd(chat_type: &str) -> bool {
    matches!(chat_type, "group" | "thread" | "forum" | "room")
}

impl Entrant {
    /// Why it is not let in, if it is not.
    pub fn refusal(&self) -> Option<&'static str> {
        refusal(&self.event, self.addressed)
    }
}

fn refusal(event: &Event, addressed: bool) -> Option<&'static str> {
    if is_crowd(&event.source.chat_type) && !addressed {
        return Some("not_addressed");
    }
    // Whatever would kill a stock reader must not lie in its inbox.
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

//! Incoming events that the gate has admitted, and the result of storing one.

use ledger::{LimitReached, NewReceipt, Sender, StalePolicy};
use posthouse_time::Moment;
use posthouse_wire::passthrough::Forward;
use posthouse_wire::{DedupKey, DeliverableEvent, EntryId};

/// An incoming event with its metadata, before it is stored.
#[derive(Clone)]
pub struct NewEntry {
    pub event: DeliverableEvent,
    /// The id for its entry, if the event itself determines it.
    pub id: Option<EntryId>,
    /// Key by which the platform's repetition of the same event is recognized.
    pub dedup: DedupKey,
    /// The platform's references to the attachments. Stored beside the event and never given to agents.
    pub references: Vec<String>,
    /// The album that it is a part of, by the platform's id.
    pub album: Option<String>,
    /// The sanitized interaction that it was made from, for an agent that wants it whole.
    pub forward: Option<Box<Forward>>,
    /// Time of receipt.
    pub accepted: Moment,
    /// The receipt promised to a program, stored in the same commit.
    pub receipt: Option<Box<NewReceipt>>,
    /// Rule that applies if the text is exactly `/stop`.
    pub stop: StopRule,
    /// What happens if it waits too long for its agent. None for messages of programs, which have their own deadlines.
    pub stale: Option<StalePolicy>,
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

/// Result of storing an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    Kept(EntryId),
    /// The same event came before. This is its first entry.
    Known(EntryId),
    /// The inbox has no room for it. Nothing was stored, and the same event may be sent again.
    Full(LimitReached),
}

impl Admission {
    /// The entry that holds the event, if one does.
    pub fn entry(&self) -> Option<&EntryId> {
        match self {
            Admission::Kept(entry) | Admission::Known(entry) => Some(entry),
            Admission::Full(_) => None,
        }
    }
}

impl NewEntry {
    /// The sender whose share of the inbox it counts against.
    pub(crate) fn sender(&self) -> Option<Sender> {
        match &self.receipt {
            Some(receipt) => Some(Sender::Program(receipt.sender.clone())),
            None => self.event.source.user_id.as_ref().map(|user| Sender::Person(user.to_string())),
        }
    }
}

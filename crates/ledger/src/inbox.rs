//! Inboxes: the durable queue of each agent.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use posthouse_time::Moment;
use posthouse_wire::{
    BotId, ChatId, ClientId, DedupKey, EntryId, InstanceId, MessageId, Platform, ScopeId, SessionKey,
    TenantId,
};

use crate::{BotRef, EntryStaleness, EntryTurn, Fault, NewReceipt, StaleEntries, StalePolicy};

/// Position of an entry in its inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub i64);

/// An event to be stored in an inbox.
#[derive(Clone, Debug)]
pub struct Append {
    /// Minted by the caller if the event itself contains its entry id; otherwise minted in the commit.
    pub id: Option<EntryId>,
    pub to: InstanceId,
    pub platform: Platform,
    pub bot: BotId,
    pub chat: ChatId,
    pub message: Option<MessageId>,
    /// Ignored if there is a receipt, because the receipt alone identifies its delivery.
    pub dedup: DedupKey,
    /// The event as JSON, ready for the wire.
    pub event: Bytes,
    /// The interaction that it was made from, as JSON, for an agent that wants it whole.
    pub forward: Option<Bytes>,
    /// The platform's references to the attachments of the event. They are never sent to agents.
    pub references: Vec<String>,
    /// The album that it is a part of. Neighbouring parts are delivered as one.
    pub album: Option<String>,
    /// Time at which the server received it.
    pub accepted: Moment,
    /// The conversation to record. None when it was recorded a moment ago.
    pub sighting: Option<Sighting>,
    /// The receipt of a program's delivery, opened in the same commit. If the same delivery has an entry,
    /// nothing is appended and that entry is returned. If it has none yet, for example because it was
    /// scheduled, this entry carries it from now on. `NewReceipt::open` is ignored here.
    pub receipt: Option<Box<NewReceipt>>,
    /// The sender. All entries of a sender together count against the sender's share of the inbox.
    pub sender: Option<Sender>,
    /// The most that the inbox may hold.
    pub limits: InboxLimits,
    /// What happens if it waits too long.
    pub stale: Option<StalePolicy>,
    /// The session and the prompt of the event. They are not stored, because they can be read from the event again.
    pub turn: EntryTurn,
}

impl Append {
    /// Bytes that it takes in the inbox.
    pub fn size(&self) -> i64 {
        size_of_both(&self.event, self.forward.as_ref())
    }
}

fn size_of_both(event: &Bytes, forward: Option<&Bytes>) -> i64 {
    (event.len() + forward.map_or(0, Bytes::len)) as i64
}

/// The sender of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A person on the platform of the entry. The person and the chat may each hold a quarter of the inbox.
    Person(String),
    /// A program, identified by its credential. It may hold three quarters of the inbox.
    Program(ClientId),
}

/// Limits on the unread entries of one inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboxLimits {
    pub entries: i64,
    pub bytes: i64,
}

impl InboxLimits {
    pub const NONE: InboxLimits = InboxLimits { entries: i64::MAX, bytes: i64::MAX };
}

/// The limit because of which an entry was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReached {
    /// The inbox is full.
    Inbox,
    /// The sender or the chat has used up its share of the inbox.
    Share,
    /// The agent's tenant has reached its storage limit.
    Tenant,
}

/// A conversation that was seen. It allows an answer to be sent there later, and an interrupt to find it.
#[derive(Clone, Debug)]
pub struct Sighting {
    pub scope: Option<ScopeId>,
    pub session_keys: Vec<SessionKey>,
}

/// Outcome of an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Appended {
    Kept(EntryId),
    /// The same dedup key or delivery came before; this is the id of the first entry. For a delivery it is
    /// returned as long as the receipt exists, even when the entry itself is deleted.
    Known(EntryId),
    /// There is no room. Nothing was written, and the same append can be repeated.
    Refused(LimitReached),
}

impl Appended {
    /// The entry that holds the event, unless it was refused.
    pub fn entry(&self) -> Option<&EntryId> {
        match self {
            Appended::Kept(entry) | Appended::Known(entry) => Some(entry),
            Appended::Refused(_) => None,
        }
    }
}

/// One stored event.
#[derive(Clone, Debug)]
pub struct Entry {
    pub id: EntryId,
    pub seq: Seq,
    pub instance: InstanceId,
    pub chat: ChatId,
    pub event: Bytes,
    /// The interaction that it was made from, as JSON.
    pub forward: Option<Bytes>,
    /// The server's own code fetches attachments by them. Nobody else sees them.
    pub references: Vec<String>,
    /// The album that it is a part of.
    pub album: Option<String>,
    /// What happens if it waits too long. None for `StaleAction::Deliver`.
    pub stale: Option<EntryStaleness>,
    /// The session and the prompt of the event.
    pub turn: EntryTurn,
}

impl Entry {
    /// Bytes that it takes in the inbox.
    pub fn size(&self) -> i64 {
        size_of_both(&self.event, self.forward.as_ref())
    }
}

/// The amount of unread entries in an inbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    pub entries: i64,
    pub bytes: i64,
}

/// An entry that the agent acknowledged, and the time at which it was handed over.
#[derive(Clone, Debug)]
pub struct Acknowledgement {
    pub entry: EntryId,
    pub handed: Moment,
    /// Its position and its size, if the caller still knows them. It saves the lookup.
    pub place: Option<(Seq, i64)>,
}

/// Number of `FailedDelivery::Poison` after which an entry becomes a dead letter (relay contract section 16.4).
pub const POISONED: i64 = 3;
/// Number of losses in a row from which on each loss counts as `FailedDelivery::Poison`.
pub const LOST: i64 = 10;

/// A delivery that ended without an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedDelivery {
    /// A sign that the entry breaks its reader: the reader died of it, or stayed silent on a socket that
    /// answers pings.
    Poison,
    /// The socket was lost before the entry was acknowledged.
    ConnectionLost,
}

/// An entry that the server has given up on.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    pub entry: EntryId,
    pub instance: InstanceId,
    pub platform: Platform,
    pub chat: ChatId,
    pub accepted: Moment,
    pub died: Moment,
    pub position: DeadLetterPosition,
}

/// Position of a dead letter in the list of all. It stays the same until the letter is redriven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadLetterPosition {
    /// When it died, in ledger time.
    pub counted: i64,
    /// Breaks ties.
    pub seq: i64,
}

/// Which dead letters to list.
#[derive(Clone, Debug, Default)]
pub struct DeadLetterFilter {
    pub instance: Option<InstanceId>,
    pub tenant: Option<TenantId>,
    /// Only those after this position in the list.
    pub after: Option<DeadLetterPosition>,
}

/// The queue of one agent for all planes: durable, ordered, acknowledged.
#[async_trait]
pub trait Inbox: StaleEntries {
    /// Stores an event once. The same `dedup` of the same bot again returns the id of the first entry. The
    /// limits are checked in the same transaction, so an inbox never exceeds them.
    async fn append(&self, append: Append) -> Result<Appended, Fault>;
    /// The entry that an append under this key would return as known.
    async fn known(&self, on: &BotRef, dedup: &DedupKey) -> Result<Option<EntryId>, Fault>;
    /// Oldest first, after `after`. Entries stay until acknowledged.
    async fn unread(&self, of: &InstanceId, after: Seq, at_most: u16) -> Result<Vec<Entry>, Fault>;
    /// The amount of unread entries, read from memory.
    async fn size(&self, of: &InstanceId) -> Result<Unread, Fault>;
    /// Time at which this entry was acknowledged, if it was.
    async fn acknowledged_at(&self, entry: &EntryId) -> Result<Option<Moment>, Fault>;
    /// Instances with unread entries, and their amount.
    async fn backlogs(&self) -> Result<Vec<(InstanceId, Unread)>, Fault>;
    /// Deletes the events of these entries. Unknown, foreign and already deleted ids are all fine. Returns
    /// the amount that this call deleted, so that callers can keep sizes up to date.
    async fn acknowledge(&self, of: &InstanceId, acknowledged: Vec<Acknowledgement>)
    -> Result<Unread, Fault>;
    /// Counts a failed delivery. True when the entry became a dead letter by it.
    async fn record_failed_delivery(
        &self,
        of: &InstanceId,
        entry: &EntryId,
        failure: FailedDelivery,
    ) -> Result<bool, Fault>;
    /// Drops an entry that nobody needs any more. An entry that has ended does not change. Returns the
    /// dropped amount.
    async fn recall(&self, of: &InstanceId, entry: &EntryId) -> Result<Unread, Fault>;
    /// Dead letters, the latest first.
    async fn dead_letters(&self, filter: DeadLetterFilter, at_most: u32) -> Result<Vec<DeadLetter>, Fault>;
    /// Puts a dead letter back into the inbox at its old position, even if the inbox is full. Its retention
    /// starts anew, and it no longer becomes stale. None when there is no such dead letter. Repeating it is harmless.
    async fn redrive(&self, entry: &EntryId) -> Result<Option<InstanceId>, Fault>;
    /// Registers `hear`, which is called for every appended entry, in commit order, before the append
    /// resolves. It must not block.
    fn follow(&self, hear: Arc<dyn Fn(Entry) + Send + Sync>);
}

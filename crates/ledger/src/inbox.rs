//! What an absent agent will find when it comes back.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use posthouse_time::Moment;
use posthouse_wire::{
    BotId, ChatId, DedupKey, EntryId, InstanceId, MessageId, Platform, ScopeId, SessionKey,
};

use crate::{Fault, Identity, NewReceipt};

/// The order of entries inside one inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub i64);

/// An event on its way into an inbox.
#[derive(Clone, Debug)]
pub struct Append {
    /// Minted by the caller where the event itself names its entry; otherwise in the commit.
    pub id: Option<EntryId>,
    pub to: InstanceId,
    pub platform: Platform,
    pub bot: BotId,
    pub chat: ChatId,
    pub message: Option<MessageId>,
    /// Of no account where there is a receipt: its delivery is known again by the receipt alone.
    pub dedup: DedupKey,
    /// The event as JSON, ready for the wire.
    pub event: Bytes,
    /// What the platform calls each of the event's attachments. Never on the wire.
    pub references: Vec<String>,
    /// When it came through the door.
    pub accepted: Moment,
    /// What to remember about its conversation; nothing when that was remembered a moment ago.
    pub sighting: Option<Sighting>,
    /// The receipt of a program's delivery, opened in the same commit. If the same delivery came before,
    /// nothing is appended and the first entry is known; one that never reached the line, such as one that
    /// was scheduled, is carried from here on. How it says it opens does not matter here.
    pub receipt: Option<Box<NewReceipt>>,
}

/// A conversation seen: what later allows an answer to be sent there and an interrupt to find it.
#[derive(Clone, Debug)]
pub struct Sighting {
    pub scope: Option<ScopeId>,
    pub session_keys: Vec<SessionKey>,
}

/// What became of an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Appended {
    Kept(EntryId),
    /// The same dedup key or delivery came before: the first entry's id. Of a delivery it is told as long as
    /// its receipt is kept, even when the entry itself is gone.
    Known(EntryId),
}

impl Appended {
    pub fn entry(&self) -> &EntryId {
        match self {
            Appended::Kept(entry) | Appended::Known(entry) => entry,
        }
    }
}

/// One kept event.
#[derive(Clone, Debug)]
pub struct Entry {
    pub id: EntryId,
    pub seq: Seq,
    pub instance: InstanceId,
    pub event: Bytes,
    /// For the house's own code, which fetches attachments by them; nobody else is told.
    pub references: Vec<String>,
}

/// How much lies in an inbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    pub entries: i64,
    pub bytes: i64,
}

/// An entry taken by the agent, and when it had been handed over.
#[derive(Clone, Debug)]
pub struct Acknowledgement {
    pub entry: EntryId,
    pub handed: Moment,
    /// Its place and the length of its event, if whoever handed it over still knows: it is then not
    /// looked for.
    pub place: Option<(Seq, i64)>,
}

/// Signs of poison that an entry may show before it is given up on (relay contract section 16.4).
pub const POISONED: i64 = 3;
/// Losses in a row from which on each counts as a sign of poison.
pub const LOST: i64 = 10;

/// A hand-over that ended without an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setback {
    /// The sign of poison: the reader died of it, or sat silent on a socket that answers pings.
    Poison,
    /// The socket merely died with the entry outstanding.
    Loss,
}

/// An entry that was given up on.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    pub entry: EntryId,
    pub instance: InstanceId,
    pub platform: Platform,
    pub chat: ChatId,
    pub accepted: Moment,
    pub died: Moment,
}

/// The queue of one agent, all planes together: durable, ordered, acknowledged.
#[async_trait]
pub trait Inbox: Send + Sync {
    /// Keeps an event once: the same `dedup` of the same bot again returns the first entry's id.
    async fn append(&self, append: Append) -> Result<Appended, Fault>;
    /// The entry that an append under this key would find already there.
    async fn known(&self, on: &Identity, dedup: &DedupKey) -> Result<Option<EntryId>, Fault>;
    /// Oldest first, from after `after`. Entries stay until acknowledged.
    async fn unread(&self, of: &InstanceId, after: Seq, at_most: u16) -> Result<Vec<Entry>, Fault>;
    async fn size(&self, of: &InstanceId) -> Result<Unread, Fault>;
    /// Instances with anything unread, and how much.
    async fn backlogs(&self) -> Result<Vec<(InstanceId, Unread)>, Fault>;
    /// Forgets the events of these entries. Unknown, foreign and already forgotten ids are all fine;
    /// returns what was forgotten by this call, so that sizes can be kept.
    async fn acknowledge(&self, of: &InstanceId, taken: Vec<Acknowledgement>) -> Result<Unread, Fault>;
    /// Counts a setback; true when the entry thereby became a dead letter.
    async fn set_back(&self, of: &InstanceId, entry: &EntryId, how: Setback) -> Result<bool, Fault>;
    /// Drops the oldest entries until at least `surplus` is gone, in entries and in bytes; returns what
    /// went. It costs what it drops, however much is kept.
    async fn drop_oldest(&self, of: &InstanceId, surplus: Unread) -> Result<Unread, Fault>;
    /// Drops one entry that nobody needs any more; one that has ended stays as it ended. Returns what went.
    async fn recall(&self, of: &InstanceId, entry: &EntryId) -> Result<Unread, Fault>;
    async fn dead_letters(&self, of: Option<&InstanceId>, at_most: u16) -> Result<Vec<DeadLetter>, Fault>;
    /// Puts a dead letter back in line, at its old place, to be kept as long again as a new one. Nothing
    /// when there is no such letter; repeating is harmless.
    async fn redrive(&self, entry: &EntryId) -> Result<Option<InstanceId>, Fault>;
    /// `hear` is called for every entry appended through this ledger, in commit order, before its
    /// append resolves. It must not block.
    fn follow(&self, hear: Arc<dyn Fn(&Entry) + Send + Sync>);
}

//! What became of everything that programs sent: one receipt a dispatch and connector, and what the agent
//! said back.

use async_trait::async_trait;
use bytes::Bytes;
use posthouse_time::Moment;
pub use posthouse_wire::delivery::{ReceiptState, ReplyKind};
use posthouse_wire::{ChatId, ClientId, DispatchId, EntryId, InstanceId, MessageId, TenantId};

use crate::Fault;

/// A receipt by its row. Later ones have greater keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReceiptKey(pub i64);

/// What tells one delivery of a dispatch from another: connector, agent, kind and text, hashed. The same
/// digest of the same dispatch and tenant is the same delivery again.
pub type Digest = [u8; 16];

/// Which verb of the contract it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    Deliver,
    Wake,
    Exchange,
}

impl Verb {
    pub fn word(self) -> &'static str {
        match self {
            Verb::Deliver => "deliver",
            Verb::Wake => "wake",
            Verb::Exchange => "exchange",
        }
    }
}

/// A delivery about to be made.
#[derive(Clone, Debug)]
pub struct NewReceipt {
    pub tenant: TenantId,
    pub dispatch: DispatchId,
    pub digest: Digest,
    /// By its name in the tenant.
    pub connector: String,
    /// The name the agent goes by at that connector.
    pub agent: String,
    /// Who has to acknowledge it, where the agent dials in.
    pub instance: Option<InstanceId>,
    /// The conversation on the line, where there is one.
    pub chat: Option<ChatId>,
    pub session: Option<String>,
    pub verb: Verb,
    pub sender: ClientId,
    /// The agent whose credential sent it; nothing for a tenant's.
    pub sent_by: Option<InstanceId>,
    /// The emitter's clock.
    pub sent_at: Moment,
    /// When it was taken in, as its sender is told once this is committed.
    pub accepted: Moment,
    /// Accepted while nobody was there to take it.
    pub skipped: bool,
    pub open: Opening,
}

/// What is still to be done about a new receipt.
#[derive(Clone, Debug)]
pub enum Opening {
    /// The entry that is appended with it carries it; nothing else is to be done.
    Entry,
    /// Somebody attempts it now. If that attempt is never reported it is `due` again then.
    Attempt { body: Bytes, due: Moment },
    /// Kept until its time, when the clock brings it up.
    Scheduled { body: Bytes, at: Moment },
}

/// What became of opening a receipt.
#[derive(Clone, Debug)]
pub enum Opened {
    Fresh(ReceiptKey),
    /// The same delivery came before.
    Known(Box<Receipt>),
}

/// One delivery, as far as it has come. Where an entry carries it, its state and times are the entry's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub key: ReceiptKey,
    pub tenant: TenantId,
    pub dispatch: DispatchId,
    pub digest: Digest,
    pub connector: String,
    pub agent: String,
    pub instance: Option<InstanceId>,
    pub chat: Option<ChatId>,
    pub session: Option<String>,
    pub verb: Verb,
    pub sender: ClientId,
    pub sent_by: Option<InstanceId>,
    pub sent_at: Moment,
    /// Our commit.
    pub accepted_at: Moment,
    /// Handed to the seat, or taken by the receiver.
    pub delivered_at: Option<Moment>,
    /// The agent's own word.
    pub acknowledged_at: Option<Moment>,
    pub state: ReceiptState,
    /// When it is tried next, or brought up by the clock.
    pub due: Option<Moment>,
    pub attempts: u32,
    pub error: Option<String>,
    pub skipped: bool,
    pub entry: Option<EntryId>,
    /// The contract's receipt as JSON, once the connector gave one. Nothing where it follows from the rest.
    pub answer: Option<String>,
}

/// A delivery that is to be attempted now.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub receipt: Receipt,
    /// The same bytes every time.
    pub body: Bytes,
}

/// What one attempt, or a wait, came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempted {
    /// Taken; the bytes are forgotten.
    Delivered { at: Moment, answer: String },
    /// Failed, to be tried again.
    Postponed { due: Moment, error: String, answer: String },
    /// Failed for good; the bytes are forgotten. `answer` is what the caller was told in spite of it, and takes
    /// the place of whatever was answered before; where there is none, the failure is all there is to tell.
    Failed { error: String, answer: Option<String> },
    /// Only the answer is new: what was waited for did or did not come. The state is the entry's.
    Answered { answer: String },
}

/// Something that an agent said in a program's conversation.
#[derive(Clone, Debug)]
pub struct NewReply {
    pub at: Moment,
    pub what: ReplyKind,
    pub message: MessageId,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub at: Moment,
    pub what: ReplyKind,
    pub message: MessageId,
    pub text: String,
}

/// Deliveries that are told of one dispatch: a program may use its id again and again.
pub const OF_ONE_DISPATCH: u32 = 1000;

/// How much is kept of what an agent said to one receipt: the latest of it.
pub const REPLIES: usize = 20;
pub const REPLY_BYTES: usize = 64 * 1024;

/// Which receipts to tell of.
#[derive(Clone, Debug, Default)]
pub struct ReceiptFilter {
    /// Nothing: everybody's, for the operator.
    pub tenant: Option<TenantId>,
    /// Only what this agent's credential sent.
    pub sent_by: Option<InstanceId>,
    /// By name, in whichever session.
    pub agent: Option<String>,
    pub state: Option<ReceiptState>,
}

#[async_trait]
pub trait Receipts: Send + Sync {
    /// Notes a delivery once: the same again finds the first. One that an entry carries is opened by the
    /// append of that entry instead (`Append::receipt`), and refused here.
    async fn open(&self, new: NewReceipt) -> Result<Opened, Fault>;
    /// Under this very digest.
    async fn receipt(
        &self,
        tenant: &TenantId,
        dispatch: &DispatchId,
        digest: Digest,
    ) -> Result<Option<Receipt>, Fault>;
    /// What one dispatch reached, in the order it was opened, the first thousand of those asked for. Without
    /// a tenant: whosever. Without a sender: by whichever credential; of an agent's own, others who use the same
    /// id hide none.
    async fn receipts_of(
        &self,
        tenant: Option<&TenantId>,
        sent_by: Option<&InstanceId>,
        dispatch: &DispatchId,
    ) -> Result<Vec<Receipt>, Fault>;
    /// Newest first, before the one named. Agent and state are picked out of the list of the tenant, of the
    /// sender or of everybody, which is read until there are enough.
    async fn receipts(
        &self,
        filter: ReceiptFilter,
        before: Option<ReceiptKey>,
        at_most: u32,
    ) -> Result<Vec<Receipt>, Fault>;
    /// A scheduled one could not be promised after all: it has failed, and the same may be asked for again.
    async fn withdraw(&self, key: ReceiptKey, error: String) -> Result<(), Fault>;
    /// Notes what an attempt came to. One that has ended stays as it ended, and of one that an entry carries
    /// only the answer is noted. Repeating it counts as another attempt.
    async fn attempted(&self, key: ReceiptKey, attempted: Attempted) -> Result<(), Fault>;
    /// Takes what is due under a lease, oldest first: it is due again at `lease_until` unless an attempt
    /// is reported. What the clock brings up is not among it, nor is what belongs to `except`.
    async fn claim_outgoing(
        &self,
        now: Moment,
        lease_until: Moment,
        except: &[TenantId],
        at_most: u32,
    ) -> Result<Vec<Outgoing>, Fault>;
    /// After a start where no other house can be alive: nobody is at anything any more, so all of it is due.
    async fn free_outgoing(&self, now: Moment) -> Result<(), Fault>;
    /// Somebody is still at it: it is due again at `until`. Nothing changes for one that has ended.
    async fn hold(&self, key: ReceiptKey, until: Moment) -> Result<(), Fault>;
    /// When the next attempt is due, of tenants but these.
    async fn next_outgoing(&self, except: &[TenantId]) -> Result<Option<Moment>, Fault>;
    /// How many deliveries of a tenant are still to be made, counting no further than `at_most`.
    async fn waiting(&self, tenant: &TenantId, at_most: u32) -> Result<u32, Fault>;
    /// A scheduled one whose time has come, to be attempted now: it is queued, and due again at
    /// `lease_until`. Nothing when it is not scheduled any more and not due either.
    async fn bring_up(
        &self,
        key: ReceiptKey,
        now: Moment,
        lease_until: Moment,
    ) -> Result<Option<Outgoing>, Fault>;
    /// Keeps what an agent said with the receipt of the entry it replies to. Words that name no entry belong to
    /// whoever began the conversation, with the latest that they said in it; an agent that says something in a
    /// conversation that another agent or a program of the tenant began hears only what names its entry. The
    /// tenant's programs are one, and take over any conversation, since they may see everything of their
    /// tenant. Once the receipt that they would belong to is gone, whoever comes next begins anew. Nothing when
    /// the conversation has no receipt. The latest [`REPLIES`] stay, as far as they fit into [`REPLY_BYTES`];
    /// one that is longer is cut.
    async fn said(
        &self,
        by: &InstanceId,
        chat: &ChatId,
        to: Option<&EntryId>,
        reply: NewReply,
    ) -> Result<Option<ReceiptKey>, Fault>;
    /// Has the latest reply of this message id that this agent said in this conversation read otherwise: its
    /// text, time and kind are the new ones, its place stays. What is then too much goes as above, but never
    /// the one that was just changed. False where there is none (any more), and nothing is kept.
    async fn amended(&self, by: &InstanceId, chat: &ChatId, reply: NewReply) -> Result<bool, Fault>;
    /// Keeps what an agent said by another way with this receipt, as much of it as above. A receipt that is
    /// gone takes nothing.
    async fn replied(&self, to: ReceiptKey, reply: NewReply) -> Result<(), Fault>;
    /// In the order they were first said.
    async fn replies(&self, to: ReceiptKey) -> Result<Vec<Reply>, Fault>;
}

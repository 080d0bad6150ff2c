//! Receipts: the state of every delivery of a program, one per dispatch and connector, with the replies of
//! the agent.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use posthouse_time::Moment;
pub use posthouse_wire::delivery::{ReceiptState, ReplyKind};
use posthouse_wire::{ChatId, ClientId, DispatchId, EntryId, InstanceId, MessageId, TenantId};

use crate::Fault;

/// Row key of a receipt. Later receipts have greater keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReceiptKey(pub i64);

/// Hash of connector, agent, kind and text. It tells the deliveries of one dispatch apart: the same digest of
/// the same dispatch and tenant is the same delivery again.
pub type Digest = [u8; 16];

/// The operation of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DispatchVerb {
    Deliver,
    Wake,
    Exchange,
}

impl DispatchVerb {
    pub fn word(self) -> &'static str {
        match self {
            DispatchVerb::Deliver => "deliver",
            DispatchVerb::Wake => "wake",
            DispatchVerb::Exchange => "exchange",
        }
    }
}

/// A delivery that is about to be made.
#[derive(Clone, Debug)]
pub struct NewReceipt {
    pub tenant: TenantId,
    pub dispatch: DispatchId,
    pub digest: Digest,
    /// Name of the connector in the tenant.
    pub connector: String,
    /// Name of the agent at that connector.
    pub agent: String,
    /// The agent that has to acknowledge it, if it connects by itself.
    pub instance: Option<InstanceId>,
    /// The conversation on the relay connection, if there is one.
    pub chat: Option<ChatId>,
    pub session: Option<String>,
    pub verb: DispatchVerb,
    pub sender: ClientId,
    /// The agent whose credential sent it. None for a credential of the tenant.
    pub sent_by: Option<InstanceId>,
    /// Time by the clock of the sender.
    pub sent_at: Moment,
    /// Time of acceptance. The sender gets it once this is committed.
    pub accepted: Moment,
    /// It was accepted while no agent was there to receive it.
    pub skipped: bool,
    pub open: Opening,
}

/// The work that is left for a new receipt.
#[derive(Clone, Debug)]
pub enum Opening {
    /// The entry that is appended with it carries it. Nothing else is to be done.
    Entry,
    /// The caller attempts it now. If the result of that attempt is never reported, it is due again at `due`.
    Attempt { body: Bytes, due: Moment },
    /// It is stored until its time, when the clock starts it.
    Scheduled { body: Bytes, at: Moment },
}

/// Outcome of opening a receipt.
#[derive(Clone, Debug)]
pub enum Opened {
    Fresh(ReceiptKey),
    /// The same delivery came before.
    Known(Box<Receipt>),
}

/// One delivery and its state. If an entry carries it, the state and the times are those of the entry.
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
    pub verb: DispatchVerb,
    pub sender: ClientId,
    pub sent_by: Option<InstanceId>,
    pub sent_at: Moment,
    /// Time of the commit.
    pub accepted_at: Moment,
    /// Time at which it was handed to the seat, or accepted by the receiver.
    pub delivered_at: Option<Moment>,
    /// Time at which the agent itself confirmed it.
    pub acknowledged_at: Option<Moment>,
    pub state: ReceiptState,
    /// Time of the next attempt, or of the start by the clock.
    pub due: Option<Moment>,
    pub attempts: u32,
    pub error: Option<String>,
    pub skipped: bool,
    pub entry: Option<EntryId>,
    /// The contract's receipt as JSON, once the connector gave one. None where it follows from the other
    /// fields.
    pub answer: Option<String>,
}

/// A delivery that is to be attempted now.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub receipt: Receipt,
    /// Every attempt sends the same bytes.
    pub body: Bytes,
}

/// Result of one attempt, or of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// Accepted. The body is deleted.
    Delivered { at: Moment, answer: String },
    /// Failed. It is tried again.
    Postponed { due: Moment, error: String, answer: String },
    /// Failed for good. The body is deleted. `answer` is the answer that the caller got nevertheless; it
    /// replaces an earlier answer. Without it, the failure is the whole answer.
    Failed { error: String, answer: Option<String> },
    /// It could not be attempted yet. It is scheduled again, until `due`.
    PutOff { due: Moment },
}

/// A reply of an agent in a conversation of a program.
#[derive(Clone, Debug)]
pub struct NewReply {
    pub at: Moment,
    pub what: ReplyKind,
    pub message: MessageId,
    pub text: String,
    /// The agent is still writing it and sends the rest as a separate message.
    pub unfinished: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredReply {
    pub at: Moment,
    pub what: ReplyKind,
    pub message: MessageId,
    pub text: String,
}

/// Number of deliveries that are returned for one dispatch. Programs can use a dispatch id any number of
/// times.
pub const OF_ONE_DISPATCH: u32 = 1000;

/// Number and size of the replies that are kept per receipt. The latest ones stay.
pub const REPLIES: usize = 20;
pub const REPLY_BYTES: usize = 64 * 1024;

/// Filter for receipts.
#[derive(Clone, Debug, Default)]
pub struct ReceiptFilter {
    /// None: those of all tenants, for the operator.
    pub tenant: Option<TenantId>,
    /// Only those sent with the credential of this agent.
    pub sent_by: Option<InstanceId>,
    /// By name, in any session.
    pub agent: Option<String>,
    pub state: Option<ReceiptState>,
}

#[async_trait]
pub trait Receipts: Send + Sync {
    /// Stores a delivery once; the same delivery again returns the first. Receipts carried by an entry are
    /// opened by the append of that entry (`Append::receipt`) and refused here.
    async fn open(&self, new: NewReceipt) -> Result<Opened, Fault>;
    /// The receipt with exactly this digest.
    async fn receipt(
        &self,
        tenant: &TenantId,
        dispatch: &DispatchId,
        digest: Digest,
    ) -> Result<Option<Receipt>, Fault>;
    /// The deliveries of one dispatch in the order they were opened, at most [`OF_ONE_DISPATCH`] of those
    /// that match. Without a tenant: those of any tenant. Without a sender: those of any credential. With a
    /// sender, other users of the same id do not displace its deliveries.
    async fn receipts_of(
        &self,
        tenant: Option<&TenantId>,
        sent_by: Option<&InstanceId>,
        dispatch: &DispatchId,
    ) -> Result<Vec<Receipt>, Fault>;
    /// Newest first, before the given one. The list of the tenant, of the sender or of everybody is read and
    /// filtered by agent and state until there are enough.
    async fn receipts(
        &self,
        filter: ReceiptFilter,
        before: Option<ReceiptKey>,
        at_most: u32,
    ) -> Result<Vec<Receipt>, Fault>;
    /// Fails a scheduled delivery that could not be promised after all. The same delivery can then be
    /// requested again.
    async fn withdraw(&self, key: ReceiptKey, error: String) -> Result<(), Fault>;
    /// Stores the answer that the caller of a delivery got after its wait, whether or not the expected reply
    /// came. The state of the delivery does not change.
    async fn note_answer(
        &self,
        tenant: &TenantId,
        dispatch: &DispatchId,
        digest: Digest,
        answer: String,
    ) -> Result<(), Fault>;
    /// Stores the result of an attempt. A delivery that has ended does not change. Repeating it counts as
    /// another attempt.
    async fn attempted(&self, key: ReceiptKey, attempted: AttemptOutcome) -> Result<(), Fault>;
    /// Claims due deliveries under a lease, oldest first. They are due again at `lease_until` unless a result
    /// is reported. Scheduled deliveries, which the clock starts, and those of the tenants in `except` are
    /// left out.
    ///
    /// Leases and retry times are stored in ledger time, so a step of the wall clock moves none of them.
    async fn claim_outgoing(
        &self,
        lease_until: Moment,
        except: &[TenantId],
        at_most: u32,
    ) -> Result<Vec<Outgoing>, Fault>;
    /// Makes all deliveries due. For the start of a server that nobody shares the ledger with: no attempt can
    /// be running.
    async fn free_outgoing(&self) -> Result<(), Fault>;
    /// Extends the lease of a delivery until `until`. A delivery that has ended does not change.
    async fn hold(&self, key: ReceiptKey, until: Moment) -> Result<(), Fault>;
    /// Time until the next attempt is due, leaving out the tenants in `except`.
    async fn next_outgoing(&self, except: &[TenantId]) -> Result<Option<Duration>, Fault>;
    /// Number of pending deliveries of a tenant, counted up to `at_most`.
    async fn waiting(&self, tenant: &TenantId, at_most: u32) -> Result<u32, Fault>;
    /// Queues a scheduled delivery whose time has come; the caller attempts it now, and it is due again at
    /// `lease_until`. None when it is neither scheduled nor due.
    async fn start_scheduled(&self, key: ReceiptKey, lease_until: Moment) -> Result<Option<Outgoing>, Fault>;
    /// Stores a reply of an agent with the receipt of the entry that it replies to. A reply that names no
    /// entry belongs to the latest message of whoever began the conversation. If another agent or a program
    /// of the tenant began it, an agent that writes there gets only replies that name its own entry. All
    /// programs of a tenant count as one and take over any conversation, because they may see everything of
    /// their tenant. Once the receipt is gone that such replies would belong to, the next sender begins the
    /// conversation anew. Nothing is stored when the conversation has no receipt. The latest [`REPLIES`]
    /// stay, as far as they fit into [`REPLY_BYTES`]. A longer reply is cut.
    async fn said(
        &self,
        by: &InstanceId,
        chat: &ChatId,
        to: Option<&EntryId>,
        reply: NewReply,
    ) -> Result<Option<ReceiptKey>, Fault>;
    /// Edits the latest reply with this message id of this agent in this conversation. Text, time and kind
    /// change, the position stays. Replies beyond the limits are deleted as in [`Receipts::said`], but never
    /// the edited one. False, and nothing is stored, when there is no such reply (any more).
    async fn amended(&self, by: &InstanceId, chat: &ChatId, reply: NewReply) -> Result<bool, Fault>;
    /// The latest reply that this agent has begun and not finished: the message id and the text so far. Only
    /// of the receipt with which [`Receipts::said`] would store a reply now.
    async fn unfinished(
        &self,
        by: &InstanceId,
        chat: &ChatId,
        to: Option<&EntryId>,
    ) -> Result<Option<(MessageId, String)>, Fault>;
    /// Stores a reply that came by another path with this receipt, within the same limits. Nothing is stored
    /// if the receipt is gone.
    async fn replied(&self, to: ReceiptKey, reply: NewReply) -> Result<(), Fault>;
    /// In the order in which they were first sent.
    async fn replies(&self, to: ReceiptKey) -> Result<Vec<StoredReply>, Fault>;
}

//! Questions that programs put to agents, kept until they are answered or their time is up.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ChatId, ClientId, CorrelationId, DispatchId, InstanceId, TenantId};

use crate::{Digest, Fault, NewReceipt, ReceiptKey, TokenHash};

/// A question about to be asked.
#[derive(Clone, Debug)]
pub struct NewExchange {
    pub tenant: TenantId,
    pub correlation: CorrelationId,
    /// Who asks; only they may attach again.
    pub caller: ClientId,
    pub connector: String,
    pub agent: String,
    /// Who may answer, where the agent dials in.
    pub instance: Option<InstanceId>,
    /// The conversation of its own that it opens there.
    pub chat: Option<ChatId>,
    pub dispatch: DispatchId,
    /// Of agent and text: the same question again is attached, another under the same id is refused.
    pub digest: Digest,
    pub opened: Moment,
    pub deadline: Moment,
    /// What a reply by HTTP is known by.
    pub reply_token: Option<TokenHash>,
    /// Whether its answer has to be looked for.
    pub collected: bool,
}

/// What became of asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The question and its receipt are on record; it is still to be sent.
    Opened(ReceiptKey),
    /// The same caller asked the same before.
    Attached(Box<Exchange>),
    /// The id belongs to another question.
    InUse,
    /// The tenant has as many open questions as it may.
    TooMany,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeState {
    Open,
    Answered,
    TimedOut,
    /// It never reached the agent.
    Failed,
}

impl ExchangeState {
    pub fn word(self) -> &'static str {
        match self {
            ExchangeState::Open => "open",
            ExchangeState::Answered => "answered",
            ExchangeState::TimedOut => "timed_out",
            ExchangeState::Failed => "failed",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    pub tenant: TenantId,
    pub correlation: CorrelationId,
    pub caller: ClientId,
    pub connector: String,
    pub agent: String,
    pub instance: Option<InstanceId>,
    pub chat: Option<ChatId>,
    pub dispatch: DispatchId,
    pub digest: Digest,
    pub opened: Moment,
    pub deadline: Moment,
    pub state: ExchangeState,
    pub ended: Option<Moment>,
    /// The answer, and the replier's own time of it in ms.
    pub answer: Option<(String, i64)>,
    /// Why it failed, as JSON of the contract's error.
    pub error: Option<String>,
}

/// What became of an answer. All but the first are kept with the receipt, and change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// It is the answer.
    First,
    /// Another came before.
    Duplicate,
    /// Its time was up.
    Late,
    /// There is no such question.
    Absent,
}

#[async_trait]
pub trait Exchanges: Send + Sync {
    /// Opens a question once, with the receipt of its one delivery: whatever becomes of whoever asked, it is
    /// sent. The same again is attached to it. At most `most` of a tenant are open at a time.
    async fn ask(&self, new: NewExchange, receipt: NewReceipt, most: u32) -> Result<Asked, Fault>;
    async fn exchange(
        &self,
        tenant: &TenantId,
        correlation: &CorrelationId,
    ) -> Result<Option<Exchange>, Fault>;
    /// The question that this conversation of this agent is about.
    async fn exchange_in(&self, of: &InstanceId, chat: &ChatId) -> Result<Option<Exchange>, Fault>;
    /// The question whose answer this token stands for.
    async fn exchange_of_token(&self, token: TokenHash) -> Result<Option<Exchange>, Fault>;
    /// Open questions whose answers have to be looked for, in the order they were asked, each with what it is
    /// named by; from behind the one named. Read page by page until one is empty, none of anybody's is left out.
    async fn uncollected(&self, after: Option<i64>, at_most: u32) -> Result<Vec<(i64, Exchange)>, Fault>;
    /// Questions that ended after `since` without the answer that had to be looked for, in the same order and
    /// read in the same way.
    async fn overdue(
        &self,
        since: Moment,
        after: Option<i64>,
        at_most: u32,
    ) -> Result<Vec<(i64, Exchange)>, Fault>;
    /// Its answer came after all, and is looked for no more.
    async fn stop_looking(&self, tenant: &TenantId, correlation: &CorrelationId) -> Result<(), Fault>;
    /// Newest first, before the moment and id named. Without a caller: the whole tenant's.
    async fn exchanges(
        &self,
        tenant: &TenantId,
        caller: Option<&ClientId>,
        before: Option<(Moment, CorrelationId)>,
        at_most: u32,
    ) -> Result<Vec<Exchange>, Fault>;
    /// Takes an answer: the first before the deadline counts. One that finds the time up ends the question,
    /// and one to a question that failed is late too.
    async fn answer(
        &self,
        tenant: &TenantId,
        correlation: &CorrelationId,
        content: &str,
        sent_at: i64,
        now: Moment,
    ) -> Result<Answered, Fault>;
    /// The question could not be put. One that has ended stays as it ended, and one whose time is up ends by
    /// that.
    async fn fail(
        &self,
        tenant: &TenantId,
        correlation: &CorrelationId,
        error: &str,
        now: Moment,
    ) -> Result<(), Fault>;
    /// Ends what is open past its deadline, a little at a time; returns what was ended.
    async fn expire(&self, now: Moment, at_most: u32) -> Result<Vec<(TenantId, CorrelationId)>, Fault>;
    /// When the next open question's time is up.
    async fn next_deadline(&self) -> Result<Option<Moment>, Fault>;
}

//! Exchanges: questions of programs to agents, stored until they are answered or time out.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ChatId, ClientId, CorrelationId, DispatchId, InstanceId, TenantId};

use crate::{Digest, Fault, NewReceipt, ReceiptKey, TokenHash};

/// A question to be stored.
#[derive(Clone, Debug)]
pub struct NewExchange {
    pub tenant: TenantId,
    pub correlation: CorrelationId,
    /// The program that asks. Only it may attach again.
    pub caller: ClientId,
    pub connector: String,
    pub agent: String,
    /// The agent that may answer, if it connects by itself.
    pub instance: Option<InstanceId>,
    /// The conversation that the question opens there.
    pub chat: Option<ChatId>,
    pub dispatch: DispatchId,
    /// Digest of agent and text. The same question again is attached; another question under the same id is
    /// refused.
    pub digest: Digest,
    pub opened: Moment,
    pub deadline: Moment,
    /// Hash of the token that authorizes a reply by HTTP.
    pub reply_token: Option<TokenHash>,
    /// Whether the server has to poll for the answer.
    pub collected: bool,
}

/// Outcome of [`Exchanges::ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskResult {
    /// The question and its receipt are stored. The question is still to be sent.
    Opened(ReceiptKey),
    /// The same caller has asked the same question before.
    Attached(Box<Exchange>),
    /// The id belongs to another question.
    InUse,
    /// The tenant has reached its limit of open questions.
    TooMany,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeState {
    Open,
    Answered,
    TimedOut,
    /// The question never reached the agent.
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
    /// Time that an open question has left. At zero, [`Exchanges::expire`] ends it.
    pub left: Duration,
    pub state: ExchangeState,
    pub ended: Option<Moment>,
    /// The answer, and its time by the clock of the replier, in milliseconds.
    pub answer: Option<(String, i64)>,
    /// Reason of the failure, as JSON of the contract's error.
    pub error: Option<String>,
}

/// Outcome of an answer. Every answer but the first is stored with the receipt and changes nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// This is the answer.
    First,
    /// Another answer came before.
    Duplicate,
    /// The question had timed out.
    Late,
    /// There is no such question.
    Absent,
}

#[async_trait]
pub trait Exchanges: Send + Sync {
    /// Stores a question once, together with the receipt of its one delivery. It is sent even if the caller
    /// goes away. The same question again is attached to it. At most `most` questions of a tenant can be
    /// open.
    async fn ask(&self, new: NewExchange, receipt: NewReceipt, most: u32) -> Result<AskResult, Fault>;
    /// Deletes an open question whose delivery was refused, and the receipt of that delivery. The question
    /// can then be asked again under the same id. A question that has ended does not change.
    async fn delete_unsent_question(
        &self,
        tenant: &TenantId,
        correlation: &CorrelationId,
        receipt: ReceiptKey,
    ) -> Result<(), Fault>;
    async fn exchange(
        &self,
        tenant: &TenantId,
        correlation: &CorrelationId,
    ) -> Result<Option<Exchange>, Fault>;
    /// The question that this conversation of this agent belongs to.
    async fn exchange_in(&self, of: &InstanceId, chat: &ChatId) -> Result<Option<Exchange>, Fault>;
    /// The question that this reply token belongs to.
    async fn exchange_of_token(&self, token: TokenHash) -> Result<Option<Exchange>, Fault>;
    /// Open questions whose answers the server has to poll for, in the order they were asked, each with its
    /// number; those after the given number. Reading page by page until one is empty leaves out no tenant's
    /// questions.
    async fn uncollected(&self, after: Option<i64>, at_most: u32) -> Result<Vec<(i64, Exchange)>, Fault>;
    /// Questions that ended after `since` without the answer that the server polls for. Same order and paging
    /// as [`Exchanges::uncollected`].
    async fn overdue(
        &self,
        since: Moment,
        after: Option<i64>,
        at_most: u32,
    ) -> Result<Vec<(i64, Exchange)>, Fault>;
    /// The answer came after all. The server stops polling for it.
    async fn stop_looking(&self, tenant: &TenantId, correlation: &CorrelationId) -> Result<(), Fault>;
    /// Newest first, before the given time and id. Without a caller: those of the whole tenant.
    async fn exchanges(
        &self,
        tenant: &TenantId,
        caller: Option<&ClientId>,
        before: Option<(Moment, CorrelationId)>,
        at_most: u32,
    ) -> Result<Vec<Exchange>, Fault>;
    /// Stores an answer. The first one before the deadline counts. An answer after the deadline ends the
    /// question as timed out; an answer to a failed question is late too.
    async fn answer(
        &self,
        tenant: &TenantId,
        correlation: &CorrelationId,
        content: &str,
        sent_at: i64,
        now: Moment,
    ) -> Result<Answered, Fault>;
    /// Marks a question that could not be delivered as failed. A question that has ended does not change, and
    /// one past its deadline times out instead.
    async fn fail(
        &self,
        tenant: &TenantId,
        correlation: &CorrelationId,
        error: &str,
        now: Moment,
    ) -> Result<(), Fault>;
    /// Ends open questions past their deadline, a limited number per call, and returns them. If the agent has
    /// begun an answer and is not `writing` any more, its text so far is the answer. All other questions time
    /// out.
    async fn expire(
        &self,
        now: Moment,
        at_most: u32,
        writing: HashSet<(TenantId, CorrelationId)>,
    ) -> Result<Vec<(TenantId, CorrelationId)>, Fault>;
    /// Takes the text that the agent has begun as its answer, if the question is open. False when there is
    /// none.
    async fn answer_with_begun(
        &self,
        tenant: &TenantId,
        correlation: &CorrelationId,
        now: Moment,
    ) -> Result<bool, Fault>;
    /// Time until the next open question times out.
    async fn next_deadline(&self) -> Result<Option<Duration>, Fault>;
}

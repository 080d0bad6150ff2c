//! Answers to questions: which answer counts, callers that wait for it, and the state of a question.

use std::sync::Arc;
use std::time::Duration;

use ledger::{
    Answered, Asked, Exchange, ExchangeState, Exchanges, NewExchange, NewReceipt, NewReply, ReceiptKey,
    Receipts, ReplyKind,
};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::delivery::{DeliveryFailed, Response};
use posthouse_wire::{ChatId, CorrelationId, InstanceId, MessageId, TenantId};
use relay::{Relay, RosterChange};
use tokio_util::sync::CancellationToken;

use crate::answer_waiters::AnswerWaiters;
use crate::background::Background;
use crate::connector::ConnectorReply;
use crate::deadlines::Deadlines;
use crate::dispatch::fresh_id;
use crate::question_id;
use crate::requests::{AskState, LONGEST_WAIT, QuestionPage};
use crate::{Caller, Fault, Metrics, Refused};

/// Questions on one page.
const PAGE: u32 = 50;
const LONGEST_PAGE: u32 = 200;

/// The stored questions, their answers, and the callers that wait for them.
pub struct Answers {
    exchanges: Arc<dyn Exchanges>,
    receipts: Arc<dyn Receipts>,
    waiters: Arc<AnswerWaiters>,
    deadlines: Arc<Deadlines>,
    metrics: Arc<Metrics>,
    timepiece: Timepiece,
    closing: CancellationToken,
}

/// Whether it is still useful to send a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QuestionStatus {
    Open(Box<Exchange>),
    Answered(Moment),
    /// Its deadline has passed, it failed, or it is not stored.
    Over,
}

impl Answers {
    pub(crate) fn new(
        exchanges: Arc<dyn Exchanges>,
        receipts: Arc<dyn Receipts>,
        waiters: Arc<AnswerWaiters>,
        deadlines: Arc<Deadlines>,
        metrics: Arc<Metrics>,
        background: &Background,
    ) -> Self {
        let (timepiece, closing) = (background.timepiece.clone(), background.closing.clone());
        Self { exchanges, receipts, waiters, deadlines, metrics, timepiece, closing }
    }

    /// The state of a question by the id that its caller gave, after waiting at most `wait` for its answer.
    pub async fn attach(
        &self,
        by: &Caller,
        correlation: &CorrelationId,
        wait: Duration,
    ) -> Result<AskState, Refused> {
        let recorded = self.recorded_id(by, correlation).await?;
        self.wait_for(by, &recorded, wait).await
    }

    /// The state of a question by its stored id, after waiting at most `wait` for its answer.
    pub async fn wait_for(
        &self,
        by: &Caller,
        recorded: &CorrelationId,
        wait: Duration,
    ) -> Result<AskState, Refused> {
        let until = self.timepiece.instant() + wait.min(LONGEST_WAIT);
        let mut waiter = self.waiters.wait(&by.tenant, recorded);
        loop {
            // Taken before the record is read, so that the deadline computed from `left` is never too late.
            let asked = self.timepiece.instant();
            let known = self.exchanges.exchange(&by.tenant, recorded).await?;
            let Some(exchange) = known.filter(|exchange| question_id::may_attach(by, exchange)) else {
                return Err(Refused::Absent);
            };
            if exchange.state == ExchangeState::Open && exchange.left.is_zero() {
                // The timeout is recorded before it is reported. An answer that is being stored at this moment
                // comes either before the timeout or late, and no caller sees both results.
                self.deadlines.end_due().await?;
                continue;
            }
            if exchange.state != ExchangeState::Open {
                return ended(by, exchange);
            }
            if self.timepiece.instant() >= until {
                return Ok(still_open(by, &exchange));
            }
            tokio::select! {
                () = waiter.changed() => {}
                // Shutdown does not wait for answers.
                () = self.closing.cancelled() => return Ok(still_open(by, &exchange)),
                () = self.timepiece.sleep_until(until.min(asked + exchange.left)) => {}
            }
        }
    }

    /// A page of the questions that this caller may see, newest first.
    pub async fn list(
        &self,
        by: &Caller,
        before: Option<(Moment, CorrelationId)>,
        limit: Option<u32>,
    ) -> Result<QuestionPage, Refused> {
        let limit = limit.unwrap_or(PAGE).clamp(1, LONGEST_PAGE);
        // An agent sees its own questions, a program of the tenant sees all of the tenant.
        let own = by.agent.as_ref().map(|_| &by.client);
        let mut items = self.exchanges.exchanges(&by.tenant, own, before, limit + 1).await?;
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next = items.last().filter(|_| more).map(|last| (last.opened, last.correlation.clone()));
        for item in &mut items {
            item.correlation = question_id::shown(by, &item.correlation);
        }
        Ok(QuestionPage { items, next })
    }

    /// The stored id of a question of this caller.
    pub(crate) async fn recorded_id(
        &self,
        by: &Caller,
        said: &CorrelationId,
    ) -> Result<CorrelationId, Fault> {
        let Some(agent) = &by.agent else { return Ok(said.clone()) };
        let own = question_id::of_agent(said, &agent.id);
        if self.exchanges.exchange(&by.tenant, &own).await?.is_some() {
            return Ok(own);
        }
        let taken = self.exchanges.exchange(&by.tenant, said).await?;
        let anothers = taken.is_some_and(|exchange| !question_id::may_attach(by, &exchange));
        Ok(if anothers { own } else { said.clone() })
    }

    /// Stores a new question with the receipt of its delivery. At most `most` questions of a tenant can be open.
    pub(crate) async fn open(
        &self,
        new: NewExchange,
        receipt: NewReceipt,
        most: u32,
    ) -> Result<Asked, Fault> {
        let asked = self.exchanges.ask(new, receipt, most).await?;
        if matches!(asked, Asked::Opened(_)) {
            self.deadlines.question_opened();
        }
        Ok(asked)
    }

    /// The stored question with this id.
    pub(crate) async fn question(
        &self,
        tenant: &TenantId,
        recorded: &CorrelationId,
    ) -> Result<Option<Exchange>, Fault> {
        Ok(self.exchanges.exchange(tenant, recorded).await?)
    }

    /// The question of this conversation, if it was put to this agent.
    pub(crate) async fn question_in(
        &self,
        of: &InstanceId,
        chat: &ChatId,
    ) -> Result<Option<Exchange>, Fault> {
        Ok(self.exchanges.exchange_in(of, chat).await?)
    }

    /// Whether it is still useful to send a question.
    pub(crate) async fn status(
        &self,
        tenant: &TenantId,
        correlation: &CorrelationId,
    ) -> Result<QuestionStatus, Fault> {
        let Some(found) = self.exchanges.exchange(tenant, correlation).await? else {
            return Ok(QuestionStatus::Over);
        };
        Ok(match found.state {
            ExchangeState::Answered => QuestionStatus::Answered(found.ended.unwrap_or(self.timepiece.now())),
            ExchangeState::Open if !found.left.is_zero() => QuestionStatus::Open(Box::new(found)),
            _ => QuestionStatus::Over,
        })
    }

    /// Records an answer and classifies it. The caller still has to notify those who wait.
    pub(crate) async fn record(
        &self,
        exchange: &Exchange,
        content: &str,
        sent_at: i64,
    ) -> Result<ReplyKind, Fault> {
        let (tenant, correlation) = (&exchange.tenant, &exchange.correlation);
        let answered =
            self.exchanges.answer(tenant, correlation, content, sent_at, self.timepiece.now()).await?;
        self.metrics.answered(answered);
        Ok(match answered {
            Answered::First => ReplyKind::Answer,
            Answered::Duplicate => ReplyKind::Duplicate,
            Answered::Late => ReplyKind::LateReply,
            Answered::Absent => ReplyKind::Said,
        })
    }

    /// Stores an answer that came by a connector or by HTTP, with the receipt of the question, and notifies those who
    /// wait.
    pub(crate) async fn take(&self, exchange: &Exchange, reply: ConnectorReply) -> Result<ReplyKind, Fault> {
        let now = self.timepiece.now();
        let ConnectorReply { content, sent_at } = reply;
        let what = self.record(exchange, &content, sent_at.unwrap_or(now.millis())).await?;
        let message = MessageId::new(fresh_id(now));
        let reply = NewReply { at: now, what, message, text: content, unfinished: false };
        // The answer itself is stored already, so a failure here does not lose it.
        if let Err(fault) = self.store_with_receipt(exchange, reply).await {
            tracing::error!(%fault, "could not store an answer with its receipt");
        }
        self.notify(exchange);
        Ok(what)
    }

    async fn store_with_receipt(&self, exchange: &Exchange, reply: NewReply) -> Result<(), Fault> {
        let receipts = self.receipts.receipts_of(Some(&exchange.tenant), None, &exchange.dispatch).await?;
        match receipts.first() {
            Some(receipt) => Ok(self.receipts.replied(receipt.key, reply).await?),
            None => Ok(()),
        }
    }

    /// Notifies the callers that wait for this question.
    pub(crate) fn notify(&self, exchange: &Exchange) {
        self.waiters.notify(&exchange.tenant, &exchange.correlation);
    }

    /// Ends a question that could not be delivered.
    pub(crate) async fn fail(
        &self,
        tenant: &TenantId,
        correlation: &CorrelationId,
        failed: &DeliveryFailed,
    ) -> Result<(), Fault> {
        let error = crate::receipt::error(failed);
        self.exchanges.fail(tenant, correlation, &error, self.timepiece.now()).await?;
        self.waiters.notify(tenant, correlation);
        Ok(())
    }

    /// Deletes a question that could not be put, so that it can be asked again under the same id.
    pub(crate) async fn withdraw(
        &self,
        tenant: &TenantId,
        correlation: &CorrelationId,
        receipt: ReceiptKey,
    ) -> Result<(), Fault> {
        self.exchanges.unask(tenant, correlation, receipt).await?;
        self.waiters.notify(tenant, correlation);
        Ok(())
    }

    /// Notifies waiting callers after roster changes, until shutdown: removing an agent or connector also ends its
    /// questions.
    pub(crate) async fn watch_roster(&self, relay: &Relay) {
        let mut roster = relay.watch_roster();
        loop {
            let changed = tokio::select! {
                () = self.closing.cancelled() => return,
                changed = roster.changed() => changed,
            };
            match changed {
                Some(RosterChange::Tenant(tenant)) => self.waiters.notify_tenant(&tenant),
                Some(RosterChange::Bot(_)) => {}
                Some(RosterChange::Anything) => self.waiters.notify_all(),
                None => return,
            }
        }
    }
}

fn still_open(by: &Caller, exchange: &Exchange) -> AskState {
    AskState::Open {
        correlation_id: question_id::shown(by, &exchange.correlation),
        deadline: exchange.deadline,
    }
}

/// The result of a question that has ended.
fn ended(by: &Caller, exchange: Exchange) -> Result<AskState, Refused> {
    let timeout_ms = exchange.deadline.millis() - exchange.opened.millis();
    match (exchange.state, exchange.answer) {
        (ExchangeState::Answered, Some((content, sent_at))) => Ok(AskState::Answered(Response {
            correlation_id: question_id::shown(by, &exchange.correlation),
            content,
            sent_at,
            agent_id: exchange.agent,
        })),
        (ExchangeState::Failed, _) => {
            let kept = exchange.error.as_deref().unwrap_or_default();
            let failed = serde_json::from_str(kept).unwrap_or_else(|_| {
                DeliveryFailed::client_validation(&exchange.agent, "the agent was removed")
            });
            Err(Refused::Unanswered(failed))
        }
        _ => Err(Refused::TimedOut { timeout_ms }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ledger::ReplyKind;

    use crate::connector::ConnectorReply;
    use crate::fixtures::Fixture;
    use crate::requests::AskState;

    #[tokio::test]
    async fn the_first_answer_counts_and_reaches_whoever_waits() {
        let fixture = Fixture::open().await;
        let (answers, by) = (fixture.answers(), fixture.operator());
        let question = fixture.question("q-1", Duration::from_secs(30)).await;
        let reply = |content: &str| ConnectorReply { content: content.to_owned(), sent_at: Some(7) };
        let waiting = answers.wait_for(&by, &question.correlation, Duration::from_secs(20));
        let (answered, taken) = tokio::join!(waiting, answers.take(&question, reply("42")));
        assert_eq!(taken.unwrap(), ReplyKind::Answer);
        let AskState::Answered(response) = answered.unwrap() else { panic!("it is answered") };
        assert_eq!((response.content.as_str(), response.sent_at), ("42", 7));
        assert_eq!(answers.take(&question, reply("43")).await.unwrap(), ReplyKind::Duplicate);
    }
}

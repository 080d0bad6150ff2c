//! Answers to questions: which answer counts, callers that wait for it, and the state of a question.

mod delivery;
mod waiters;

use std::sync::Arc;
use std::time::Duration;

use http_kit::{Page, completed};
use identity::{RosterChange, RosterView};
use ledger::{
    Answered, AskResult, Exchange, ExchangeState, Exchanges, NewExchange, NewReceipt, Receipts, ReplyKind,
};
use posthouse_time::Moment;
use posthouse_wire::action::Metadata;
use posthouse_wire::delivery::{DeliveryFailed, Response, is_dispatch_id};
use posthouse_wire::{ChatId, CorrelationId, InstanceId};
use tokio::sync::Notify;

use crate::background::Background;
use crate::conversations::names;
use crate::deadlines::Deadlines;
use crate::requests::{AskState, LONGEST_WAIT};
use crate::{Caller, Fault, Metrics, Refused};

pub(crate) use delivery::QuestionStatus;
pub(crate) use waiters::AnswerWaiters;

/// Separates a caller's id from the id of its agent, if another caller uses the same id. Callers cannot use this
/// character.
const OWN: char = '#';

/// The stored questions, their answers, and the callers that wait for them.
pub struct Answers {
    exchanges: Arc<dyn Exchanges>,
    receipts: Arc<dyn Receipts>,
    waiters: Arc<AnswerWaiters>,
    deadlines: Arc<Deadlines>,
    deadline_changed: Arc<Notify>,
    metrics: Arc<Metrics>,
    background: Background,
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
        let (background, deadline_changed) = (background.clone(), Arc::clone(deadlines.changed()));
        Self { exchanges, receipts, waiters, deadlines, deadline_changed, metrics, background }
    }

    /// The state of a question by the id that its caller gave, after waiting at most `wait` for its answer.
    pub async fn attach(
        &self,
        by: &Caller,
        correlation: &CorrelationId,
        wait: Duration,
    ) -> Result<AskState, Refused> {
        let (recorded, _) = self.find(by, correlation).await?;
        self.wait_for(by, &recorded, wait).await
    }

    /// The state of a question by its stored id, after waiting at most `wait` for its answer.
    pub async fn wait_for(
        &self,
        by: &Caller,
        recorded: &CorrelationId,
        wait: Duration,
    ) -> Result<AskState, Refused> {
        let until = self.background.timepiece.instant() + wait.min(LONGEST_WAIT);
        let mut waiter = self.waiters.wait(&by.tenant, recorded);
        loop {
            // Taken before the record is read, so that the deadline computed from `left` is never too late.
            let asked = self.background.timepiece.instant();
            let known = self.exchanges.exchange(&by.tenant, recorded).await?;
            let Some(exchange) = known.filter(|exchange| may_attach(by, exchange)) else {
                return Err(Refused::Absent);
            };
            if exchange.state == ExchangeState::Open && exchange.left.is_zero() {
                // The timeout is recorded before it is reported. An answer that is being stored at this moment
                // comes either before the timeout or late, and no caller sees both results.
                self.end_due().await?;
                continue;
            }
            if exchange.state != ExchangeState::Open {
                return ended(by, exchange);
            }
            if self.background.timepiece.instant() >= until {
                return Ok(still_open(by, &exchange));
            }
            tokio::select! {
                () = waiter.changed() => {}
                // Shutdown does not wait for answers.
                () = self.background.closing.cancelled() => return Ok(still_open(by, &exchange)),
                () = self.background.timepiece.sleep_until(until.min(asked + exchange.left)) => {}
            }
        }
    }

    /// Ends due questions, in a task of its own: a caller that hangs up must not cancel what follows the commit, which
    /// concerns other callers too.
    async fn end_due(&self) -> Result<(), Fault> {
        let deadlines = Arc::clone(&self.deadlines);
        let ended = self.background.tasks.spawn(async move { deadlines.end_due().await });
        completed(ended).await.unwrap_or(Err(ledger::Fault::Closed.into())).map(drop)
    }

    /// A page of the questions that this caller may see, newest first. Its `next` is for [`read_position`].
    pub async fn list(
        &self,
        by: &Caller,
        before: Option<(Moment, CorrelationId)>,
        limit: usize,
    ) -> Result<Page<Exchange>, Refused> {
        // An agent sees its own questions, a program of the tenant sees all of the tenant.
        let own = by.agent.as_ref().map(|_| &by.client);
        let one_more = u32::try_from(limit).unwrap_or(u32::MAX).saturating_add(1);
        let questions = self.exchanges.exchanges(&by.tenant, own, before, one_more).await?;
        Ok(Page::one_less(limit, questions, position)
            .map(|question| Exchange { correlation: shown_id(by, &question.correlation), ..question }))
    }

    /// The stored id of a question of this caller, and the question if it is stored.
    ///
    /// An agent must not learn which ids others use. If another caller uses an id, the agent's own question is stored
    /// as `ID#inst_…`.
    pub(crate) async fn find(
        &self,
        by: &Caller,
        said: &CorrelationId,
    ) -> Result<(CorrelationId, Option<Exchange>), Fault> {
        let Some(agent) = &by.agent else {
            return Ok((said.clone(), self.exchanges.exchange(&by.tenant, said).await?));
        };
        let own = CorrelationId::from(format!("{said}{OWN}{}", agent.id));
        if let Some(found) = self.exchanges.exchange(&by.tenant, &own).await? {
            return Ok((own, Some(found)));
        }
        match self.exchanges.exchange(&by.tenant, said).await? {
            Some(anothers) if !may_attach(by, &anothers) => Ok((own, None)),
            found => Ok((said.clone(), found)),
        }
    }

    /// Stores a new question with the receipt of its delivery. At most `most` questions of a tenant can be open.
    pub(crate) async fn open(
        &self,
        new: NewExchange,
        receipt: NewReceipt,
        most: u32,
    ) -> Result<AskResult, Fault> {
        let asked = self.exchanges.ask(new, receipt, most).await?;
        // The new question may have the earliest deadline.
        self.deadline_changed.notify_one();
        Ok(asked)
    }

    /// Records what an agent says in a conversation as the answer to its question, if it is one. The caller stores it
    /// with the receipt, then calls [`Answers::notify`].
    pub(crate) async fn offer(
        &self,
        by: &InstanceId,
        chat: &ChatId,
        text: &str,
        metadata: &Metadata,
    ) -> Result<(Option<Exchange>, ReplyKind), Fault> {
        let question = self.question_in(by, chat).await?;
        match question.filter(|question| is_answer(metadata, question)) {
            Some(question) => {
                let what = self.record(&question, text, self.background.timepiece.now().millis()).await?;
                Ok((Some(question), what))
            }
            None => Ok((None, ReplyKind::Said)),
        }
    }

    /// The question of this conversation, if it was put to this agent.
    pub(crate) async fn question_in(
        &self,
        of: &InstanceId,
        chat: &ChatId,
    ) -> Result<Option<Exchange>, Fault> {
        match names::is_question(chat) {
            true => Ok(self.exchanges.exchange_in(of, chat).await?),
            false => Ok(None),
        }
    }

    /// Records an answer and classifies it. The caller still has to notify those who wait.
    pub(crate) async fn record(
        &self,
        exchange: &Exchange,
        content: &str,
        sent_at: i64,
    ) -> Result<ReplyKind, Fault> {
        let (tenant, correlation) = (&exchange.tenant, &exchange.correlation);
        let answered = self
            .exchanges
            .answer(tenant, correlation, content, sent_at, self.background.timepiece.now())
            .await?;
        self.metrics.answered(answered);
        Ok(match answered {
            Answered::First => ReplyKind::Answer,
            Answered::Duplicate => ReplyKind::Duplicate,
            Answered::Late => ReplyKind::LateReply,
            Answered::Absent => ReplyKind::Said,
        })
    }

    /// Notifies the callers that wait for this question.
    pub(crate) fn notify(&self, exchange: &Exchange) {
        self.waiters.notify(&exchange.tenant, &exchange.correlation);
    }

    /// Notifies waiting callers after roster changes, until shutdown: removing an agent or connector also ends its
    /// questions.
    pub(crate) async fn watch_roster(&self, roster: &RosterView) {
        let mut roster = roster.watch();
        loop {
            let changed = tokio::select! {
                () = self.background.closing.cancelled() => return,
                changed = roster.changed() => changed,
            };
            match changed {
                Some(RosterChange::Tenant(tenant)) => self.waiters.notify_tenant(&tenant),
                Some(
                    RosterChange::Agent(_)
                    | RosterChange::Bot(_)
                    | RosterChange::Commands(_)
                    | RosterChange::Client(_)
                    | RosterChange::Author(..)
                    | RosterChange::Place(..)
                    | RosterChange::Login(_),
                ) => {}
                Some(RosterChange::Anything) => self.waiters.notify_all(),
                None => return,
            }
        }
    }
}

/// Whether this can be a stored id of a question: a caller's id, optionally followed by `#` and an agent's id.
pub(crate) fn is_recorded_id(text: &str) -> bool {
    is_dispatch_id(text.split_once(OWN).map_or(text, |(said, _)| said))
}

/// The id to show: to an agent as it gave it, to a program of the tenant as stored, because it sees the questions of
/// all agents.
fn shown_id(by: &Caller, recorded: &CorrelationId) -> CorrelationId {
    match recorded.as_str().split_once(OWN) {
        Some((said, _)) if by.agent.is_some() => said.into(),
        _ => recorded.clone(),
    }
}

/// The position of a question in the list of its tenant, as text.
fn position(question: &Exchange) -> String {
    format!("{}/{}", question.opened.millis(), question.correlation)
}

/// Reads a position that [`Answers::list`] has returned.
pub(crate) fn read_position(text: &str) -> Option<(Moment, CorrelationId)> {
    let (opened, id) = text.split_once('/')?;
    Some((Moment::from_millis(opened.parse().ok()?), CorrelationId::from(id)))
}

/// Whether a message is the answer to a question. An agent with our SDK echoes the correlation id. A stock agent does
/// not; of all messages of a turn it marks only the answer with `notify`.
fn is_answer(metadata: &Metadata, question: &Exchange) -> bool {
    match &metadata.correlation_id {
        Some(echoed) => *echoed == question.correlation,
        None => metadata.notify == Some(true),
    }
}

/// Whether this caller may attach to a question: the caller that asked, and programs of its tenant.
fn may_attach(by: &Caller, exchange: &Exchange) -> bool {
    exchange.caller == by.client || by.agent.is_none()
}

fn still_open(by: &Caller, exchange: &Exchange) -> AskState {
    AskState::Open { correlation_id: shown_id(by, &exchange.correlation), deadline: exchange.deadline }
}

/// The result of a question that has ended.
fn ended(by: &Caller, exchange: Exchange) -> Result<AskState, Refused> {
    let timeout_ms = exchange.deadline.millis() - exchange.opened.millis();
    match (exchange.state, exchange.answer) {
        (ExchangeState::Answered, Some((content, sent_at))) => Ok(AskState::Answered(Response {
            correlation_id: shown_id(by, &exchange.correlation),
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
    use posthouse_time::Moment;

    use super::{position, read_position};
    use crate::connector::ConnectorReply;
    use crate::requests::AskState;
    use crate::tests::fixtures::Fixture;

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

    #[tokio::test]
    async fn a_page_of_questions_goes_on_where_it_ended() {
        let fixture = Fixture::open().await;
        let question = fixture.question("q:1", Duration::from_secs(30)).await;
        let read = read_position(&position(&question));
        assert_eq!(read, Some((Moment::from_millis(question.opened.millis()), question.correlation)));
        assert_eq!(read_position("q"), None);
        assert_eq!(read_position("x/q"), None);
    }

    #[tokio::test]
    async fn a_caller_that_hangs_up_at_the_deadline_leaves_nobody_elses_question_half_ended() {
        let fixture = Fixture::open().await;
        let (answers, by) = (fixture.answers(), fixture.operator());
        for round in 0..20 {
            let ours = fixture.question(&format!("ours-{round}"), Duration::from_secs(30)).await;
            let theirs = fixture.question(&format!("theirs-{round}"), Duration::from_secs(30)).await;
            let mut other_caller = fixture.waiters.wait(&by.tenant, &theirs.correlation);
            fixture.time.wind(Duration::from_secs(31));
            let is_open = async || {
                let exchanges = fixture.ledger.exchanges();
                let found = exchanges.exchange(&by.tenant, &theirs.correlation).await.unwrap().unwrap();
                found.state == ledger::ExchangeState::Open
            };
            {
                let waiting = answers.wait_for(&by, &ours.correlation, Duration::from_secs(20));
                let mut waiting = std::pin::pin!(waiting);
                while is_open().await {
                    let _ = futures_util::poll!(&mut waiting);
                }
            }
            let notified = tokio::time::timeout(Duration::from_secs(60), other_caller.changed()).await;
            notified.expect("the other caller is notified although the first one hung up");
        }
    }
}

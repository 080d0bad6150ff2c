//! Deadlines of questions: ends questions in time, and answers them with what an agent has written so far.

use std::sync::Arc;
use std::time::Duration;

use ledger::{Answered, Exchange, ExchangeState, Exchanges, Receipts};
use posthouse_time::Timepiece;
use posthouse_wire::{ChatId, CorrelationId, InstanceId, TenantId};
use relay::Relay;
use tokio::sync::Notify;

use crate::answers::AnswerWaiters;
use crate::answers_in_progress::AnswersInProgress;
use crate::background::Background;
use crate::{Fault, Metrics};

/// Questions that are ended in one transaction.
const EXPIRED: u32 = 500;

/// Ends questions at their deadline. It knows which agents are still writing an answer.
pub struct Deadlines {
    exchanges: Arc<dyn Exchanges>,
    receipts: Arc<dyn Receipts>,
    relay: Relay,
    waiters: Arc<AnswerWaiters>,
    in_progress: AnswersInProgress,
    metrics: Arc<Metrics>,
    timepiece: Timepiece,
    /// Wakes the loop: a question may end sooner than expected.
    changed: Arc<Notify>,
}

impl Deadlines {
    pub(crate) fn new(
        exchanges: Arc<dyn Exchanges>,
        receipts: Arc<dyn Receipts>,
        relay: Relay,
        waiters: Arc<AnswerWaiters>,
        metrics: Arc<Metrics>,
        timepiece: Timepiece,
    ) -> Self {
        let (in_progress, changed) = (AnswersInProgress::default(), Arc::default());
        Self { exchanges, receipts, relay, waiters, in_progress, metrics, timepiece, changed }
    }

    /// To be notified when a question may end sooner than expected.
    pub(crate) fn changed(&self) -> &Arc<Notify> {
        &self.changed
    }

    /// An agent types in the conversation of a question.
    pub(crate) fn agent_types(&self, by: &InstanceId, chat: &ChatId) {
        self.in_progress.typed(by, chat, self.timepiece.instant());
    }

    /// An agent has shown a part of its answer.
    pub(crate) fn answer_begun(&self, by: &InstanceId, chat: &ChatId, to: &Exchange) {
        let question = (to.tenant.clone(), to.correlation.clone());
        self.in_progress.showed(by, chat, question, self.timepiece.instant());
        self.changed.notify_one();
    }

    pub(crate) fn answer_finished(&self, by: &InstanceId, chat: &ChatId) {
        self.in_progress.forget(by, chat);
    }

    /// Ends questions at their deadline, until shutdown.
    pub(crate) async fn run(&self, background: &Background) {
        let failure = "could not end questions past their deadline";
        background.repeat(failure, &self.changed, || self.end_due()).await;
    }

    /// Ends due questions, and returns the time until the next deadline.
    pub(crate) async fn end_due(&self) -> Result<Option<Duration>, Fault> {
        self.answer_with_shown_parts().await?;
        loop {
            let writing = self.in_progress.being_written(self.timepiece.instant());
            let ended = self.exchanges.expire(self.timepiece.now(), EXPIRED, writing).await?;
            if ended.is_empty() {
                let asked = self.timepiece.instant();
                let deadline = self.exchanges.next_deadline().await?;
                let now = self.timepiece.instant();
                let deadline = deadline.map(|left| (asked + left).since(now));
                let turn = self.in_progress.next_end(now);
                return Ok(deadline.into_iter().chain(turn).min());
            }
            for (tenant, correlation) in &ended {
                self.waiters.notify(tenant, correlation);
                if let Err(fault) = self.recall(tenant, correlation).await {
                    tracing::error!(%fault, "could not remove a timed-out question from the agent's inbox");
                }
            }
        }
    }

    /// Answers questions with the part of an answer that was shown, if the agent's turn is over.
    async fn answer_with_shown_parts(&self) -> Result<(), Fault> {
        for ((instance, chat), (tenant, correlation)) in self.in_progress.over(self.timepiece.instant()) {
            let now = self.timepiece.now();
            if self.exchanges.answer_with_begun(&tenant, &correlation, now).await? {
                self.metrics.answered(Answered::First);
                self.waiters.notify(&tenant, &correlation);
            }
            self.in_progress.forget(&instance, &chat);
        }
        Ok(())
    }

    /// Removes a timed-out question from the agent's inbox. The agent's turn would cost money, and nobody waits for the
    /// answer.
    async fn recall(&self, tenant: &TenantId, correlation: &CorrelationId) -> Result<(), Fault> {
        let Some(exchange) = self.exchanges.exchange(tenant, correlation).await? else { return Ok(()) };
        if let (Some(instance), Some(chat)) = (&exchange.instance, &exchange.chat) {
            self.in_progress.forget(instance, chat);
        }
        if exchange.state == ExchangeState::Answered {
            // At the deadline, the shown part of the answer became the answer.
            self.metrics.answered(Answered::First);
            return Ok(());
        }
        self.metrics.timed_out();
        let Some(instance) = &exchange.instance else { return Ok(()) };
        for receipt in self.receipts.receipts_of(Some(tenant), None, &exchange.dispatch).await? {
            if let Some(entry) = &receipt.entry {
                self.relay.inboxes().recall(instance, entry).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ledger::ExchangeState;

    use crate::tests::fixtures::Fixture;

    #[tokio::test]
    async fn a_question_ends_at_its_deadline_and_waiting_callers_are_notified() {
        let fixture = Fixture::open().await;
        let deadlines = fixture.deadlines();
        let question = fixture.question("q-1", Duration::from_secs(30)).await;
        let mut waiter = fixture.waiters.wait(&question.tenant, &question.correlation);
        assert_eq!(deadlines.end_due().await.unwrap(), Some(Duration::from_secs(30)));
        fixture.time.wind(Duration::from_secs(30));
        assert_eq!(deadlines.end_due().await.unwrap(), None);
        waiter.changed().await;
        let ended = fixture.ledger.exchanges().exchange(&question.tenant, &question.correlation).await;
        assert_eq!(ended.unwrap().unwrap().state, ExchangeState::TimedOut);
    }
}

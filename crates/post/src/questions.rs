//! Questions to agents (exchanges): stores a question and puts it to the agent by one connector.

use std::sync::Arc;
use std::time::Duration;

use ledger::{AskResult, Exchange, NewExchange, NewReceipt, ReceiptKey};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::CorrelationId;
use posthouse_wire::delivery::is_dispatch_id;
use tokio_util::task::TaskTracker;

use crate::answer_collector::AnswerCollector;
use crate::answers::Answers;
use crate::background::Background;
use crate::conversations::{LONGEST_TEXT, names};
use crate::directory::{DeliveryPath, Directory};
use crate::dispatch::{Dispatch, DispatchItem, digest};
use crate::dispatcher::Dispatcher;
use crate::requests::{AskCommand, LONGEST_TIMEOUT};
use crate::tenant_quotas::TenantQuotas;
use crate::{Caller, Refused};

/// The default lifetime of a question.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Puts questions to agents.
pub struct Questions {
    directory: Arc<Directory>,
    dispatcher: Arc<Dispatcher>,
    answers: Arc<Answers>,
    collector: Arc<AnswerCollector>,
    quotas: Arc<TenantQuotas>,
    timepiece: Timepiece,
    tasks: TaskTracker,
}

impl Questions {
    pub(crate) fn new(
        directory: Arc<Directory>,
        dispatcher: Arc<Dispatcher>,
        answers: Arc<Answers>,
        collector: Arc<AnswerCollector>,
        quotas: Arc<TenantQuotas>,
        background: &Background,
    ) -> Self {
        let (timepiece, tasks) = (background.timepiece.clone(), background.tasks.clone());
        Self { directory, dispatcher, answers, collector, quotas, timepiece, tasks }
    }

    /// Puts a question, or finds the same one put earlier, and returns its stored id.
    pub async fn ask(&self, by: &Caller, request: AskCommand) -> Result<CorrelationId, Refused> {
        if request.agent.contains('@') {
            return Err(Refused::ExchangeAddress);
        }
        if request.message.len() > LONGEST_TEXT {
            return Err(Refused::TooLong { field: "message", most: LONGEST_TEXT });
        }
        let said = &request.correlation_id;
        if !is_dispatch_id(said.as_str()) {
            return Err(Refused::malformed(
                "correlation_id",
                "must be 1 to 128 letters, digits, `.`, `_`, `:` or `-`",
            ));
        }
        loop {
            let (recorded, known) = self.answers.find(by, said).await?;
            // The same question again is found even if the agent was removed since.
            if known.is_some_and(|known| is_same(&known, by, &request)) {
                return Ok(recorded);
            }
            match self.ask_as(by, &request, &recorded).await {
                // Another caller took the id since it was looked up.
                Err(Refused::CorrelationInUse) if self.answers.find(by, said).await?.0 != recorded => {}
                asked => return asked.map(|()| recorded),
            }
        }
    }

    /// Stores the question under this id before anything is sent, then puts it.
    async fn ask_as(
        &self,
        by: &Caller,
        request: &AskCommand,
        recorded: &CorrelationId,
    ) -> Result<(), Refused> {
        let turn = self.quotas.turn_with_room(&by.tenant).await?;
        let (agent, connectors) = (request.agent.as_str(), request.connectors.as_deref());
        let path = self.directory.find_for_question(by, agent, connectors).await?;
        let to = path.instance.as_ref().map(|instance| &instance.id);
        self.quotas.message(&by.tenant, to).await.map_err(Refused::TooManyMessages)?;
        let now = self.timepiece.now();
        let (dispatch, item) = Dispatch::question(by, request, recorded, now);
        let deadline = now + request.timeout.unwrap_or(TIMEOUT).min(LONGEST_TIMEOUT);
        let new = self.record(&path, &dispatch, &request.message, recorded, deadline);
        let receipt = self.dispatcher.new_receipt(&path, &dispatch, &item);
        let asked = self.answers.open(new, receipt.clone(), self.quotas.open_questions()).await?;
        drop(turn);
        match asked {
            AskResult::Opened(key) => self.put((key, receipt), path, dispatch, item).await,
            // The first request stored its receipt too, so it was sent or will be.
            AskResult::Attached(_) => Ok(()),
            AskResult::InUse => Err(Refused::CorrelationInUse),
            AskResult::TooMany => Err(Refused::OverQuota("the tenant has too many open questions")),
        }
    }

    /// The record of a new question.
    fn record(
        &self,
        path: &DeliveryPath,
        dispatch: &Dispatch,
        message: &str,
        correlation: &CorrelationId,
        deadline: Moment,
    ) -> NewExchange {
        // An agent whose messages are stored here answers in a conversation, any other at a reply URL.
        let instance = path.instance.as_ref().map(|instance| instance.id.clone());
        let chat = instance.as_ref().map(|_| names::question_chat(correlation));
        let reply_token = instance.is_none().then(|| self.dispatcher.reply_token(dispatch));
        NewExchange {
            tenant: dispatch.tenant.clone(),
            correlation: correlation.clone(),
            caller: dispatch.sender.clone(),
            connector: path.name.clone(),
            agent: path.agent.clone(),
            instance,
            chat,
            dispatch: dispatch.id.clone(),
            digest: digest(&[&path.agent, message]),
            opened: dispatch.sent_at,
            deadline,
            reply_token,
            collected: path.connector.collects(),
        }
    }

    /// Puts a stored question. A receiver may delay its response until the deadline, so an attempt runs in the
    /// background. A question that is stored for the agent arrives at once, or is refused.
    async fn put(
        &self,
        (key, receipt): (ReceiptKey, NewReceipt),
        path: DeliveryPath,
        dispatch: Dispatch,
        item: DispatchItem,
    ) -> Result<(), Refused> {
        if path.storage().is_some() {
            let put = self.dispatcher.send_opened((key, receipt), &path, &dispatch, &item).await;
            if let (Err(Refused::InboxFull(_)), Some(correlation)) = (&put, item.correlation()) {
                self.answers.withdraw(&dispatch.tenant, correlation, key).await?;
            }
            return put.map(drop);
        }
        if path.connector.collects() {
            self.collector.question_opened();
        }
        let dispatcher = Arc::clone(&self.dispatcher);
        self.tasks.spawn(async move {
            let sent = dispatcher.send_opened((key, receipt), &path, &dispatch, &item).await;
            if let Err(Refused::Fault(fault)) = sent {
                tracing::error!(%fault, "could not record the delivery of a question: it will be sent again");
            }
        });
        Ok(())
    }
}

/// Whether this caller put the same question before.
fn is_same(known: &Exchange, by: &Caller, request: &AskCommand) -> bool {
    known.caller == by.client
        && known.agent == request.agent
        && known.digest == digest(&[&request.agent, &request.message])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ledger::ExchangeState;

    use crate::Refused;
    use crate::requests::AskCommand;
    use crate::tests::fixtures::Fixture;

    #[tokio::test]
    async fn a_question_is_stored_once_and_waits_in_the_inbox_of_its_agent() {
        let fixture = Fixture::open().await;
        let (questions, by) = (fixture.questions(), fixture.operator());
        let heron = fixture.enrol("heron").await;
        let request = |message: &str| AskCommand {
            agent: "heron".to_owned(),
            message: message.to_owned(),
            timeout: Some(Duration::from_secs(30)),
            correlation_id: "q-1".into(),
            event_type: None,
            connectors: None,
            from: None,
            trigger_kind: None,
            origin: None,
            dispatch_id: None,
        };
        for _ in 0..2 {
            assert_eq!(questions.ask(&by, request("how many?")).await.unwrap(), "q-1");
        }
        let stored = fixture.ledger.exchanges().exchange(&by.tenant, &"q-1".into()).await.unwrap().unwrap();
        assert_eq!((stored.state, stored.instance.as_ref()), (ExchangeState::Open, Some(&heron)));
        assert_eq!(fixture.ledger.inbox().size(&heron).await.unwrap().entries, 1);
        let other = questions.ask(&by, request("how much?")).await;
        assert!(matches!(other, Err(Refused::CorrelationInUse)), "{other:?}");
    }
}

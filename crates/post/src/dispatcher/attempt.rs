//! One attempt at a stored delivery by a connector, and its recorded result.

use ledger::{AttemptOutcome, DispatchVerb, ReceiptKey};
use posthouse_time::Moment;
use posthouse_wire::delivery::{Cause, DeliveryFailed, DeliveryReceipt, Payload, WakeReceipt};

use super::retry_pause::retry_pause;
use super::{Dispatcher, LEASE, OpenReceipt};
use crate::answers::QuestionStatus;
use crate::connector::{AskOutcome, ConnectorError, ExpectedReply};
use crate::directory::DeliveryPath;
use crate::dispatch::{Dispatch, DispatchItem};
use crate::requests::SentReceipt;
use crate::{Fault, Refused, receipt};

/// The largest number of attempts at one delivery.
const ATTEMPTS: u32 = 3;

impl Dispatcher {
    /// Makes one attempt and records its result. After a temporary failure the delivery stays queued, which the result
    /// states.
    pub(super) async fn attempt(
        &self,
        open: OpenReceipt,
        path: &DeliveryPath,
        dispatch: &Dispatch,
        item: &DispatchItem,
    ) -> Result<SentReceipt, Refused> {
        let attempt = self.holding(open.key, self.call(path, dispatch, item)).await;
        let failure = match attempt.map_err(ConnectorError::without_url_paths) {
            Ok(SentReceipt::Woken(woken)) if woken.nothing_sent => {
                return Ok(self.nothing_sent(open.key, path, woken).await?);
            }
            Ok(sent) => {
                let (at, answer) = (self.timepiece.now(), receipt::answer(&sent));
                self.receipts.attempted(open.key, AttemptOutcome::Delivered { at, answer }).await?;
                return Ok(sent);
            }
            Err(failure) => failure,
        };
        // A question that was answered has arrived, even if the delivery reported a failure.
        if let Some(QuestionStatus::Answered(at)) = self.question_status(dispatch, item).await? {
            return self.arrived(open.key, at).await;
        }
        let (failed, refused) = match failure {
            ConnectorError::Fault(fault) => return Err(fault.into()),
            ConnectorError::Failed(failed) => (failed.clone(), Refused::Failed(failed)),
            lacking @ ConnectorError::NotImplemented { .. } => {
                let why = lacking.to_string();
                (DeliveryFailed::client_validation(&path.agent, &why), Refused::NotImplemented(why))
            }
        };
        let retried = failed.may_pass()
            && matches!(refused, Refused::Failed(_))
            && item.verb() != DispatchVerb::Wake
            && path.connector.repeats_harmlessly()
            && open.attempts + 1 < ATTEMPTS;
        if retried {
            return Ok(self.postpone(open, &failed).await?);
        }
        // The question first: after a crash in between, the receipt is corrected from it.
        if let Some(correlation) = item.correlation() {
            self.answers.fail(&dispatch.tenant, correlation, &failed).await?;
        }
        let error = receipt::error(&failed);
        self.receipts.attempted(open.key, AttemptOutcome::Failed { error, answer: None }).await?;
        Err(refused)
    }

    /// Calls the connector once.
    async fn call(
        &self,
        path: &DeliveryPath,
        dispatch: &Dispatch,
        item: &DispatchItem,
    ) -> Result<SentReceipt, ConnectorError> {
        let (connector, agent) = (&path.connector, path.agent.as_str());
        match item {
            DispatchItem::Deliver { payload } => {
                connector.deliver(agent, payload).await.map(SentReceipt::Delivered)
            }
            DispatchItem::Wake { opts, .. } => {
                connector.wake(agent, opts, &dispatch.emission()).await.map(SentReceipt::Woken)
            }
            DispatchItem::Ask { payload } => {
                self.ask(path, dispatch, payload).await.map(SentReceipt::Delivered)
            }
        }
    }

    /// Puts a stored question by a connector, and stores the answer if it comes at once.
    async fn ask(
        &self,
        path: &DeliveryPath,
        dispatch: &Dispatch,
        payload: &Payload,
    ) -> Result<DeliveryReceipt, ConnectorError> {
        let agent = path.agent.as_str();
        let Some(correlation_id) = payload.meta.correlation_id.clone() else {
            return Err(DeliveryFailed::client_validation(agent, "the question has no correlation id").into());
        };
        let QuestionStatus::Open(exchange) = self.answers.status(&dispatch.tenant, &correlation_id).await?
        else {
            return Err(DeliveryFailed::client_validation(agent, "the question is not open").into());
        };
        let expected = ExpectedReply {
            correlation_id,
            timeout: exchange.left,
            reply_to: Some(self.reply_urls.url(&dispatch.tenant, &dispatch.id)),
        };
        let (receipt, reply) = match path.connector.request_response(agent, payload, &expected).await? {
            AskOutcome::Awaited(receipt) => return Ok(receipt),
            AskOutcome::Answer(receipt, reply) => (receipt, reply),
        };
        if let Err(fault) = self.answers.take(&exchange, reply).await {
            tracing::error!(%fault, "could not store the answer in a receiver's response");
            // The retry is safe: the receiver recognizes the dispatch id and repeats its answer.
            return Err(DeliveryFailed::new(agent, Cause::Network, "the answer could not be stored").into());
        }
        Ok(receipt)
    }

    /// The caller gets the receipt, but the delivery counts as failed because nothing was sent.
    async fn nothing_sent(
        &self,
        key: ReceiptKey,
        path: &DeliveryPath,
        mut woken: WakeReceipt,
    ) -> Result<SentReceipt, Fault> {
        if woken.warnings.is_empty() {
            let why = "the connector cannot interrupt, and there is no text to deliver";
            woken.warnings.push(why.to_owned());
        }
        let why = format!("nothing was sent: {}", woken.warnings.join("; "));
        let error = receipt::error(&DeliveryFailed::client_validation(&path.agent, why));
        let sent = SentReceipt::Woken(woken);
        let answer = Some(receipt::answer(&sent));
        self.receipts.attempted(key, AttemptOutcome::Failed { error, answer }).await?;
        Ok(sent)
    }

    /// Records a temporary failure. The delivery is due again after a pause.
    async fn postpone(&self, open: OpenReceipt, failed: &DeliveryFailed) -> Result<SentReceipt, Fault> {
        let queued = receipt::queued(open.accepted);
        let postponed = AttemptOutcome::Postponed {
            due: self.timepiece.now() + retry_pause(open.attempts, failed.retry_after),
            error: receipt::error(failed),
            answer: receipt::answer(&queued),
        };
        self.receipts.attempted(open.key, postponed).await?;
        self.postponed.notify_one();
        Ok(queued)
    }

    /// Records the delivery of a question whose answer proves that it arrived.
    pub(super) async fn arrived(&self, key: ReceiptKey, at: Moment) -> Result<SentReceipt, Refused> {
        let receipt = DeliveryReceipt { delivered_at: at.millis(), ..DeliveryReceipt::default() };
        let sent = SentReceipt::Delivered(receipt);
        let answer = receipt::answer(&sent);
        self.receipts.attempted(key, AttemptOutcome::Delivered { at, answer }).await?;
        Ok(sent)
    }

    /// Runs an attempt, and extends its lease so that nobody else makes the same attempt meanwhile.
    async fn holding<T>(&self, key: ReceiptKey, attempt: impl Future<Output = T>) -> T {
        tokio::pin!(attempt);
        // The pause counts from the last extension, however long the ledger took to store that one.
        let mut extended = self.timepiece.instant();
        loop {
            tokio::select! {
                attempted = &mut attempt => return attempted,
                () = self.timepiece.sleep_until(extended + LEASE / 3) => {}
            }
            extended = self.timepiece.instant();
            let until = self.timepiece.now() + LEASE;
            if let Err(fault) = self.receipts.hold(key, until).await {
                tracing::error!(%fault, "could not extend the lease of a delivery: it may be made twice");
            }
        }
    }
}

//! Questions at connectors: whether one is still to be sent, answers that come back, and failures.

use ledger::{Exchange, ExchangeState, NewReply, ReceiptKey, ReplyKind};
use posthouse_time::Moment;
use posthouse_wire::delivery::DeliveryFailed;
use posthouse_wire::{CorrelationId, MessageId, TenantId};

use super::Answers;
use crate::Fault;
use crate::connector::ConnectorReply;
use crate::dispatch::fresh_id;

/// Whether it is still useful to send a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QuestionStatus {
    Open(Box<Exchange>),
    Answered(Moment),
    /// Its deadline has passed, it failed, or it is not stored.
    Over,
}

impl Answers {
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
            ExchangeState::Answered => {
                QuestionStatus::Answered(found.ended.unwrap_or(self.background.timepiece.now()))
            }
            ExchangeState::Open if !found.left.is_zero() => QuestionStatus::Open(Box::new(found)),
            _ => QuestionStatus::Over,
        })
    }

    /// Stores an answer that came by a connector or by HTTP, with the receipt of the question, and notifies those who
    /// wait.
    pub(crate) async fn take(&self, exchange: &Exchange, reply: ConnectorReply) -> Result<ReplyKind, Fault> {
        let now = self.background.timepiece.now();
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

    /// Ends a question that could not be delivered.
    pub(crate) async fn fail(
        &self,
        tenant: &TenantId,
        correlation: &CorrelationId,
        failed: &DeliveryFailed,
    ) -> Result<(), Fault> {
        let error = crate::receipt::error(failed);
        self.exchanges.fail(tenant, correlation, &error, self.background.timepiece.now()).await?;
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
        self.exchanges.delete_unsent_question(tenant, correlation, receipt).await?;
        self.waiters.notify(tenant, correlation);
        Ok(())
    }
}

//! Answers to questions: validation of HTTP replies, which answer counts, and storage with the receipt.

use ledger::{Answered, Exchange, NewReply, ReplyKind};
use posthouse_wire::{CorrelationId, MessageId};
use serde::Deserialize;
use serde_json::Value;

use crate::connector::Answer;
use crate::connector::reply::millis;
use crate::conversation::LONGEST_TEXT;
use crate::exchange::fresh_id;
use crate::{Fault, Post, ReplyRefused};

impl Post {
    /// Checks that this reply token belongs to a question. Called before the body is read.
    pub(crate) async fn reply_expected(&self, token: &str) -> Result<(), ReplyRefused> {
        let hash = self.0.webhook_signer.reply_token_hash(token);
        let found = self.0.exchanges.exchange_of_token(hash).await;
        match found.map_err(|fault| ReplyRefused::Fault(fault.into()))? {
            Some(_) => Ok(()),
            None => Err(ReplyRefused::Absent),
        }
    }

    /// Accepts an answer sent to the reply URL of a question.
    pub async fn reply(&self, token: &str, signature: Option<&str>, body: &[u8]) -> Result<(), ReplyRefused> {
        let fault = |fault: Fault| ReplyRefused::Fault(fault);
        let hash = self.0.webhook_signer.reply_token_hash(token);
        let found = self.0.exchanges.exchange_of_token(hash).await.map_err(|f| fault(f.into()))?;
        let Some(exchange) = found else { return Err(ReplyRefused::Absent) };
        // The signature is checked before the body is parsed and before the answer reveals anything of the question.
        let record = self.0.connectors.connector(&exchange.tenant, &exchange.connector).await;
        let Some(record) = record.map_err(|f| fault(f.into()))? else { return Err(ReplyRefused::Absent) };
        let vouched = self.0.webhook_signer.vouches(&record.id, signature, body).await;
        if vouched.map_err(|f| fault(f.into()))? == Some(false) {
            return Err(ReplyRefused::BadSignature);
        }
        let Reply { correlation_id, agent_id, content, sent_at } = Reply::read(body)?;
        if correlation_id != exchange.correlation || agent_id != exchange.agent {
            tracing::warn!(correlation.id = %exchange.correlation, "dropped an answer that names another question or agent");
            return Err(ReplyRefused::Absent);
        }
        if content.len() > LONGEST_TEXT {
            return Err(ReplyRefused::TooLong { most: LONGEST_TEXT });
        }
        // An invalid time does not invalidate the answer.
        let answer = Answer { content, sent_at: millis(&sent_at) };
        match self.take_answer(&exchange, answer).await.map_err(fault)? {
            ReplyKind::Answer => Ok(()),
            ReplyKind::Duplicate => Err(ReplyRefused::Answered),
            ReplyKind::LateReply | ReplyKind::Said => Err(ReplyRefused::Absent),
        }
    }

    /// Stores an answer that came by a connector or by HTTP, with the receipt of the question.
    pub(crate) async fn take_answer(&self, exchange: &Exchange, answer: Answer) -> Result<ReplyKind, Fault> {
        let now = self.0.timepiece.now();
        let Answer { content, sent_at } = answer;
        let what = self.answered(exchange, &content, sent_at.unwrap_or(now.millis())).await?;
        let message = MessageId::new(fresh_id(now));
        let reply = NewReply { at: now, what, message, text: content, unfinished: false };
        // The answer itself is stored already, so a failure here does not lose it.
        if let Err(fault) = self.keep_reply(exchange, reply).await {
            tracing::error!(%fault, "could not store an answer with its receipt");
        }
        self.0.waiting.tell(&exchange.tenant, &exchange.correlation);
        Ok(what)
    }

    async fn keep_reply(&self, exchange: &Exchange, reply: NewReply) -> Result<(), Fault> {
        let receipts = self.0.receipts.receipts_of(Some(&exchange.tenant), None, &exchange.dispatch).await?;
        match receipts.first() {
            Some(receipt) => Ok(self.0.receipts.replied(receipt.key, reply).await?),
            None => Ok(()),
        }
    }

    /// Records an answer and classifies it. The caller still has to notify those who wait.
    pub(crate) async fn answered(
        &self,
        exchange: &Exchange,
        content: &str,
        sent_at: i64,
    ) -> Result<ReplyKind, Fault> {
        let (tenant, correlation) = (&exchange.tenant, &exchange.correlation);
        let now = self.0.timepiece.now();
        let answered = self.0.exchanges.answer(tenant, correlation, content, sent_at, now).await?;
        self.0.metrics.answered(answered);
        Ok(match answered {
            Answered::First => ReplyKind::Answer,
            Answered::Duplicate => ReplyKind::Duplicate,
            Answered::Late => ReplyKind::LateReply,
            Answered::Absent => ReplyKind::Said,
        })
    }
}

/// The body of an answer by HTTP.
#[derive(Deserialize)]
struct Reply {
    correlation_id: CorrelationId,
    agent_id: String,
    content: String,
    #[serde(default)]
    sent_at: Value,
}

impl Reply {
    fn read(body: &[u8]) -> Result<Self, ReplyRefused> {
        serde_json::from_slice(body).map_err(|fault| ReplyRefused::Malformed {
            field: "body",
            why: format!("cannot be read: {fault}"),
        })
    }
}

//! Answers by HTTP: an answer to a question, sent to its reply URL.

use std::sync::Arc;

use ledger::{Connectors, Exchanges, ReplyKind};
use posthouse_wire::{CorrelationId, TenantId};
use serde::Deserialize;
use serde_json::Value;
use vault::WebhookSigner;

use crate::answers::Answers;
use crate::connector::ConnectorReply;
use crate::connector::reply::millis;
use crate::conversations::LONGEST_TEXT;
use crate::{Fault, ReplyRefused};

/// Takes answers at reply URLs.
pub struct HttpReplies {
    exchanges: Arc<dyn Exchanges>,
    connectors: Arc<dyn Connectors>,
    webhook_signer: WebhookSigner,
    answers: Arc<Answers>,
}

impl HttpReplies {
    pub(crate) fn new(
        exchanges: Arc<dyn Exchanges>,
        connectors: Arc<dyn Connectors>,
        webhook_signer: WebhookSigner,
        answers: Arc<Answers>,
    ) -> Self {
        Self { exchanges, connectors, webhook_signer, answers }
    }

    /// The tenant of the question that this reply token belongs to. Called before the body is read.
    pub(crate) async fn tenant_of(&self, token: &str) -> Result<TenantId, ReplyRefused> {
        let hash = self.webhook_signer.reply_token_hash(token);
        let found = self.exchanges.exchange_of_token(hash).await;
        match found.map_err(|fault| ReplyRefused::Fault(fault.into()))? {
            Some(exchange) => Ok(exchange.tenant),
            None => Err(ReplyRefused::Absent),
        }
    }

    /// Accepts an answer sent to the reply URL of a question.
    pub async fn take(&self, token: &str, signature: Option<&str>, body: &[u8]) -> Result<(), ReplyRefused> {
        let fault = |fault: Fault| ReplyRefused::Fault(fault);
        let hash = self.webhook_signer.reply_token_hash(token);
        let found = self.exchanges.exchange_of_token(hash).await.map_err(|f| fault(f.into()))?;
        let Some(exchange) = found else { return Err(ReplyRefused::Absent) };
        // The signature is checked before the body is parsed and before the answer reveals anything of the question.
        let record = self.connectors.connector(&exchange.tenant, &exchange.connector).await;
        let Some(record) = record.map_err(|f| fault(f.into()))? else { return Err(ReplyRefused::Absent) };
        let is_valid = self.webhook_signer.check_signature(&record.id, signature, body).await;
        if is_valid.map_err(|f| fault(f.into()))? == Some(false) {
            return Err(ReplyRefused::BadSignature);
        }
        let HttpReply { correlation_id, agent_id, content, sent_at } = HttpReply::read(body)?;
        if correlation_id != exchange.correlation || agent_id != exchange.agent {
            tracing::warn!(correlation.id = %exchange.correlation, "dropped an answer that names another question or agent");
            return Err(ReplyRefused::Absent);
        }
        if content.len() > LONGEST_TEXT {
            return Err(ReplyRefused::TooLong { most: LONGEST_TEXT });
        }
        // An invalid time does not invalidate the answer.
        let reply = ConnectorReply { content, sent_at: millis(&sent_at) };
        match self.answers.take(&exchange, reply).await.map_err(fault)? {
            ReplyKind::Answer => Ok(()),
            ReplyKind::Duplicate => Err(ReplyRefused::Answered),
            ReplyKind::LateReply | ReplyKind::Said => Err(ReplyRefused::Absent),
        }
    }
}

/// The body of an answer by HTTP.
#[derive(Deserialize)]
struct HttpReply {
    correlation_id: CorrelationId,
    agent_id: String,
    content: String,
    #[serde(default)]
    sent_at: Value,
}

impl HttpReply {
    fn read(body: &[u8]) -> Result<Self, ReplyRefused> {
        serde_json::from_slice(body).map_err(|fault| ReplyRefused::Malformed {
            field: "body",
            why: format!("cannot be read: {fault}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::tests::fixtures::Fixture;

    #[tokio::test]
    async fn an_answer_is_taken_once_under_the_token_of_its_question() {
        let fixture = Fixture::open().await;
        let replies = fixture.http_replies();
        fixture.create_connector("hook", "webhook", &json!({ "agents": {} })).await;
        let question = fixture.question("q-1", Duration::from_secs(30)).await;
        let (token, _) = fixture.webhook_signer.reply_token(&question.tenant, &question.dispatch);
        let body = |agent: &str| {
            json!({ "correlation_id": "q-1", "agent_id": agent, "content": "42" }).to_string().into_bytes()
        };
        assert_eq!(replies.tenant_of(token.expose()).await.unwrap(), question.tenant);
        assert!(matches!(replies.tenant_of("unknown").await, Err(ReplyRefused::Absent)));
        let take = async |agent: &str| replies.take(token.expose(), None, &body(agent)).await;
        assert!(matches!(take("another").await, Err(ReplyRefused::Absent)));
        take("desk").await.unwrap();
        assert!(matches!(take("desk").await, Err(ReplyRefused::Answered)));
    }
}

//! Webhook connector: one signed POST for each delivery, wake or question. Redirects are not followed.

mod health;
mod request;
mod response;
mod retry_after;
mod settings;
mod wake;

use async_trait::async_trait;
use errand::Errand;
use posthouse_time::Timepiece;
use posthouse_wire::delivery::{
    AgentDescriptor, Cause, DeliveryFailed, DeliveryReceipt, Payload, WakeOpts, WakeReceipt, WakeTime,
};
use posthouse_wire::{ConnectorId, DispatchId, TenantId};
use serde_json::Value;
use vault::WebhookSigner;

use super::settings::{BadSettings, Tools};
use super::{AgentConnector, AskOutcome, ConnectorError, Emission, ExpectedReply, Features, reply};
use request::{WebhookRequest, shown};
use response::WebhookResponse;
use settings::WebhookSettings;
use wake::WebhookWake;

/// The largest response body that is read if no answer is expected in it.
const LARGEST_ANSWER: usize = 64 * 1024;

/// Agents that receive HTTP requests.
pub struct WebhookConnector {
    id: ConnectorId,
    tenant: TenantId,
    settings: WebhookSettings,
    errand: Errand,
    webhook_signer: WebhookSigner,
    timepiece: Timepiece,
}

impl WebhookConnector {
    pub const IMPLEMENTATION: &str = "webhook";
    pub(super) const FEATURES: Features = Features { agent_status: false, ..Features::ALL };

    pub(super) fn read(settings: &Value, with: Tools) -> Result<Self, BadSettings> {
        let settings = WebhookSettings::read(settings, &with.errand)?;
        let Tools { id, tenant, errand, webhook_signer, timepiece, .. } = with;
        Ok(Self { id, tenant, settings, errand, webhook_signer, timepiece })
    }

    async fn hand_over(
        &self,
        agent_id: &str,
        url: &str,
        body: Vec<u8>,
        dispatch_id: &DispatchId,
    ) -> Result<WebhookResponse, ConnectorError> {
        let timeout = self.settings.timeout;
        let request =
            WebhookRequest { agent_id, url, body, dispatch_id, timeout, max_answer: LARGEST_ANSWER };
        Ok(WebhookResponse::read(&self.post(request).await?.body))
    }
}

#[async_trait]
impl AgentConnector for WebhookConnector {
    fn implementation(&self) -> &'static str {
        Self::IMPLEMENTATION
    }

    fn features(&self) -> Features {
        Self::FEATURES
    }

    /// The receiver recognizes the dispatch id.
    fn repeats_harmlessly(&self) -> bool {
        true
    }

    async fn list_agents(&self) -> Result<Vec<AgentDescriptor>, ConnectorError> {
        Ok(self.settings.agents.descriptors())
    }

    async fn lists(&self, agent_id: &str) -> Result<bool, ConnectorError> {
        Ok(self.settings.agents.claims(agent_id))
    }

    async fn deliver(&self, agent_id: &str, payload: &Payload) -> Result<DeliveryReceipt, ConnectorError> {
        let receiver = self.settings.agents.exactly(agent_id)?;
        let body = payload.addressed(agent_id).json();
        let heard = self.hand_over(agent_id, &receiver.url, body, &payload.meta.dispatch_id).await?;
        Ok(heard.receipt(self.timepiece.now()))
    }

    async fn wake(
        &self,
        agent_id: &str,
        opts: &WakeOpts,
        emission: &Emission,
    ) -> Result<WakeReceipt, ConnectorError> {
        let meant = self.settings.agents.addressed(agent_id, opts.session_id.as_deref())?;
        let context = opts.context.as_deref().filter(|context| !context.is_empty());
        let Some(wake_url) = &meant.at.wake_url else {
            return self.wake_by_delivery(agent_id, &meant, context, emission).await;
        };
        let wake = WebhookWake {
            agent_id: meant.agent,
            session_id: meant.session,
            context,
            when: Some(opts.when).filter(|when| *when != WakeTime::Immediate),
            dispatch_id: &emission.dispatch_id,
            sent_at: emission.sent_at.millis(),
        };
        let body = serde_json::to_vec(&wake).expect("a wake contains only strings and numbers");
        let heard = self.hand_over(agent_id, wake_url, body, &emission.dispatch_id).await?;
        Ok(heard.woken(self.timepiece.now(), meant.session))
    }

    async fn health_check(&self) -> bool {
        self.check_receivers().await.is_ok()
    }

    async fn diagnose(&self) -> Result<(), String> {
        self.check_receivers().await
    }

    /// The receiver may answer in its response, so the request may last until the deadline of the question.
    async fn request_response(
        &self,
        agent_id: &str,
        payload: &Payload,
        question: &ExpectedReply,
    ) -> Result<AskOutcome, ConnectorError> {
        let receiver = self.settings.agents.exactly(agent_id)?;
        let request = WebhookRequest {
            agent_id,
            url: &receiver.url,
            body: payload.addressed(agent_id).replying_to(question.reply_to.as_deref()).json(),
            dispatch_id: &payload.meta.dispatch_id,
            timeout: question.timeout,
            max_answer: reply::LONGEST_JSON,
        };
        let answer = self.post(request).await?;
        let failed = |cause, why: &str| {
            let message = format!("the reply from {} {why}", shown(&receiver.url));
            ConnectorError::from(DeliveryFailed::new(agent_id, cause, message))
        };
        if !answer.whole {
            // The missing part may contain the reply, so this is not an awaited answer.
            return Err(match answer.body.len() {
                reply::LONGEST_JSON => failed(Cause::MalformedResponse, "is too long"),
                _ => failed(Cause::Network, "broke off"),
            });
        }
        let heard = WebhookResponse::read(&answer.body);
        let receipt = heard.receipt(self.timepiece.now());
        match heard.reply(agent_id, &question.correlation_id) {
            Ok(Some(answer)) => Ok(AskOutcome::Answer(receipt, answer)),
            Ok(None) => Ok(AskOutcome::Awaited(receipt)),
            Err(why) => Err(failed(Cause::MalformedResponse, why)),
        }
    }
}

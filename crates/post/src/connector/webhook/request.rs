//! One webhook request: signing, sending, and classification of failures.

use std::time::Duration;

use bytes::Bytes;
use errand::{OutgoingCall, Url};
use http::HeaderValue;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use posthouse_wire::DispatchId;
use posthouse_wire::delivery::{Cause, DeliveryFailed};

use super::super::ConnectorError;
use super::{WebhookConnector, retry_after};

/// A request to send.
pub(super) struct WebhookRequest<'a> {
    /// As the caller addressed it. Used in failures.
    pub agent_id: &'a str,
    pub url: &'a str,
    pub body: Vec<u8>,
    pub dispatch_id: &'a DispatchId,
    pub timeout: Duration,
    pub max_answer: usize,
}

impl WebhookConnector {
    /// Makes one attempt. Every status except 2xx is a failure.
    pub(super) async fn post(
        &self,
        request: WebhookRequest<'_>,
    ) -> Result<errand::CallResponse, ConnectorError> {
        let WebhookRequest { agent_id, url, body, dispatch_id, timeout, max_answer } = request;
        let attempt = self.timepiece.now().seconds();
        let standard = self.settings.standard_webhooks.then(|| (dispatch_id.as_str(), attempt));
        let webhook_signer =
            self.webhook_signer.headers(&self.id, &body, standard).await.map_err(|fault| {
                tracing::error!(connector.id = %self.id, %fault, "could not sign a delivery");
                DeliveryFailed::new(agent_id, Cause::Network, "the server cannot sign the request now")
            })?;
        let mut call = OutgoingCall::post(url, Bytes::from(body))
            .timeout(timeout)
            .max_answer(max_answer)
            .on_behalf_of(self.tenant.as_str());
        call.headers = webhook_signer;
        let call = call.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match self.errand.run(call).await {
            // A redirect is not followed, because the request was signed for this receiver.
            Ok(answer) if !answer.status.is_success() => {
                let status = answer.status.as_u16();
                let message = format!("HTTP {status} from {}", shown(url));
                let asked = answer.headers.get(RETRY_AFTER);
                let wait = asked.and_then(|asked| retry_after::wait(asked, self.timepiece.now()));
                Err(DeliveryFailed::http_status(agent_id, status, message).after(wait).into())
            }
            Ok(answer) => Ok(answer),
            Err(fault) => {
                let message = format!("no answer from {}: {fault}", shown(url));
                Err(DeliveryFailed::new(agent_id, cause(&fault), message).into())
            }
        }
    }
}

/// A URL without its query, which often contains a secret.
pub(super) fn shown(url: &str) -> String {
    match Url::parse(url) {
        Ok(url) => format!("{}{}", url.origin().ascii_serialization(), url.path()),
        Err(_) => "the receiver".to_owned(),
    }
}

fn cause(fault: &errand::Fault) -> Cause {
    match fault {
        errand::Fault::Refused(_) => Cause::ClientValidation,
        errand::Fault::TimedOut | errand::Fault::ConnectTimedOut => Cause::Timeout,
        _ => Cause::Network,
    }
}

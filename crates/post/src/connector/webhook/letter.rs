//! One request, from the stamping of its bytes to the naming of what went wrong.

use std::time::Duration;

use bytes::Bytes;
use errand::{Call, Url};
use http::HeaderValue;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use posthouse_wire::DispatchId;
use posthouse_wire::delivery::{Cause, DeliveryFailed};

use super::super::Undone;
use super::{Webhook, later};

/// One request about to be made.
pub(super) struct Letter<'a> {
    /// As it was addressed; named in failures.
    pub agent_id: &'a str,
    pub url: &'a str,
    pub body: Vec<u8>,
    pub dispatch_id: &'a DispatchId,
    pub timeout: Duration,
    pub max_answer: usize,
}

impl Webhook {
    /// One attempt. Everything but a 2xx is a failure.
    pub(super) async fn post(&self, letter: Letter<'_>) -> Result<errand::Answer, Undone> {
        let Letter { agent_id, url, body, dispatch_id, timeout, max_answer } = letter;
        let attempt = self.timepiece.now().seconds();
        let standard = self.settings.standard_webhooks.then(|| (dispatch_id.as_str(), attempt));
        let stamps = self.stamps.headers(&self.id, &body, standard).await.map_err(|fault| {
            tracing::error!(connector.id = %self.id, %fault, "could not stamp a delivery");
            DeliveryFailed::new(agent_id, Cause::Network, "the house cannot sign the request now")
        })?;
        let mut call = Call::post(url, Bytes::from(body)).timeout(timeout).max_answer(max_answer);
        call.headers = stamps;
        let call = call.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match self.errand.run(call).await {
            // A redirect is not followed: the bytes were signed for this receiver.
            Ok(answer) if !answer.status.is_success() => {
                let status = answer.status.as_u16();
                let message = format!("HTTP {status} from {}", shown(url));
                let asked = answer.headers.get(RETRY_AFTER);
                let wait = asked.and_then(|asked| later::wait(asked, self.timepiece.now()));
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

/// A URL as it may be told: a query often holds a secret.
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

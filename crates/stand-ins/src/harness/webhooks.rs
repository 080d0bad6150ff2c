//! Deliveries to the receiver's webhooks: repeated until accepted, doubled or reordered by faults.

use std::{collections::VecDeque, io, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Uri};
use serde::Serialize;

use super::{faults::CallFaultKind, state::Harness};

/// The most bytes of an answer that are read.
const MOST_ANSWER: usize = 1 << 20;

/// One attempt to deliver an event.
#[derive(Clone, Debug, Serialize)]
pub struct DeliveryAttempt {
    /// When it began, milliseconds since 1970.
    pub at_ms: i64,
    /// How long it took.
    pub took_ms: i64,
    /// Id of the account.
    pub account: String,
    /// Id of the event.
    pub event: String,
    /// 1 for the first.
    pub attempt: u32,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// Why there was no answer.
    pub error: Option<String>,
}

/// A request to a receiver.
pub(crate) struct OutgoingRequest {
    pub method: http::Method,
    pub url: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Bytes,
}

/// What a receiver answered.
pub(crate) struct ReceiverAnswer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Deliveries that a fault holds back.
#[derive(Default)]
pub(super) struct HeldDeliveries {
    waiting: VecDeque<Work>,
    hold: usize,
}

impl HeldDeliveries {
    pub fn forget(&mut self) {
        (self.waiting, self.hold) = (VecDeque::new(), 0);
    }
}

impl Harness {
    /// Runs a delivery in the background. `make` starts the work; a fault may start it twice or later.
    pub(crate) fn dispatch<W, F>(self: &Arc<Self>, account: &str, make: W)
    where
        W: Fn() -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        let fault = self.faults.lock().fault_for_delivery(account);
        if let Some(CallFaultKind::ReorderDeliveries { of }) = fault {
            self.held.lock().hold = of;
        }
        let complete = {
            let mut held = self.held.lock();
            if held.hold == 0 {
                None
            } else {
                held.waiting.push_back(Box::pin(make()));
                held.hold -= 1;
                Some(held.hold == 0)
            }
        };
        match complete {
            Some(true) => self.release_held(),
            Some(false) => {}
            None => {
                self.spawn(make());
                if fault == Some(CallFaultKind::DuplicateDelivery) {
                    self.spawn(make());
                }
            }
        }
    }

    /// Whether a fault delivers the next event of a socket twice.
    pub(crate) fn strikes_twice(&self, account: &str) -> bool {
        self.faults.lock().fault_for_delivery(account) == Some(CallFaultKind::DuplicateDelivery)
    }

    /// Runs in the background until it ends or the stand-in stops.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(self.stop.clone().run_until_cancelled_owned(work));
    }

    /// Sends held deliveries one after another, last first.
    pub(super) fn release_held(&self) {
        let held = {
            let mut held = self.held.lock();
            held.hold = 0;
            std::mem::take(&mut held.waiting)
        };
        self.spawn(async move {
            for work in held.into_iter().rev() {
                work.await;
            }
        });
    }

    /// Sends a request again after the pauses of the settings until `accepted` holds for its answer. `build` gets the
    /// number of the attempt, and the outcome of the one before.
    pub(crate) async fn deliver(
        &self,
        account: &str,
        event: &str,
        build: impl Fn(u32, Option<&Result<ReceiverAnswer, String>>) -> OutgoingRequest,
        accepted: impl Fn(&ReceiverAnswer) -> bool,
    ) -> Option<ReceiverAnswer> {
        let mut before: Option<Result<ReceiverAnswer, String>> = None;
        for attempt in 0..=self.settings.retries.len() {
            if let Some(pause) = attempt.checked_sub(1).and_then(|at| self.settings.retries.get(at)) {
                tokio::time::sleep(*pause).await;
            }
            let number = u32::try_from(attempt).unwrap_or(u32::MAX) + 1;
            let outcome = self.attempt(account, event, number, build(number, before.as_ref())).await;
            match outcome {
                Ok(answer) if accepted(&answer) => return Some(answer),
                outcome => before = Some(outcome),
            }
        }
        None
    }

    /// Sends a request once and records the attempt.
    pub(crate) async fn attempt(
        &self,
        account: &str,
        event: &str,
        attempt: u32,
        request: OutgoingRequest,
    ) -> Result<ReceiverAnswer, String> {
        let at_ms = self.now_ms();
        let outcome = self.send(request).await;
        let mut attempts = self.attempts.lock();
        if attempts.len() >= self.settings.transcript_rows {
            attempts.remove(0);
        }
        attempts.push(DeliveryAttempt {
            at_ms,
            took_ms: self.now_ms() - at_ms,
            account: account.to_owned(),
            event: event.to_owned(),
            attempt,
            status: outcome.as_ref().ok().map(|answer| answer.status),
            error: outcome.as_ref().err().cloned(),
        });
        drop(attempts);
        self.changed.notify_waiters();
        outcome
    }

    async fn send(&self, request: OutgoingRequest) -> Result<ReceiverAnswer, String> {
        if !request.url.parse::<Uri>().is_ok_and(|url| is_loopback(&url)) {
            return Err("the stand-in delivers to loopback only".to_owned());
        }
        let mut sending = self.http.request(request.method, &request.url).body(request.body);
        for (name, value) in request.headers {
            sending = sending.header(name, value);
        }
        // The URL may contain a secret of the server under test, so errors omit it.
        let mut answer = sending.send().await.map_err(|error| {
            let what = if error.is_timeout() {
                "no answer in time"
            } else if error.is_connect() {
                "connection refused"
            } else {
                "connection closed before the answer"
            };
            what.to_owned()
        })?;
        let mut body = Vec::new();
        while let Ok(Some(part)) = answer.chunk().await {
            body.extend_from_slice(&part);
            if body.len() > MOST_ANSWER {
                break;
            }
        }
        Ok(ReceiverAnswer {
            status: answer.status().as_u16(),
            headers: answer.headers().clone(),
            body: Bytes::from(body),
        })
    }
}

/// Whether a URL is on this machine.
pub(crate) fn is_loopback(url: &Uri) -> bool {
    let host = url.host().unwrap_or("").trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Webhooks are delivered to plain http on this machine. No certificate is trusted.
pub(super) fn client(timeout: Duration) -> io::Result<reqwest::Client> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(timeout)
        .build()
        .map_err(io::Error::other)
}

//! Client handle for programs.

use std::sync::Arc;
use std::time::Duration;

use posthouse_time::{Instant, Timepiece};
use posthouse_wire::DispatchId;
use posthouse_wire::delivery::Payload;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::call::{Call, Line};
use super::{
    Asked, Credential, Delivered, Fault, Listed, Listing, Notified, Notify, Page, Receipt, Wake, Woken,
};

/// Long enough for a server to restart.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends to agents through a server. Clones share the connection and the token.
#[derive(Clone)]
pub struct Client {
    pub(super) line: Arc<Line>,
    patience: Duration,
}

impl Client {
    /// `url` is the server's public URL, with a path if it has one. Nothing is called before the first
    /// request.
    pub fn new(url: &str, credential: Credential) -> Self {
        Self::with_timepiece(url, credential, Timepiece::wall())
    }

    /// Like [`Client::new`], with the caller's clock. It decides when tokens are renewed, how long pauses
    /// last and when questions time out.
    pub fn with_timepiece(url: &str, credential: Credential, timepiece: Timepiece) -> Self {
        Self { line: Arc::new(Line::new(url, credential, timepiece, None)), patience: PATIENCE }
    }

    /// Like [`Client::with_timepiece`], with `tls` instead of the machine's trusted certificates.
    pub fn with_tls(
        url: &str,
        credential: Credential,
        timepiece: Timepiece,
        tls: Arc<rustls::ClientConfig>,
    ) -> Self {
        Self { line: Arc::new(Line::new(url, credential, timepiece, Some(tls))), patience: PATIENCE }
    }

    /// Time for which a call is repeated while the server does not answer. Default: 30 s. Zero: never
    /// repeated.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sends a message to an agent. The same request sent again, by this client or by the caller, is
    /// delivered once.
    pub async fn notify(&self, request: &Notify) -> Result<Notified, Fault> {
        self.ask(|| Call::post("notify", request).keyed(&request.dispatch_id).waiting(request.wait)).await
    }

    /// Sends a complete envelope, which the server passes on unchanged. For runtimes that build their own.
    /// Empty `connectors` means all of them.
    pub async fn deliver(
        &self,
        agent: &str,
        payload: &Payload,
        connectors: &[String],
    ) -> Result<Delivered, Fault> {
        #[derive(Serialize)]
        struct Envelope<'a> {
            agent_id: &'a str,
            #[serde(flatten)]
            payload: &'a Payload,
            #[serde(skip_serializing_if = "<[String]>::is_empty")]
            connectors: &'a [String],
        }
        let envelope = Envelope { agent_id: agent, payload, connectors };
        self.ask(|| Call::post("deliver", &envelope)).await
    }

    /// Wakes an agent. The receipt says whether the agent has really been woken.
    pub async fn wake(&self, request: &Wake) -> Result<Woken, Fault> {
        self.ask(|| Call::post("wake", request).keyed(&request.dispatch_id).waiting(request.wait)).await
    }

    /// The receipts of what this program sent, newest first, one page at a time.
    pub async fn receipts(&self, listing: &Listing) -> Result<Page<Receipt>, Fault> {
        let Listing { agent, state, after, limit } = listing;
        self.ask(|| {
            Call::get(["receipts"])
                .asking("agent", agent.as_deref())
                .asking("state", state.map(|state| state.word()))
                .asking("after", after.as_deref())
                .asking("limit", *limit)
        })
        .await
    }

    /// The receipts of one dispatch: one for every connector that it reached.
    pub async fn receipt(&self, dispatch: &DispatchId) -> Result<Vec<Receipt>, Fault> {
        let page: Page<Receipt> = self.ask(|| Call::get(["receipts", dispatch.as_str()])).await?;
        Ok(page.items)
    }

    /// The questions of this program, newest first, one page at a time. Each with its state but without its
    /// answer, which [`attach`](Self::attach) fetches.
    pub async fn exchanges(&self, after: Option<&str>, limit: Option<u32>) -> Result<Page<Asked>, Fault> {
        self.ask(|| Call::get(["exchanges"]).asking("after", after).asking("limit", limit)).await
    }

    /// The agents that can be addressed, by name, one page at a time.
    pub async fn agents(&self, after: Option<&str>, limit: Option<u32>) -> Result<Page<Listed>, Fault> {
        self.ask(|| Call::get(["agents"]).asking("after", after).asking("limit", limit)).await
    }

    /// One agent, with its current status.
    pub async fn agent(&self, name: &str) -> Result<Listed, Fault> {
        self.ask(|| Call::get(["agents", name])).await
    }

    /// End of the repeats of a call that begins now.
    pub(super) fn enough(&self) -> Instant {
        self.line.timepiece.instant() + self.patience
    }

    async fn ask<T: DeserializeOwned>(&self, make: impl Fn() -> Call) -> Result<T, Fault> {
        self.line.call(self.enough(), |_| make()).await?.read()
    }
}

//! The handle that programs hold.

use std::sync::Arc;
use std::time::Duration;

use posthouse_time::{Moment, Timepiece};
use posthouse_wire::DispatchId;
use posthouse_wire::delivery::Payload;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::call::{Call, Line};
use super::{
    Asked, Credential, Delivered, Fault, Listed, Listing, Notified, Notify, Page, Receipt, Wake, Woken,
};

/// Long enough for a house to start again.
const PATIENCE: Duration = Duration::from_secs(30);

/// Writes to agents through a house. Clones share the connection and the token.
#[derive(Clone)]
pub struct Client {
    pub(super) line: Arc<Line>,
    patience: Duration,
}

impl Client {
    /// `url` is the house's own, with a path if it has one. Nothing is called before the first wish.
    pub fn new(url: &str, credential: Credential) -> Self {
        Self::with_timepiece(url, credential, Timepiece::wall())
    }

    /// As [`Client::new`], by a clock of the caller's: tokens are renewed, pauses made and questions given
    /// up by it.
    pub fn with_timepiece(url: &str, credential: Credential, timepiece: Timepiece) -> Self {
        Self { line: Arc::new(Line::new(url, credential, timepiece, None)), patience: PATIENCE }
    }

    /// As [`Client::with_timepiece`], trusting what `tls` trusts instead of what the machine does.
    pub fn with_tls(
        url: &str,
        credential: Credential,
        timepiece: Timepiece,
        tls: Arc<rustls::ClientConfig>,
    ) -> Self {
        Self { line: Arc::new(Line::new(url, credential, timepiece, Some(tls))), patience: PATIENCE }
    }

    /// How long a call is repeated while nobody answers it; 30 s unless said. Zero: never.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Tells an agent something. Repeating the same wish, here or by the caller, tells it once.
    pub async fn notify(&self, wish: &Notify) -> Result<Notified, Fault> {
        self.ask(|| Call::post("notify", wish).keyed(&wish.dispatch_id).waiting(wish.wait)).await
    }

    /// Hands over a complete envelope, which the house passes on as it is; for runtimes that make their
    /// own. Empty `connectors` means all of them.
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

    /// Gets an agent's attention; the receipt says whether it really was woken.
    pub async fn wake(&self, wish: &Wake) -> Result<Woken, Fault> {
        self.ask(|| Call::post("wake", wish).keyed(&wish.dispatch_id).waiting(wish.wait)).await
    }

    /// What became of what we sent, newest first, a page at a time.
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

    /// What became of one dispatch: a receipt for every connector that it reached.
    pub async fn receipt(&self, dispatch: &DispatchId) -> Result<Vec<Receipt>, Fault> {
        let page: Page<Receipt> = self.ask(|| Call::get(["receipts", dispatch.as_str()])).await?;
        Ok(page.items)
    }

    /// What we asked, newest first, a page at a time: how each question stands, without its answer, which
    /// [`attach`](Self::attach) fetches.
    pub async fn exchanges(&self, after: Option<&str>, limit: Option<u32>) -> Result<Page<Asked>, Fault> {
        self.ask(|| Call::get(["exchanges"]).asking("after", after).asking("limit", limit)).await
    }

    /// The agents that can be written to, by name, a page at a time.
    pub async fn agents(&self, after: Option<&str>, limit: Option<u32>) -> Result<Page<Listed>, Fault> {
        self.ask(|| Call::get(["agents"]).asking("after", after).asking("limit", limit)).await
    }

    /// One agent, with what it seems to be doing.
    pub async fn agent(&self, name: &str) -> Result<Listed, Fault> {
        self.ask(|| Call::get(["agents", name])).await
    }

    /// Until when a call that begins now is repeated.
    pub(super) fn enough(&self) -> Moment {
        self.line.timepiece.now() + self.patience
    }

    async fn ask<T: DeserializeOwned>(&self, make: impl Fn() -> Call) -> Result<T, Fault> {
        self.line.call(self.enough(), |_| make()).await?.read()
    }
}

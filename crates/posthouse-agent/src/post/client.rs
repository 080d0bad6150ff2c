//! Client handle for programs.

use std::sync::Arc;
use std::time::Duration;

use posthouse_time::Timepiece;
use posthouse_wire::DispatchId;
use posthouse_wire::delivery::Payload;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::call::{ApiRequest, CallLimits, HttpConnection};
use super::{
    AddressableAgent, ApiCredential, DeliverResponse, DispatchReceipt, Fault, ListPage, Notify,
    NotifyResponse, QuestionRecord, ReceiptQuery, Wake, WakeResponse,
};

/// Long enough for a server to restart.
const PATIENCE: Duration = Duration::from_secs(30);
/// Default time limit of one attempt.
const ATTEMPT: Duration = Duration::from_secs(30);

/// Sends to agents through a server. Clones share the connection and the token.
#[derive(Clone)]
pub struct Client {
    pub(super) connection: Arc<HttpConnection>,
    patience: Duration,
    attempt: Duration,
}

impl Client {
    /// `url` is the server's public URL, with a path if it has one. Nothing is called before the first
    /// request.
    pub fn new(url: &str, credential: ApiCredential) -> Self {
        Self::with_timepiece(url, credential, Timepiece::wall())
    }

    /// Like [`Client::new`], with the caller's clock. It decides when tokens are renewed, how long pauses
    /// last and when questions time out.
    pub fn with_timepiece(url: &str, credential: ApiCredential, timepiece: Timepiece) -> Self {
        Self::of(HttpConnection::new(url, credential, timepiece, None))
    }

    /// Like [`Client::with_timepiece`], with `tls` instead of the machine's trusted certificates.
    pub fn with_tls(
        url: &str,
        credential: ApiCredential,
        timepiece: Timepiece,
        tls: Arc<rustls::ClientConfig>,
    ) -> Self {
        Self::of(HttpConnection::new(url, credential, timepiece, Some(tls)))
    }

    fn of(connection: HttpConnection) -> Self {
        Self { connection: Arc::new(connection), patience: PATIENCE, attempt: ATTEMPT }
    }

    /// Time for which a call is repeated while the server does not answer. Default: 30 s. Zero: never
    /// repeated.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Time limit of one attempt of a call, in addition to the time that the server is asked to wait. Default: 30 s.
    /// Fetching an access token before it is extra, with a limit of 30 s.
    #[must_use]
    pub fn attempt_limit(mut self, limit: Duration) -> Self {
        self.attempt = limit;
        self
    }

    /// Fetches an access token now instead of with the first request. A wrong credential or an unreachable server is
    /// known then before anything is sent.
    pub async fn authenticate(&self) -> Result<(), Fault> {
        self.connection.authenticate(self.limits()).await
    }

    /// Sends a message to an agent. The same request sent again, by this client or by the caller, is
    /// delivered once.
    pub async fn notify(&self, request: &Notify) -> Result<NotifyResponse, Fault> {
        self.ask(|| ApiRequest::post("notify", request).keyed(&request.dispatch_id).waiting(request.wait))
            .await
    }

    /// Sends a complete envelope, which the server passes on unchanged. For runtimes that build their own.
    /// Empty `connectors` means all of them.
    pub async fn deliver(
        &self,
        agent: &str,
        payload: &Payload,
        connectors: &[String],
    ) -> Result<DeliverResponse, Fault> {
        #[derive(Serialize)]
        struct Envelope<'a> {
            agent_id: &'a str,
            #[serde(flatten)]
            payload: &'a Payload,
            #[serde(skip_serializing_if = "<[String]>::is_empty")]
            connectors: &'a [String],
        }
        let envelope = Envelope { agent_id: agent, payload, connectors };
        self.ask(|| ApiRequest::post("deliver", &envelope)).await
    }

    /// Wakes an agent. The receipt says whether the agent has really been woken.
    pub async fn wake(&self, request: &Wake) -> Result<WakeResponse, Fault> {
        self.ask(|| ApiRequest::post("wake", request).keyed(&request.dispatch_id).waiting(request.wait)).await
    }

    /// The receipts of what this program sent, newest first, one page at a time.
    pub async fn receipts(&self, listing: &ReceiptQuery) -> Result<ListPage<DispatchReceipt>, Fault> {
        let ReceiptQuery { agent, state, after, limit } = listing;
        self.ask(|| {
            ApiRequest::get(["receipts"])
                .asking("agent", agent.as_deref())
                .asking("state", state.map(|state| state.word()))
                .asking("after", after.as_deref())
                .asking("limit", *limit)
        })
        .await
    }

    /// The receipts of one dispatch: one for every connector that it reached.
    pub async fn receipt(&self, dispatch: &DispatchId) -> Result<Vec<DispatchReceipt>, Fault> {
        let page: ListPage<DispatchReceipt> =
            self.ask(|| ApiRequest::get(["receipts", dispatch.as_str()])).await?;
        Ok(page.items)
    }

    /// The questions of this program, newest first, one page at a time. Each with its state but without its
    /// answer, which [`question`](Self::question) and [`attach`](Self::attach) fetch.
    pub async fn exchanges(
        &self,
        after: Option<&str>,
        limit: Option<u32>,
    ) -> Result<ListPage<QuestionRecord>, Fault> {
        self.ask(|| ApiRequest::get(["exchanges"]).asking("after", after).asking("limit", limit)).await
    }

    /// The agents that can be addressed, by name, one page at a time.
    pub async fn agents(
        &self,
        after: Option<&str>,
        limit: Option<u32>,
    ) -> Result<ListPage<AddressableAgent>, Fault> {
        self.ask(|| ApiRequest::get(["agents"]).asking("after", after).asking("limit", limit)).await
    }

    /// One agent, with its current status.
    pub async fn agent(&self, name: &str) -> Result<AddressableAgent, Fault> {
        self.ask(|| ApiRequest::get(["agents", name])).await
    }

    /// Limits of a call that begins now.
    pub(super) fn limits(&self) -> CallLimits {
        let begun = self.connection.timepiece.instant();
        CallLimits { begun, until: begun + self.patience, attempt: self.attempt }
    }

    pub(super) async fn ask<T: DeserializeOwned>(&self, make: impl Fn() -> ApiRequest) -> Result<T, Fault> {
        self.connection.call(self.limits(), |_| make()).await?.read()
    }
}

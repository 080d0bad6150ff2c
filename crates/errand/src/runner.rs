//! Execution of outgoing calls.

use crate::lookup_threads::ON_BEHALF_OF;
use crate::resolve::CheckedResolver;
use crate::{CallResponse, Config, Fault, Lookup, OutgoingCall, SystemLookup, Url, UrlRefusal, target};
use bytes::{Bytes, BytesMut};
use reqwest::redirect::Policy;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::timeout;

/// Runs outgoing calls. Clones share connections.
#[derive(Clone)]
pub struct Errand {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    lookup: Arc<dyn Lookup>,
    /// Built at the first call: it loads the machine's root certificates, which a server without outgoing calls
    /// does not need.
    client: OnceLock<Result<reqwest::Client, String>>,
}

impl Errand {
    /// URLs longer than this are refused.
    pub const LONGEST_URL: usize = target::LONGEST;

    /// Creates a runner with `config` and the system's resolver.
    pub fn new(config: Config) -> Self {
        Self::with_lookup(config, Arc::new(SystemLookup::default()))
    }

    /// Same as [`Errand::new`], with `lookup` as resolver. The addresses that it finds are checked too.
    pub fn with_lookup(config: Config, lookup: Arc<dyn Lookup>) -> Self {
        Self { inner: Arc::new(Inner { config, lookup, client: OnceLock::new() }) }
    }

    /// Checks a URL without resolving its host, for the moment when somebody registers it. Returns the normalized URL
    /// that would be called.
    pub fn check(&self, url: &str) -> Result<Url, UrlRefusal> {
        target::read(url, &self.inner.config)
    }

    /// Same as [`Errand::check`], for a base URL to which paths will be appended. It must have no query.
    pub fn check_base(&self, url: &str) -> Result<Url, UrlRefusal> {
        let url = self.check(url)?;
        if url.query().is_some() { Err(UrlRefusal::Query) } else { Ok(url) }
    }

    /// Makes the call. Any status is a response. A [`Fault`] tells whether the request may have arrived.
    pub async fn run(&self, call: OutgoingCall) -> Result<CallResponse, Fault> {
        let url = self.check(&call.url)?;
        let Inner { config, .. } = &*self.inner;
        let limit = call.max_answer.unwrap_or(config.max_answer);
        let request = self.client()?.request(call.method, url).headers(call.headers);
        let request = if call.body.is_empty() { request } else { request.body(call.body) };
        let mut heard = None;
        let hearing = ON_BEHALF_OF.scope(call.tenant, hear(request, limit, &mut heard));
        let ended = timeout(call.timeout.unwrap_or(config.timeout), hearing).await;
        match (heard, ended) {
            // The status has arrived, and stays valid when the body stalls or is cut off.
            (Some(heard), ended) => Ok(heard.answer(matches!(ended, Ok(Ok(true))))),
            (None, Ok(Err(error))) => Err(Fault::of(&error)),
            (None, _) => Err(Fault::TimedOut),
        }
    }

    /// Makes the call and returns as soon as the response begins. Its body is read piece by piece, without a limit on its
    /// size. The time limit applies to the call until here, and to each piece.
    pub async fn open(&self, call: OutgoingCall) -> Result<OpenCall, Fault> {
        let url = self.check(&call.url)?;
        let limit = call.timeout.unwrap_or(self.inner.config.timeout);
        let request = self.client()?.request(call.method, url).headers(call.headers);
        let request = if call.body.is_empty() { request } else { request.body(call.body) };
        match timeout(limit, ON_BEHALF_OF.scope(call.tenant, request.send())).await {
            Ok(Ok(response)) => Ok(OpenCall { response, limit }),
            Ok(Err(error)) => Err(Fault::of(&error)),
            Err(_) => Err(Fault::TimedOut),
        }
    }

    fn client(&self) -> Result<&reqwest::Client, Fault> {
        let Inner { config, lookup, client } = &*self.inner;
        let client = client.get_or_init(|| {
            let checked =
                CheckedResolver { lookup: Arc::clone(lookup), allowed: config.allow_cidrs.as_slice().into() };
            let built = reqwest::Client::builder()
                .dns_resolver(Arc::new(checked))
                .redirect(Policy::none())
                .referer(false)
                .no_proxy()
                .user_agent("posthouse")
                .connect_timeout(config.connect_timeout)
                .pool_idle_timeout(config.keep_idle)
                .pool_max_idle_per_host(config.max_idle_per_host)
                .build();
            built.map_err(|error| error.to_string())
        });
        client.as_ref().map_err(|reason| Fault::Unready(reason.clone()))
    }
}

/// A call whose response has begun.
pub struct OpenCall {
    response: reqwest::Response,
    limit: Duration,
}

impl OpenCall {
    /// The status.
    pub fn status(&self) -> http::StatusCode {
        self.response.status()
    }

    /// The headers.
    pub fn headers(&self) -> &http::HeaderMap {
        self.response.headers()
    }

    /// The next piece of the body. `None` at its end.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, Fault> {
        match timeout(self.limit, self.response.chunk()).await {
            Ok(Ok(piece)) => Ok(piece),
            Ok(Err(error)) => Err(Fault::of(&error)),
            Err(_) => Err(Fault::TimedOut),
        }
    }
}

/// A response whose body is still being read.
struct OpenResponse {
    status: http::StatusCode,
    headers: http::HeaderMap,
    body: BytesMut,
}

impl OpenResponse {
    fn answer(self, whole: bool) -> CallResponse {
        CallResponse { status: self.status, headers: self.headers, body: self.body.freeze(), whole }
    }
}

/// Sends the request and reads until the body has ended (true) or has reached `limit` (false). The part that was
/// read is in `heard`, so that it survives when the caller's time limit ends first.
async fn hear(
    request: reqwest::RequestBuilder,
    limit: usize,
    heard: &mut Option<OpenResponse>,
) -> Result<bool, reqwest::Error> {
    let mut response = request.send().await?;
    let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
    let heard = heard.insert(OpenResponse { status, headers, body: BytesMut::new() });
    while let Some(chunk) = response.chunk().await? {
        let room = limit - heard.body.len();
        heard.body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            return Ok(false);
        }
    }
    Ok(true)
}

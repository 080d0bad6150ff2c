//! One HTTP call to the server, repeated while there is no answer.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Method, StatusCode, header};
use posthouse_time::{Instant, Timepiece};
use posthouse_wire::{DispatchId, Secret};
use reqwest::{RequestBuilder, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::Fault;
use crate::https::{self, BodyError};
use crate::token::{AccessTokens, ApiCredential, TOKEN_LIMIT};
use crate::transport::jittered;

/// Enough for a page of receipts with all their replies.
const LONGEST: usize = 32 << 20;
/// First pause before a call is repeated. Each further pause is twice as long.
const FIRST: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Connection to the server, shared by the clones of a client.
pub(super) struct HttpConnection {
    base: String,
    tls: Option<Arc<rustls::ClientConfig>>,
    client: OnceLock<Result<reqwest::Client, String>>,
    tokens: AccessTokens,
    pub(super) timepiece: Timepiece,
}

/// One HTTP request: method, path, query and body.
pub(super) struct ApiRequest {
    method: Method,
    path: Vec<String>,
    query: Vec<(&'static str, String)>,
    body: Option<Bytes>,
    key: Option<DispatchId>,
    /// Time that the server was asked to wait before it answers.
    wait: Duration,
    /// Whether the path is below `/v1`.
    versioned: bool,
}

/// How long a call is tried.
#[derive(Clone, Copy)]
pub(super) struct CallLimits {
    /// Time of the first attempt.
    pub(super) begun: Instant,
    /// End of the repeats.
    pub(super) until: Instant,
    /// Time limit of one attempt, in addition to the time that the server was asked to wait.
    pub(super) attempt: Duration,
}

impl CallLimits {
    /// The same for a call that must not be made twice.
    pub(super) fn without_repeats(self) -> Self {
        Self { until: self.begun, ..self }
    }
}

impl ApiRequest {
    pub(super) fn get<const N: usize>(path: [&str; N]) -> Self {
        Self::to(Method::GET, &path)
    }

    pub(super) fn post(verb: &str, body: &impl Serialize) -> Self {
        let body = serde_json::to_vec(body).expect("a request holds only texts, numbers and JSON values");
        Self { body: Some(body.into()), ..Self::to(Method::POST, &[verb]) }
    }

    /// A request with a body, or without one.
    pub(super) fn with_body(method: Method, path: &[&str], body: Option<&impl Serialize>) -> Self {
        let body = body.map(|body| serde_json::to_vec(body).expect("a request holds only JSON values"));
        Self { body: body.map(Bytes::from), ..Self::to(method, path) }
    }

    pub(super) fn to(method: Method, path: &[&str]) -> Self {
        let path = path.iter().map(|&name| name.to_owned()).collect();
        let (query, wait) = (Vec::new(), Duration::ZERO);
        Self { method, path, query, body: None, key: None, wait, versioned: true }
    }

    /// A call of a tool over JSON-RPC.
    pub(super) fn tool(name: &str, arguments: &impl Serialize) -> Self {
        let params = json!({ "name": name, "arguments": arguments });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        Self { versioned: false, ..Self::post("rpc", &body) }
    }

    pub(super) fn keyed(mut self, key: &DispatchId) -> Self {
        self.key = Some(key.clone());
        self
    }

    pub(super) fn waiting(mut self, wait: Option<Duration>) -> Self {
        self.wait = wait.unwrap_or_default();
        self
    }

    pub(super) fn asking(mut self, name: &'static str, value: Option<impl ToString>) -> Self {
        self.query.extend(value.map(|value| (name, value.to_string())));
        self
    }
}

/// The attempts of one call.
struct CallRepeats {
    /// Time of the current attempt.
    now: Instant,
    until: Instant,
    pause: Duration,
    /// Whether an earlier attempt may have reached the server.
    sent: bool,
}

impl CallRepeats {
    fn new(limits: CallLimits) -> Self {
        Self { now: limits.begun, until: limits.until, pause: FIRST, sent: false }
    }

    /// Pauses before the next attempt. Returns the fault if it will not pass, or if there is no time left.
    async fn pause(&mut self, mut fault: Fault, timepiece: &Timepiece) -> Result<(), Fault> {
        if let Fault::Unreachable { sent, .. } = &mut fault {
            self.sent |= *sent;
            *sent = self.sent;
        }
        let rest = jittered(self.pause);
        if !fault.may_pass() || timepiece.instant() + rest > self.until {
            return Err(fault);
        }
        tracing::debug!("{fault}; repeating the call in {rest:?}");
        timepiece.after(rest).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.now = timepiece.instant();
        Ok(())
    }
}

/// A successful response.
pub(super) struct ApiResponse {
    pub(super) status: StatusCode,
    body: BytesMut,
}

impl ApiResponse {
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        // An answer without content reads as null.
        let body: &[u8] = if self.body.is_empty() { b"null" } else { &self.body };
        serde_json::from_slice(body).map_err(|fault| Fault::Malformed(fault.to_string()))
    }
}

impl HttpConnection {
    pub(super) fn new(
        url: &str,
        credential: ApiCredential,
        timepiece: Timepiece,
        tls: Option<Arc<rustls::ClientConfig>>,
    ) -> Self {
        let base = url.trim_end_matches('/').to_owned();
        let tokens = AccessTokens::new(format!("{base}/oauth/token"), credential, timepiece.clone());
        Self { base, tls, client: OnceLock::new(), tokens, timepiece }
    }

    /// Calls, and repeats the call while the server is not reachable. `make` gets the time of each attempt.
    pub(super) async fn call(
        &self,
        limits: CallLimits,
        make: impl Fn(Instant) -> ApiRequest,
    ) -> Result<ApiResponse, Fault> {
        let mut repeats = CallRepeats::new(limits);
        loop {
            match self.once(&make(repeats.now), limits.attempt, &mut repeats.sent).await {
                Ok(answer) => return Ok(answer),
                Err(fault) => repeats.pause(fault, &self.timepiece).await?,
            }
        }
    }

    /// Fetches a token if there is none. Repeated like a call.
    pub(super) async fn authenticate(&self, limits: CallLimits) -> Result<(), Fault> {
        let mut repeats = CallRepeats::new(limits);
        loop {
            match self.tokens.current(self.client()?).await {
                Ok(_) => return Ok(()),
                Err(none) => repeats.pause(none.into(), &self.timepiece).await?,
            }
        }
    }

    fn client(&self) -> Result<&reqwest::Client, Fault> {
        let made = || https::client(&self.base, self.tls.as_ref(), TOKEN_LIMIT);
        self.client.get_or_init(made).as_ref().map_err(|why| Fault::Unusable(why.clone()))
    }

    /// Calls with the current token, and once more with a new one if the server no longer accepts it.
    /// Sets `sent` if the server may have carried out the call although it, or a proxy, refused it.
    async fn once(&self, call: &ApiRequest, limit: Duration, sent: &mut bool) -> Result<ApiResponse, Fault> {
        let (client, url) = (self.client()?, self.url(call)?);
        let mut token = self.tokens.current(client).await?;
        let mut renewed = false;
        loop {
            let (status, body) = send(request(client, &url, call, &token, limit)).await?;
            if status.is_success() {
                return Ok(ApiResponse { status, body });
            }
            if status == StatusCode::UNAUTHORIZED
                && !renewed
                && let Some(fresh) = self.tokens.instead_of(&token, client).await?
            {
                (token, renewed) = (fresh, true);
                continue;
            }
            *sent |= status.is_server_error();
            return Err(Fault::of(status, &body));
        }
    }

    fn url(&self, call: &ApiRequest) -> Result<Url, Fault> {
        let mut url = Url::parse(&self.base)
            .map_err(|_| Fault::Unusable("the server address is not a valid URL".to_owned()))?;
        // Such a segment would change the path, even when it is escaped.
        if let Some(name) = call.path.iter().find(|name| matches!(name.as_str(), "" | "." | "..")) {
            return Err(Fault::Unusable(format!("`{name}` is not a valid name")));
        }
        let mut path = url
            .path_segments_mut()
            .map_err(|()| Fault::Unusable("the server address is not a valid URL".to_owned()))?;
        path.pop_if_empty().extend(call.versioned.then_some("v1")).extend(&call.path);
        drop(path);
        if !call.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&call.query);
        }
        Ok(url)
    }
}

fn request(
    client: &reqwest::Client,
    url: &Url,
    call: &ApiRequest,
    token: &Secret,
    limit: Duration,
) -> RequestBuilder {
    let mut request = client.request(call.method.clone(), url.clone()).bearer_auth(token.expose());
    request = request.timeout(limit.saturating_add(call.wait));
    if let Some(key) = &call.key {
        request = request.header(IDEMPOTENCY_KEY, key.as_str());
    }
    match &call.body {
        Some(body) => request.header(header::CONTENT_TYPE, "application/json").body(body.clone()),
        None => request,
    }
}

async fn send(request: RequestBuilder) -> Result<(StatusCode, BytesMut), Fault> {
    let response = request.send().await.map_err(|fault| match fault.is_builder() {
        true => Fault::Unusable(https::in_words(fault)),
        false => Fault::Unreachable { sent: !fault.is_connect(), why: https::in_words(fault) },
    })?;
    let status = response.status();
    let body = https::body(response, LONGEST).await.map_err(|error| match error {
        BodyError::Broken(why) => Fault::Unreachable { why, sent: true },
        BodyError::TooLong(_) => Fault::Malformed(error.to_string()),
    })?;
    Ok((status, body))
}

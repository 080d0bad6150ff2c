//! Request and response of an outgoing call.

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// One outgoing HTTP request. Its `Debug` output omits URL, headers and body, because each may contain a secret.
#[derive(Clone)]
pub struct OutgoingCall {
    /// The method.
    pub method: Method,
    /// The URL as it was given. It is checked before the call.
    pub url: String,
    /// Headers in addition to those that HTTP requires.
    pub headers: HeaderMap,
    /// The body; empty for none.
    pub body: Bytes,
    /// Time limit for the whole call. `None`: the configured limit.
    pub timeout: Option<Duration>,
    /// Maximum number of bytes read from the response body. `None`: the configured limit.
    pub max_answer: Option<usize>,
    /// Tenant for whom the call is made. Concurrent DNS lookups are limited per tenant. `None`: per host.
    pub tenant: Option<Arc<str>>,
}

impl OutgoingCall {
    /// A call without headers and body.
    pub fn new(method: Method, url: impl Into<String>) -> Self {
        let (headers, body) = (HeaderMap::new(), Bytes::new());
        Self { method, url: url.into(), headers, body, timeout: None, max_answer: None, tenant: None }
    }

    /// A GET.
    pub fn get(url: impl Into<String>) -> Self {
        Self::new(Method::GET, url)
    }

    /// A POST of `body`.
    pub fn post(url: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), ..Self::new(Method::POST, url) }
    }

    /// Sets this header and replaces an earlier value of the same name.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Sets the time limit for the whole call.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the tenant for whom the call is made.
    #[must_use]
    pub fn on_behalf_of(mut self, tenant: &str) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Limits how many bytes of the response body are read.
    #[must_use]
    pub fn max_answer(mut self, bytes: usize) -> Self {
        self.max_answer = Some(bytes);
        self
    }
}

impl fmt::Debug for OutgoingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("method", &self.method)
            .field("body", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// The response. Every status counts as a response, including redirects.
#[derive(Clone)]
pub struct CallResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, or its beginning.
    pub body: Bytes,
    /// False when the body exceeded the limit or was cut off. The status is valid in both cases.
    pub whole: bool,
}

impl fmt::Debug for CallResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = self.body.len();
        f.debug_struct("Answer")
            .field("status", &self.status)
            .field("body", &body)
            .field("whole", &self.whole)
            .finish()
    }
}

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use std::fmt;
use std::time::Duration;

/// One call to be made. Prints without URL, headers and body, any of which may hold a secret.
#[derive(Clone)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// Where to, as it was named; checked before the call.
    pub url: String,
    /// Headers beside those that HTTP itself asks for.
    pub headers: HeaderMap,
    /// The body; empty for none.
    pub body: Bytes,
    /// From start to end. `None`: as configured.
    pub timeout: Option<Duration>,
    /// How much of the answer's body is read. `None`: as configured.
    pub max_answer: Option<usize>,
}

impl Call {
    /// A call without headers and body.
    pub fn new(method: Method, url: impl Into<String>) -> Self {
        let (headers, body) = (HeaderMap::new(), Bytes::new());
        Self { method, url: url.into(), headers, body, timeout: None, max_answer: None }
    }

    /// A GET.
    pub fn get(url: impl Into<String>) -> Self {
        Self::new(Method::GET, url)
    }

    /// A POST of `body`.
    pub fn post(url: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), ..Self::new(Method::POST, url) }
    }

    /// With this header, instead of any other of the name.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// With this much time from start to end.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Reading at most this much of the answer's body.
    #[must_use]
    pub fn max_answer(mut self, bytes: usize) -> Self {
        self.max_answer = Some(bytes);
        self
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("method", &self.method)
            .field("body", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// What the other side said. Every status is an answer, redirects too.
#[derive(Clone)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, or its beginning.
    pub body: Bytes,
    /// False when the body is longer than was asked for, or broke off. The status holds all the same.
    pub whole: bool,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = self.body.len();
        f.debug_struct("Answer")
            .field("status", &self.status)
            .field("body", &body)
            .field("whole", &self.whole)
            .finish()
    }
}

//! Errors of outgoing calls: refusals by policy and network failures.

use std::net::IpAddr;

/// Reason why a URL is not called. Nothing was sent. A retry fails again unless the host resolves differently.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlRefusal {
    /// Not an absolute URL, or one with blanks, control characters or backslashes in it.
    #[error("not a well-formed URL")]
    NotAUrl,
    /// Longer than [`crate::Errand::LONGEST_URL`] bytes.
    #[error("the URL is longer than 2048 bytes")]
    TooLong,
    /// Neither http nor https.
    #[error("only http and https URLs are called")]
    Scheme,
    /// http, and the operator has not allowed it.
    #[error("only https URLs are called (errand.allow_http is not set)")]
    PlainHttp,
    /// A user name or password before the host.
    #[error("credentials in a URL are not accepted")]
    Credentials,
    /// The URL has a fragment (`#…`), which is never sent to a server.
    #[error("a URL with a fragment is not accepted")]
    Fragment,
    /// The URL has a query (`?…`) although paths will be appended to it.
    #[error("a URL with a query is not accepted here")]
    Query,
    /// Port 0.
    #[error("port 0 cannot be called")]
    Port,
    /// The host is, or resolves to, an address that is neither public nor listed. The variant keeps the address for
    /// callers that may see it. The text omits it, because what a name resolves to may be a secret of the network.
    #[error("the host has an address that is not public (errand.allow_cidrs lists the exceptions)")]
    Address(IpAddr),
}

/// Reason why there is no response. [`Fault::nothing_was_sent`] tells whether the request may have arrived.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Refused by policy.
    #[error("refused by policy: {0}")]
    Refused(#[from] UrlRefusal),
    /// The HTTP client could not be built, most likely because the machine has no root certificates.
    #[error("outgoing calls are not possible: {0}")]
    Unready(String),
    /// The host has no address.
    #[error("the host could not be resolved")]
    Unresolved,
    /// The host refused the connection.
    #[error("connection refused")]
    ConnectionRefused,
    /// The connection was not established within `connect_timeout`.
    #[error("timed out while connecting")]
    ConnectTimedOut,
    /// The connection failed for another reason: no route, a reset, or a failed TLS handshake.
    #[error("could not connect: {0}")]
    Unreachable(String),
    /// No response within the time limit of the call. The request may have arrived.
    #[error("timed out")]
    TimedOut,
    /// The connection broke before a response arrived. The request may have arrived.
    #[error("the connection broke: {0}")]
    Broken(String),
}

impl Fault {
    /// True when certainly no byte of the request was sent. Otherwise the receiver may have acted on it.
    pub fn nothing_was_sent(&self) -> bool {
        !matches!(self, Self::TimedOut | Self::Broken(_))
    }

    /// Whether a retry of the same call may succeed.
    pub fn may_pass(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }

    pub(crate) fn of(error: &reqwest::Error) -> Self {
        if let Some(refusal) = cause::<UrlRefusal>(error) {
            return Self::Refused(refusal.clone());
        }
        if error.is_connect() {
            return Self::of_connection(error);
        }
        if error.is_timeout() { Self::TimedOut } else { Self::Broken(root(error)) }
    }

    fn of_connection(error: &reqwest::Error) -> Self {
        if error.is_timeout() {
            return Self::ConnectTimedOut;
        }
        if error.is_dns() {
            return Self::Unresolved;
        }
        match cause::<std::io::Error>(error).map(std::io::Error::kind) {
            Some(std::io::ErrorKind::ConnectionRefused) => Self::ConnectionRefused,
            _ => Self::Unreachable(root(error)),
        }
    }
}

fn chain(error: &reqwest::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(std::error::Error::source(error), |error| error.source())
}

fn cause<E: std::error::Error + 'static>(error: &reqwest::Error) -> Option<&E> {
    chain(error).find_map(|error| error.downcast_ref())
}

/// The innermost error. The outer error texts contain the URL, which may contain a secret.
fn root(error: &reqwest::Error) -> String {
    chain(error).last().map_or_else(|| "no reason given".to_owned(), ToString::to_string)
}

//! Failures of remote stores: no answer, a late answer, or an unusable one.

/// Why a remote store did not do what it was asked. No text contains its address or anything that it sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreFailure {
    #[error("the remote store was not reached: {why}")]
    Unreachable { why: String },
    #[error("the remote store did not answer in time. A write may have taken place.")]
    TimedOut,
    #[error("the remote store answered with status {status}")]
    Status { status: u16 },
    #[error("the answer of the remote store cannot be used: {why}")]
    BadAnswer { why: String },
    #[error("too many requests of this tenant wait for its remote store. Try again.")]
    Busy,
}

impl StoreFailure {
    /// The error class of the contract.
    pub fn class(&self) -> &'static str {
        match self {
            Self::TimedOut => "TimeoutError",
            _ => "Error",
        }
    }

    /// The code in error responses: stable, in snake case.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "store_unreachable",
            Self::TimedOut => "store_timeout",
            Self::Status { .. } => "store_failed",
            Self::BadAnswer { .. } => "store_bad_answer",
            Self::Busy => "too_many_requests",
        }
    }

    /// The status of the response to the client.
    pub fn http_status(&self) -> http::StatusCode {
        match self {
            Self::TimedOut => http::StatusCode::GATEWAY_TIMEOUT,
            Self::Busy => http::StatusCode::TOO_MANY_REQUESTS,
            Self::Unreachable { .. } | Self::Status { .. } | Self::BadAnswer { .. } => {
                http::StatusCode::BAD_GATEWAY
            }
        }
    }

    pub(crate) fn bad_answer(why: impl Into<String>) -> Self {
        Self::BadAnswer { why: why.into() }
    }
}

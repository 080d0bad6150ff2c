//! Problem Details (RFC 9457) answers of the admin API.

use std::borrow::Cow;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

/// A refusal as `application/problem+json`, with a stable code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: Cow<'static, str>,
}

impl Problem {
    pub const UNAUTHORIZED: Problem =
        Problem::fixed(StatusCode::UNAUTHORIZED, "unauthorized", "the admin token is missing or wrong");
    pub const TOO_MANY: Problem = Problem::fixed(
        StatusCode::TOO_MANY_REQUESTS,
        "slow_down",
        "too many wrong admin tokens from this address: try again later",
    );
    pub const NOT_FOUND: Problem =
        Problem::fixed(StatusCode::NOT_FOUND, "not_found", "there is nothing at this path");
    pub const METHOD: Problem = Problem::fixed(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "this path does not support that method",
    );
    pub const TOO_LARGE: Problem =
        Problem::fixed(StatusCode::PAYLOAD_TOO_LARGE, "too_large", "the body is larger than 256 KiB");

    const fn fixed(status: StatusCode, code: &'static str, detail: &'static str) -> Self {
        Self { status, code, detail: Cow::Borrowed(detail) }
    }

    /// The request cannot be parsed.
    pub fn malformed(detail: impl Into<Cow<'static, str>>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, code: "malformed", detail: detail.into() }
    }

    /// The object that the request names does not exist.
    pub fn absent(code: &'static str, detail: String) -> Self {
        Self { status: StatusCode::NOT_FOUND, code, detail: detail.into() }
    }

    /// The request conflicts with the current state.
    pub fn conflict(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { status: StatusCode::CONFLICT, code, detail: detail.into() }
    }

    /// The request can be parsed but not carried out.
    pub fn unfit(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { status: StatusCode::UNPROCESSABLE_ENTITY, code, detail: detail.into() }
    }

    fn fault(fault: &dyn std::fmt::Display, full: bool) -> Self {
        tracing::error!(%fault, "the admin API failed to serve a request");
        match full {
            true => Self::fixed(
                StatusCode::SERVICE_UNAVAILABLE,
                "disk_full",
                "the disk that holds the ledger is full: nothing was changed",
            ),
            false => Self::fixed(
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                "the server cannot do this now: see its log",
            ),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or("Refused"),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
        });
        let mut response = (self.status, Json(body)).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}

/// Faults are logged where they become an answer; the answer does not contain their details.
impl From<ledger::Fault> for Problem {
    fn from(fault: ledger::Fault) -> Self {
        Problem::fault(&fault, matches!(fault, ledger::Fault::Full))
    }
}

impl From<relay::Fault> for Problem {
    fn from(fault: relay::Fault) -> Self {
        match fault {
            relay::Fault::Ledger(fault) => fault.into(),
            relay::Fault::Identity(fault) => fault.into(),
        }
    }
}

impl From<identity::Fault> for Problem {
    fn from(fault: identity::Fault) -> Self {
        match fault {
            identity::Fault::Ledger(fault) => fault.into(),
            identity::Fault::Vault(fault) => Problem::fault(&fault, false),
        }
    }
}

impl From<clock::Fault> for Problem {
    fn from(fault: clock::Fault) -> Self {
        match fault {
            clock::Fault::Ledger(fault) => fault.into(),
            clock::Fault::Identity(fault) => fault.into(),
            clock::Fault::Vault(fault) => Problem::fault(&fault, false),
        }
    }
}

impl From<edge::Fault> for Problem {
    fn from(fault: edge::Fault) -> Self {
        match fault {
            edge::Fault::Ledger(fault) => fault.into(),
            edge::Fault::Relay(fault) => fault.into(),
            edge::Fault::Identity(fault) => fault.into(),
            edge::Fault::Vault(fault) => Problem::fault(&fault, false),
        }
    }
}

impl From<post::Fault> for Problem {
    fn from(fault: post::Fault) -> Self {
        match fault {
            post::Fault::Ledger(fault) => fault.into(),
            post::Fault::Vault(fault) => Problem::fault(&fault, false),
            post::Fault::Identity(fault) => fault.into(),
            post::Fault::Relay(fault) => fault.into(),
            post::Fault::Clock(fault) => fault.into(),
        }
    }
}

impl From<post::Refused> for Problem {
    fn from(refused: post::Refused) -> Self {
        use post::Refused;
        let detail = refused.to_string();
        match refused {
            Refused::Fault(fault) => fault.into(),
            Refused::Absent => Problem::absent("not_found", detail),
            Refused::Malformed { .. } | Refused::TooLong { .. } | Refused::ExchangeAddress => {
                Problem::unfit("invalid_request", detail)
            }
            Refused::Failed(_)
            | Refused::Unanswered(_)
            | Refused::NotImplemented(_)
            | Refused::TimedOut { .. } => Problem::unfit("delivery_failed", detail),
            Refused::CorrelationInUse | Refused::OverQuota(_) | Refused::InboxFull(_) => {
                Problem::conflict("refused", detail)
            }
        }
    }
}

//! Problem Details (RFC 9457) answers of the admin API.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http_kit::Problem;

/// A [`Problem`] of the admin API, made from the faults and refusals of the planes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AdminProblem(Problem);

impl AdminProblem {
    /// The same at every path that needs the admin token.
    pub const UNAUTHORIZED: AdminProblem = AdminProblem(
        Problem::fixed(StatusCode::UNAUTHORIZED, "unauthorized", "the admin token is missing or wrong")
            .challenge("Bearer"),
    );
    pub const TOO_MANY: AdminProblem = AdminProblem(
        Problem::fixed(
            StatusCode::TOO_MANY_REQUESTS,
            "slow_down",
            "too many wrong admin tokens from this address: try again later",
        )
        .retry_after(60),
    );
    pub const NOT_FOUND: AdminProblem =
        AdminProblem::fixed(StatusCode::NOT_FOUND, "not_found", "there is nothing at this path");
    pub const METHOD: AdminProblem = AdminProblem::fixed(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "this path does not support that method",
    );
    pub const TOO_LARGE: AdminProblem =
        AdminProblem::fixed(StatusCode::PAYLOAD_TOO_LARGE, "too_large", "the body is larger than 256 KiB");

    const fn fixed(status: StatusCode, code: &'static str, detail: &'static str) -> Self {
        Self(Problem::fixed(status, code, detail))
    }

    /// The request cannot be parsed.
    pub fn malformed(detail: impl Into<Cow<'static, str>>) -> Self {
        Self(Problem::bad_request("malformed", detail))
    }

    /// The object that the request names does not exist.
    pub fn absent(code: &'static str, detail: String) -> Self {
        Self(Problem::not_found(code, detail))
    }

    /// The request conflicts with the current state.
    pub fn conflict(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self(Problem::conflict(code, detail))
    }

    /// The request can be parsed but not carried out.
    pub fn unfit(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self(Problem::unprocessable(code, detail))
    }

    fn fault(fault: &dyn std::fmt::Display, full: bool) -> Self {
        tracing::error!(%fault, "the admin API failed to serve a request");
        let (code, detail) = match full {
            true => ("disk_full", "the disk that holds the ledger is full: nothing was changed"),
            false => ("unavailable", "the server cannot do this now: see its log"),
        };
        Self::fixed(StatusCode::SERVICE_UNAVAILABLE, code, detail)
    }
}

impl IntoResponse for AdminProblem {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

/// Faults are logged where they become an answer; the answer does not contain their details.
impl From<ledger::Fault> for AdminProblem {
    fn from(fault: ledger::Fault) -> Self {
        AdminProblem::fault(&fault, matches!(fault, ledger::Fault::Full))
    }
}

impl From<relay::Fault> for AdminProblem {
    fn from(fault: relay::Fault) -> Self {
        match fault {
            relay::Fault::Ledger(fault) => fault.into(),
            relay::Fault::Identity(fault) => fault.into(),
            fault @ relay::Fault::Disk(_) => AdminProblem::fault(&fault, false),
        }
    }
}

impl From<identity::Fault> for AdminProblem {
    fn from(fault: identity::Fault) -> Self {
        match fault {
            identity::Fault::Ledger(fault) => fault.into(),
            identity::Fault::Vault(fault) => AdminProblem::fault(&fault, false),
        }
    }
}

impl From<clock::Fault> for AdminProblem {
    fn from(fault: clock::Fault) -> Self {
        match fault {
            clock::Fault::Ledger(fault) => fault.into(),
            clock::Fault::Identity(fault) => fault.into(),
            clock::Fault::Vault(fault) => AdminProblem::fault(&fault, false),
        }
    }
}

impl From<edge::Fault> for AdminProblem {
    fn from(fault: edge::Fault) -> Self {
        match fault {
            edge::Fault::Ledger(fault) => fault.into(),
            edge::Fault::Relay(fault) => fault.into(),
            edge::Fault::Identity(fault) => fault.into(),
            edge::Fault::Vault(fault) => AdminProblem::fault(&fault, false),
            fault @ edge::Fault::ChatLookup(_) => AdminProblem::fault(&fault, false),
        }
    }
}

impl From<post::Fault> for AdminProblem {
    fn from(fault: post::Fault) -> Self {
        match fault {
            post::Fault::Ledger(fault) => fault.into(),
            post::Fault::Vault(fault) => AdminProblem::fault(&fault, false),
            post::Fault::Identity(fault) => fault.into(),
            post::Fault::Relay(fault) => fault.into(),
            post::Fault::Clock(fault) => fault.into(),
        }
    }
}

impl From<workshop::Fault> for AdminProblem {
    fn from(fault: workshop::Fault) -> Self {
        match fault {
            workshop::Fault::Ledger(fault) => fault.into(),
            fault @ (workshop::Fault::Io(_) | workshop::Fault::Vault(_) | workshop::Fault::Stopped) => {
                AdminProblem::fault(&fault, false)
            }
        }
    }
}

impl From<post::Refused> for AdminProblem {
    fn from(refused: post::Refused) -> Self {
        use post::Refused;
        let detail = refused.to_string();
        match refused {
            Refused::Fault(fault) => fault.into(),
            Refused::Absent => AdminProblem::absent("not_found", detail),
            Refused::Malformed { .. } | Refused::TooLong { .. } | Refused::ExchangeAddress => {
                AdminProblem::unfit("invalid_request", detail)
            }
            Refused::Failed(_)
            | Refused::Unanswered(_)
            | Refused::NotImplemented(_)
            | Refused::TimedOut { .. } => AdminProblem::unfit("delivery_failed", detail),
            Refused::CorrelationInUse
            | Refused::OverQuota(_)
            | Refused::TooManyMessages(_)
            | Refused::InboxFull(_) => AdminProblem::conflict("refused", detail),
        }
    }
}

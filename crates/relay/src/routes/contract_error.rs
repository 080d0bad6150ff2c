//! Error responses of the relay contract: `{"error": "text"}`. A stock agent shows the text to its user.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::RETRY_AFTER;
use http::request::Parts;
use http_kit::{OverLimit, UnreadBody};
use identity::{Authentication, OverQuota, Principal, QuotaKind, Quotas};
use ledger::LimitName;
use serde_json::json;

use crate::Fault;

/// An error response (contract section 17).
#[derive(Debug)]
pub(super) struct ContractError {
    status: StatusCode,
    text: &'static str,
    /// Seconds after which the request may succeed.
    retry_after: Option<u32>,
}

impl ContractError {
    pub const fn new(status: StatusCode, text: &'static str) -> Self {
        Self { status, text, retry_after: None }
    }

    pub const fn malformed(text: &'static str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    /// The caller of a request whose credential was checked. It counts against the caller's limits from now on.
    pub async fn known(
        checked: Result<Authentication, identity::Fault>,
        quotas: &Quotas,
        head: &Parts,
    ) -> Result<Principal, ContractError> {
        match checked.map_err(Fault::from)? {
            Authentication::Known(caller) => {
                caller.within_limits(&head.extensions)?;
                if let Some(tenant) = caller.tenant() {
                    quotas.take(QuotaKind::Request, tenant, caller.agent()).await?;
                }
                Ok(caller)
            }
            refused => Err(Self::refused(&refused)),
        }
    }

    /// The answer to a caller whose credential was not accepted.
    pub fn refused(authentication: &Authentication) -> Self {
        match authentication {
            Authentication::Barred => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "too many wrong credentials came from this address")
            }
            Authentication::Refused(_) | Authentication::Known(_) => {
                Self::new(StatusCode::UNAUTHORIZED, "the token is missing, unknown or expired")
            }
        }
    }
}

impl IntoResponse for ContractError {
    fn into_response(self) -> Response {
        let retry_after = self.retry_after.map(|seconds| [(RETRY_AFTER, seconds.to_string())]);
        (self.status, retry_after, Json(json!({ "error": self.text }))).into_response()
    }
}

impl From<Fault> for ContractError {
    fn from(fault: Fault) -> Self {
        tracing::error!(%fault, "could not answer a gateway");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the server cannot answer now: try again later")
    }
}

impl From<OverLimit> for ContractError {
    fn from(_: OverLimit) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "too many connections: try again later")
    }
}

impl From<OverQuota> for ContractError {
    fn from(over: OverQuota) -> Self {
        let text = match over.limit {
            LimitName::Requests => "this tenant makes too many requests: try again later",
            _ => "this agent makes too many requests: try again later",
        };
        Self { retry_after: Some(over.retry_seconds()), ..Self::new(StatusCode::TOO_MANY_REQUESTS, text) }
    }
}

impl From<UnreadBody> for ContractError {
    fn from(unread: UnreadBody) -> Self {
        match unread {
            UnreadBody::TooLarge { .. } => Self::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large"),
            UnreadBody::Incomplete => Self::malformed("the body did not arrive completely"),
        }
    }
}

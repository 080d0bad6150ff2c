//! Problem Details (RFC 9457) responses of the post, with stable codes.

use std::borrow::Cow;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use posthouse_wire::delivery::{Cause, DeliveryFailed};
use serde_json::{Map, Value, json};

use crate::auth::Refusal;
use crate::{Fault, Refused, ReplyRefused};

/// The `WWW-Authenticate` header of a 401.
const PROOFS: &str = r#"Bearer, Basic realm="posthouse""#;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: Cow<'static, str>,
    /// Additional fields of this problem.
    more: Map<String, Value>,
}

impl Problem {
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { status, code, detail: detail.into(), more: Map::new() }
    }

    /// A field that is missing, wrong or unknown.
    pub fn invalid(field: &str, why: impl AsRef<str>) -> Self {
        // The client chose this name, so its length is limited.
        let field: String = field.chars().take(64).collect();
        let detail = format!("`{field}` {}", why.as_ref());
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", detail).with("field", field)
    }

    pub fn malformed_json(why: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed_json", format!("the body is not valid JSON: {why}"))
    }

    pub fn absent() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "not found")
    }

    pub fn too_long(field: &str, most: usize) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_long", format!("`{field}` is longer than {most} bytes"))
            .with("field", field)
    }

    pub fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "this path does not support this method",
        )
    }

    pub fn over_limit(full: &relay::OverLimit) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_connections", full.to_string())
    }

    /// A fault of the server. It is logged here, and its details are not sent to the client.
    pub fn unavailable(fault: &Fault) -> Self {
        tracing::error!(%fault, "the post could not serve a request");
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable",
            "the server cannot do this now: try again later",
        )
    }

    fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// Adds the id of the stored record. A 404 gets none, because it must not show whether a record exists.
    pub fn under(self, name: &str, id: &str) -> Self {
        match self.status {
            StatusCode::NOT_FOUND => self,
            _ => self.with(name, id),
        }
    }

    fn delivery_failed(failed: &DeliveryFailed) -> Self {
        let status = match failed.cause_kind {
            Cause::ClientValidation => StatusCode::NOT_FOUND,
            Cause::Timeout => StatusCode::GATEWAY_TIMEOUT,
            Cause::Network | Cause::HttpStatus | Cause::MalformedResponse => StatusCode::BAD_GATEWAY,
        };
        Self::failed_with(status, failed)
    }

    fn failed_with(status: StatusCode, failed: &DeliveryFailed) -> Self {
        Self::new(status, "delivery_failed", failed.message.clone())
            .with("agent_id", failed.agent_id.as_str())
            .with("cause_kind", failed.cause_kind.word())
            .with("http_status", failed.http_status)
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let words = refused.to_string();
        match refused {
            Refused::Malformed { field, why } => Problem::invalid(field, why),
            Refused::TooLong { field, most } => Problem::too_long(field, most),
            Refused::ExchangeAddress => {
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "exchange_address", words)
                    .with("field", "agent")
            }
            Refused::Failed(failed) => Problem::delivery_failed(&failed),
            // Not 404: the question exists, even if its agent was removed.
            Refused::Unanswered(failed) => Problem::failed_with(StatusCode::BAD_GATEWAY, &failed),
            Refused::NotImplemented(_) => Problem::new(StatusCode::NOT_IMPLEMENTED, "not_implemented", words),
            Refused::CorrelationInUse => Problem::new(StatusCode::CONFLICT, "correlation_in_use", words),
            Refused::OverQuota(_) | Refused::InboxFull(ledger::LimitReached::Tenant) => {
                Problem::new(StatusCode::TOO_MANY_REQUESTS, "quota_exceeded", words)
            }
            Refused::InboxFull(_) => Problem::new(StatusCode::TOO_MANY_REQUESTS, "inbox_full", words),
            Refused::Absent => Problem::absent(),
            Refused::TimedOut { timeout_ms } => {
                Problem::new(StatusCode::GATEWAY_TIMEOUT, "timeout", words).with("timeout_ms", timeout_ms)
            }
            Refused::Fault(fault) => Problem::unavailable(&fault),
        }
    }
}

impl From<ReplyRefused> for Problem {
    fn from(refused: ReplyRefused) -> Self {
        let words = refused.to_string();
        match refused {
            ReplyRefused::Absent => Problem::absent(),
            ReplyRefused::Answered => Problem::new(StatusCode::CONFLICT, "already_answered", words),
            ReplyRefused::BadSignature => Problem::new(StatusCode::UNAUTHORIZED, "bad_signature", words),
            ReplyRefused::Malformed { field, .. } => {
                Problem::new(StatusCode::BAD_REQUEST, "invalid_request", words).with("field", field)
            }
            ReplyRefused::TooLong { .. } => Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_long", words),
            ReplyRefused::Fault(fault) => Problem::unavailable(&fault),
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Nobody => {
                Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "the credential is missing or invalid")
            }
            Refusal::Barred => Problem::new(
                StatusCode::TOO_MANY_REQUESTS,
                "rate_limited",
                "too many invalid credentials came from this address: try again later",
            ),
            Refusal::SomebodyElse { header } => Problem::new(
                StatusCode::FORBIDDEN,
                "forbidden",
                format!("{header} names another agent than this credential"),
            ),
            Refusal::BadLabel { header, why } => Problem::invalid(&header, why),
            Refusal::Fault(fault) => Problem::unavailable(&fault),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or("Refused"),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
        });
        if let Some(body) = body.as_object_mut() {
            body.extend(self.more);
        }
        let mut response = (self.status, Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match self.code {
            "unauthorized" => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(PROOFS));
            }
            "unavailable" => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
            }
            "quota_exceeded" | "inbox_full" | "rate_limited" => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("60"));
            }
            _ => {}
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(problem: impl Into<Problem>) -> (u16, &'static str) {
        let problem = problem.into();
        (problem.status.as_u16(), problem.code)
    }

    #[test]
    fn every_refusal_has_its_status_and_code() {
        let failed = |cause| Refused::Failed(DeliveryFailed::new("desk", cause, "no"));
        for (refused, expected) in [
            (Refused::malformed("agent", "is empty"), (422, "invalid_request")),
            (Refused::TooLong { field: "message", most: 1 }, (413, "too_long")),
            (Refused::ExchangeAddress, (422, "exchange_address")),
            (failed(Cause::ClientValidation), (404, "delivery_failed")),
            (failed(Cause::Timeout), (504, "delivery_failed")),
            (failed(Cause::Network), (502, "delivery_failed")),
            (failed(Cause::HttpStatus), (502, "delivery_failed")),
            (failed(Cause::MalformedResponse), (502, "delivery_failed")),
            (
                Refused::Unanswered(DeliveryFailed::client_validation("desk", "gone")),
                (502, "delivery_failed"),
            ),
            (Refused::NotImplemented("no way back".to_owned()), (501, "not_implemented")),
            (Refused::CorrelationInUse, (409, "correlation_in_use")),
            (Refused::OverQuota("too many questions"), (429, "quota_exceeded")),
            (Refused::InboxFull(ledger::LimitReached::Inbox), (429, "inbox_full")),
            (Refused::InboxFull(ledger::LimitReached::Share), (429, "inbox_full")),
            (Refused::InboxFull(ledger::LimitReached::Tenant), (429, "quota_exceeded")),
            (Refused::Absent, (404, "not_found")),
            (Refused::TimedOut { timeout_ms: 5 }, (504, "timeout")),
            (Refused::Fault(Fault::from(ledger::Fault::Closed)), (503, "unavailable")),
        ] {
            assert_eq!(told(refused.clone()), expected, "{refused:?}");
        }
    }

    #[test]
    fn an_answer_that_is_not_taken_says_why() {
        for (refused, expected) in [
            (ReplyRefused::Absent, (404, "not_found")),
            (ReplyRefused::Answered, (409, "already_answered")),
            (ReplyRefused::BadSignature, (401, "bad_signature")),
            (
                ReplyRefused::Malformed { field: "content", why: "is missing".to_owned() },
                (400, "invalid_request"),
            ),
            (ReplyRefused::TooLong { most: 1 }, (413, "too_long")),
            (ReplyRefused::Fault(Fault::from(ledger::Fault::Closed)), (503, "unavailable")),
        ] {
            assert_eq!(told(refused.clone()), expected, "{refused:?}");
        }
    }

    #[tokio::test]
    async fn a_problem_is_problem_json_with_what_the_failure_carries() {
        let failed = Refused::Failed(DeliveryFailed::http_status("desk", 503, "the receiver is away"));
        let response = Problem::from(failed).into_response();
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        let body = axum::body::to_bytes(response.into_body(), 4096).await.unwrap();
        assert_eq!(
            serde_json::from_slice::<Value>(&body).unwrap(),
            json!({
                "type": "about:blank", "title": "Bad Gateway", "status": 502, "code": "delivery_failed",
                "detail": "the receiver is away", "agent_id": "desk", "cause_kind": "http_status",
                "http_status": 503,
            })
        );
    }

    #[test]
    fn whoever_is_not_let_in_hears_how_to_prove_itself_and_nothing_else() {
        let response = Problem::from(Refusal::Nobody).into_response();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(response.headers()[WWW_AUTHENTICATE], r#"Bearer, Basic realm="posthouse""#);
        let header = || "X-Agent-Id".to_owned();
        assert_eq!(told(Refusal::SomebodyElse { header: header() }), (403, "forbidden"));
        let bad = Refusal::BadLabel { header: header(), why: "is not UTF-8" };
        assert_eq!(told(bad), (422, "invalid_request"));
        assert_eq!(told(Refusal::Barred), (429, "rate_limited"));
    }
}

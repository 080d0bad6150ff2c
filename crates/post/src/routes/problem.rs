//! Problem Details (RFC 9457) responses of the post, with stable codes.

use http::StatusCode;
use http_kit::Problem;
use identity::OverQuota;
use posthouse_wire::delivery::{Cause, DeliveryFailed};

use crate::{CallerRefusal, Fault, Refused, ReplyRefused};

/// The `WWW-Authenticate` header of a 401.
const PROOFS: &str = r#"Bearer, Basic realm="posthouse""#;
/// Seconds until a retry is useful, after a fault of the server.
const AFTER_FAULT: u32 = 5;
/// Seconds until a retry is useful, after a limit was reached.
const AFTER_LIMIT: u32 = 60;

/// A field that is missing, wrong or unknown.
pub(crate) fn invalid(field: &str, why: impl AsRef<str>) -> Problem {
    Problem::invalid_field(field, why)
}

pub(crate) fn absent() -> Problem {
    Problem::not_found("not_found", "not found")
}

pub(crate) fn too_long(field: &str, most: usize) -> Problem {
    let detail = format!("`{field}` is longer than {most} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_long", detail).with("field", field)
}

fn over_limit(full: http_kit::OverLimit) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_connections", full.to_string())
}

/// A fault of the server. It is logged here, and its details are not sent to the client.
pub(crate) fn unavailable(fault: &Fault) -> Problem {
    tracing::error!(%fault, "the post could not serve a request");
    let detail = "the server cannot do this now: try again later";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail).retry_after(AFTER_FAULT)
}

/// Adds the id of the stored record. A 404 gets none, because it must not show whether a record exists.
pub(crate) fn under(problem: Problem, name: &'static str, id: &str) -> Problem {
    match problem.status() {
        StatusCode::NOT_FOUND => problem,
        _ => problem.with(name, id),
    }
}

fn delivery_failed(failed: &DeliveryFailed) -> Problem {
    let status = match failed.cause_kind {
        Cause::ClientValidation => StatusCode::NOT_FOUND,
        Cause::Timeout => StatusCode::GATEWAY_TIMEOUT,
        Cause::Network | Cause::HttpStatus | Cause::MalformedResponse => StatusCode::BAD_GATEWAY,
    };
    failed_with(status, failed)
}

fn failed_with(status: StatusCode, failed: &DeliveryFailed) -> Problem {
    Problem::new(status, "delivery_failed", failed.message.clone())
        .with("agent_id", failed.agent_id.as_str())
        .with("cause_kind", failed.cause_kind.word())
        .with("http_status", failed.http_status)
}

fn limited(code: &'static str, words: String) -> Problem {
    Problem::new(StatusCode::TOO_MANY_REQUESTS, code, words).retry_after(AFTER_LIMIT)
}

fn too_many_requests(over: &OverQuota) -> Problem {
    let (whose, value, seconds) = (over.whose(), over.value, over.retry_seconds());
    let words = format!(
        "the {whose} may make {value} requests per minute: nothing was done; send it again after {seconds} s"
    );
    limited("over_quota", words).retry_after(seconds)
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let words = refused.to_string();
        match refused {
            Refused::Malformed { field, why } => invalid(field, why),
            Refused::TooLong { field, most } => too_long(field, most),
            Refused::ExchangeAddress => {
                Problem::unprocessable("exchange_address", words).with("field", "agent")
            }
            Refused::Failed(failed) => delivery_failed(&failed),
            // Not 404: the question exists, even if its agent was removed.
            Refused::Unanswered(failed) => failed_with(StatusCode::BAD_GATEWAY, &failed),
            Refused::NotImplemented(_) => Problem::new(StatusCode::NOT_IMPLEMENTED, "not_implemented", words),
            Refused::CorrelationInUse => Problem::conflict("correlation_in_use", words),
            Refused::OverQuota(_) | Refused::InboxFull(ledger::LimitReached::Tenant) => {
                limited("quota_exceeded", words)
            }
            Refused::TooManyMessages(over) => limited("over_quota", words).retry_after(over.retry_seconds()),
            Refused::InboxFull(_) => limited("inbox_full", words),
            Refused::Absent => absent(),
            Refused::TimedOut { timeout_ms } => {
                Problem::new(StatusCode::GATEWAY_TIMEOUT, "timeout", words).with("timeout_ms", timeout_ms)
            }
            Refused::Fault(fault) => unavailable(&fault),
        }
    }
}

impl From<ReplyRefused> for Problem {
    fn from(refused: ReplyRefused) -> Self {
        let words = refused.to_string();
        match refused {
            ReplyRefused::Absent => absent(),
            ReplyRefused::Answered => Problem::conflict("already_answered", words),
            ReplyRefused::BadSignature => Problem::new(StatusCode::UNAUTHORIZED, "bad_signature", words),
            ReplyRefused::Malformed { field, .. } => {
                Problem::bad_request("invalid_request", words).with("field", field)
            }
            ReplyRefused::TooLong { .. } => Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_long", words),
            ReplyRefused::Fault(fault) => unavailable(&fault),
        }
    }
}

impl From<CallerRefusal> for Problem {
    fn from(refusal: CallerRefusal) -> Self {
        match refusal {
            CallerRefusal::Nobody => {
                Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "the credential is missing or invalid")
                    .challenge(PROOFS)
            }
            CallerRefusal::Barred => {
                let words = "too many invalid credentials came from this address: try again later";
                limited("rate_limited", words.to_owned())
            }
            CallerRefusal::SomebodyElse { header } => Problem::new(
                StatusCode::FORBIDDEN,
                "forbidden",
                format!("{header} names another agent than this credential"),
            ),
            CallerRefusal::BadLabel { header, why } => invalid(&header, why),
            CallerRefusal::OverLimit(full) => over_limit(full),
            CallerRefusal::TooManyRequests(over) => too_many_requests(&over),
            CallerRefusal::Fault(fault) => unavailable(&fault),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;
    use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
    use serde_json::{Value, json};

    use super::*;

    fn rendered(problem: impl Into<Problem>) -> (u16, &'static str) {
        let problem = problem.into();
        (problem.status().as_u16(), problem.code())
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
            assert_eq!(rendered(refused.clone()), expected, "{refused:?}");
        }
    }

    #[test]
    fn a_refusal_that_passes_says_when_to_come_back() {
        let retry_after = std::time::Duration::from_millis(6_500);
        let over = OverQuota { limit: ledger::LimitName::ProgramRequests, value: 9, retry_after };
        for (problem, seconds) in [
            (Problem::from(Refused::OverQuota("too many questions")), Some("60")),
            (Refused::InboxFull(ledger::LimitReached::Inbox).into(), Some("60")),
            (CallerRefusal::Barred.into(), Some("60")),
            (CallerRefusal::TooManyRequests(over).into(), Some("7")),
            (Refused::Fault(Fault::from(ledger::Fault::Closed)).into(), Some("5")),
            (Refused::Absent.into(), None),
        ] {
            let response = problem.into_response();
            let said = response.headers().get(RETRY_AFTER).map(|value| value.to_str().unwrap());
            assert_eq!(said, seconds);
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
            assert_eq!(rendered(refused.clone()), expected, "{refused:?}");
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
        let response = Problem::from(CallerRefusal::Nobody).into_response();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(response.headers()[WWW_AUTHENTICATE], r#"Bearer, Basic realm="posthouse""#);
        let header = || "X-Agent-Id".to_owned();
        assert_eq!(rendered(CallerRefusal::SomebodyElse { header: header() }), (403, "forbidden"));
        let bad = CallerRefusal::BadLabel { header: header(), why: "is not UTF-8" };
        assert_eq!(rendered(bad), (422, "invalid_request"));
        assert_eq!(rendered(CallerRefusal::Barred), (429, "rate_limited"));
    }
}

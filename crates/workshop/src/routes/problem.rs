//! Problem Details (RFC 9457) responses of the workshop: the classes of the store contract, with their fields.

use http::StatusCode;
use http_kit::Problem;

use crate::fault::Fault;
use crate::skill_store::StoreAnswer;
use crate::store_refusal::{RefusalReason, StoreRefusal};

/// Seconds until a retry is useful, after a fault of the server.
const AFTER_FAULT: u32 = 5;
/// Seconds until a retry is useful, after a limit was reached.
const AFTER_LIMIT: u32 = 60;

/// The answer of a store, or the problem for the client.
pub(crate) fn answered<T>(answer: StoreAnswer<T>) -> Result<T, Problem> {
    match answer {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(refusal)) => Err(refused(&refusal)),
        Err(fault) => Err(unavailable(&fault)),
    }
}

/// A fault of the server. It is logged here, and its details are not sent to the client.
pub(crate) fn unavailable(fault: &Fault) -> Problem {
    tracing::error!(%fault, "the workshop could not serve a request");
    let detail = "the server cannot do this now: try again later";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail).retry_after(AFTER_FAULT)
}

fn refused(refusal: &StoreRefusal) -> Problem {
    let reason = &refusal.reason;
    let problem = Problem::new(status(reason), reason.code(), refusal.to_string())
        .with("error_class", reason.class())
        .with("connector_type", refusal.connector_type())
        .with("implementation", refusal.implementation);
    match reason {
        RefusalReason::SkillNotFound { name } | RefusalReason::Unreadable { name, .. } => {
            problem.with("skill_name", name.as_str())
        }
        RefusalReason::VersionNotFound { name, version } => {
            problem.with("skill_name", name.as_str()).with("version", version.as_str())
        }
        RefusalReason::StorageConflict { name, conflict } => {
            problem.with("skill_name", name.as_str()).with("reason", conflict.to_string())
        }
        RefusalReason::ApprovalRejected { name, why } => {
            problem.with("skill_name", name.as_str()).with("reason", why.as_str())
        }
        RefusalReason::InUse { name, dependents } => {
            problem.with("skill_name", name.as_str()).with("dependents", dependents.clone())
        }
        RefusalReason::TooLarge { name, limit, .. } | RefusalReason::TooManyTags { name, limit, .. } => {
            problem.with("skill_name", name.as_str()).with("limit", *limit)
        }
        RefusalReason::UnknownStatus { name, .. } => problem.with("skill_name", name.as_str()),
        RefusalReason::QuotaExceeded { .. } => problem.retry_after(AFTER_LIMIT),
        RefusalReason::Remote(_) => problem.retry_after(AFTER_FAULT),
        RefusalReason::BadPattern { .. }
        | RefusalReason::ReadOnly { .. }
        | RefusalReason::Unusable { .. }
        | RefusalReason::NotAllowed { .. } => problem,
    }
}

fn status(reason: &RefusalReason) -> StatusCode {
    match reason {
        RefusalReason::SkillNotFound { .. } | RefusalReason::VersionNotFound { .. } => StatusCode::NOT_FOUND,
        RefusalReason::StorageConflict { .. }
        | RefusalReason::InUse { .. }
        | RefusalReason::ReadOnly { .. } => StatusCode::CONFLICT,
        RefusalReason::ApprovalRejected { .. } | RefusalReason::NotAllowed { .. } => StatusCode::FORBIDDEN,
        RefusalReason::UnknownStatus { .. }
        | RefusalReason::BadPattern { .. }
        | RefusalReason::Unreadable { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        RefusalReason::TooLarge { .. } | RefusalReason::TooManyTags { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        RefusalReason::QuotaExceeded { .. } => StatusCode::TOO_MANY_REQUESTS,
        RefusalReason::Unusable { .. } => StatusCode::BAD_GATEWAY,
        RefusalReason::Remote(failure) => failure.http_status(),
    }
}

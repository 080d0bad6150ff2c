//! What a page hears when something is not to be.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

use crate::Fault;

/// A refusal in the house's own shape, `application/problem+json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    status: StatusCode,
    code: &'static str,
    title: &'static str,
}

impl Problem {
    /// Also the answer to everybody who may not know what is here.
    pub(super) const NOT_FOUND: Problem =
        Problem { status: StatusCode::NOT_FOUND, code: "not_found", title: "there is nothing here" };

    pub(super) const TOO_LONG: Problem =
        Problem { status: StatusCode::PAYLOAD_TOO_LARGE, code: "too_long", title: "the message is too long" };

    pub(super) const NAME_TAKEN: Problem = Problem {
        status: StatusCode::CONFLICT,
        code: "name_taken",
        title: "an agent of that name is here already",
    };

    /// The agent's inbox did not take it; nothing was kept.
    pub(super) const NOT_TAKEN: Problem =
        Problem { status: StatusCode::CONFLICT, code: "not_taken", title: "the message was not taken" };

    pub(super) const fn malformed(title: &'static str) -> Problem {
        Problem { status: StatusCode::BAD_REQUEST, code: "malformed", title }
    }

    pub(super) const fn unfit(title: &'static str) -> Problem {
        Problem { status: StatusCode::UNPROCESSABLE_ENTITY, code: "unfit", title }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = json!({
            "type": "about:blank", "title": self.title, "status": self.status.as_u16(), "code": self.code,
        });
        let mut response = (self.status, Json(body)).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}

/// Logged where it becomes an answer; the page learns only that it was not its fault.
impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        tracing::error!(%fault, "the web chat could not serve a request");
        Problem {
            status: StatusCode::SERVICE_UNAVAILABLE,
            code: "unavailable",
            title: "the house cannot do this now; try again",
        }
    }
}

impl From<ledger::Fault> for Problem {
    fn from(fault: ledger::Fault) -> Self {
        Fault::from(fault).into()
    }
}

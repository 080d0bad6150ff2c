//! Problem Details (RFC 9457) responses of the chat page's API.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

use crate::Fault;

/// A refusal as `application/problem+json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    status: StatusCode,
    code: &'static str,
    title: &'static str,
}

impl Problem {
    /// Also used for requests that must not learn what exists.
    pub(super) const NOT_FOUND: Problem =
        Problem { status: StatusCode::NOT_FOUND, code: "not_found", title: "not found" };

    /// No session, or one that has ended.
    pub(super) const NOT_INVITED: Problem = Problem {
        status: StatusCode::UNAUTHORIZED,
        code: "not_invited",
        title: "this page needs an invitation link",
    };

    pub(super) const BAD_LINK: Problem = Problem {
        status: StatusCode::FORBIDDEN,
        code: "bad_link",
        title: "this link was used before or has expired; ask for a new one",
    };

    pub(super) const TOO_MANY_STREAMS: Problem = Problem {
        status: StatusCode::TOO_MANY_REQUESTS,
        code: "too_many_streams",
        title: "too many pages are open; close one of them",
    };

    pub(super) const TOO_LONG: Problem =
        Problem { status: StatusCode::PAYLOAD_TOO_LARGE, code: "too_long", title: "the message is too long" };

    pub(super) const NAME_TAKEN: Problem = Problem {
        status: StatusCode::CONFLICT,
        code: "name_taken",
        title: "an agent with this name already exists; choose another name",
    };

    /// The message was refused as a turn; nothing was stored.
    pub(super) const NOT_TAKEN: Problem =
        Problem { status: StatusCode::CONFLICT, code: "not_taken", title: "the message was not accepted" };

    /// A bug in the server. Details are only in the log.
    pub(super) const BROKEN: Problem = Problem {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        code: "fault",
        title: "the server failed while handling this request",
    };

    pub(super) const fn status(&self) -> StatusCode {
        self.status
    }

    /// Nothing was stored; the same message can be sent again.
    pub(super) const INBOX_FULL: Problem = Problem {
        status: StatusCode::TOO_MANY_REQUESTS,
        code: "inbox_full",
        title: "the agent has too many unread messages; this one was not stored, try again later",
    };

    /// Nothing was stored. The tenant must free storage first.
    pub(super) const STORAGE_FULL: Problem = Problem {
        status: StatusCode::TOO_MANY_REQUESTS,
        code: "quota_exceeded",
        title: "no storage is left; the message was not stored, ask whoever runs this server",
    };

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

/// Logs the fault. The page only gets "unavailable".
impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        tracing::error!(%fault, "the web chat could not serve a request");
        Problem {
            status: StatusCode::SERVICE_UNAVAILABLE,
            code: "unavailable",
            title: "the server cannot do this now; try again",
        }
    }
}

impl From<ledger::Fault> for Problem {
    fn from(fault: ledger::Fault) -> Self {
        Fault::from(fault).into()
    }
}

impl From<identity::Fault> for Problem {
    fn from(fault: identity::Fault) -> Self {
        Fault::from(fault).into()
    }
}

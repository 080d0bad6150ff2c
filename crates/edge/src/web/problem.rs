//! Problem Details (RFC 9457) responses of the chat page's API.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http_kit::Problem;
use identity::OverQuota;

use crate::Fault;

/// A [`Problem`] of the chat page. The page shows its title, so the title is the whole text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ChatProblem(Problem);

impl ChatProblem {
    /// Also used for requests that must not learn what exists.
    pub(super) const NOT_FOUND: ChatProblem =
        ChatProblem::fixed(StatusCode::NOT_FOUND, "not_found", "not found");

    /// No session, or one that has ended.
    pub(super) const NOT_INVITED: ChatProblem =
        ChatProblem::fixed(StatusCode::UNAUTHORIZED, "not_invited", "this page needs an invitation link");

    pub(super) const BAD_LINK: ChatProblem = ChatProblem::fixed(
        StatusCode::FORBIDDEN,
        "bad_link",
        "this link was used before or has expired; ask for a new one",
    );

    pub(super) const TOO_MANY_STREAMS: ChatProblem = ChatProblem::fixed(
        StatusCode::TOO_MANY_REQUESTS,
        "too_many_streams",
        "too many pages are open; close one of them",
    );

    pub(super) const TOO_LONG: ChatProblem =
        ChatProblem::fixed(StatusCode::PAYLOAD_TOO_LARGE, "too_long", "the message is too long");

    pub(super) const FILE_TOO_LARGE: ChatProblem =
        ChatProblem::fixed(StatusCode::PAYLOAD_TOO_LARGE, "too_long", "the file is larger than 25 MiB");

    pub(super) const FILE_TOO_SLOW: ChatProblem =
        ChatProblem::fixed(StatusCode::REQUEST_TIMEOUT, "too_slow", "the file took too long to arrive");

    pub(super) const TOO_MANY_FILES: ChatProblem = ChatProblem::fixed(
        StatusCode::TOO_MANY_REQUESTS,
        "too_many_files",
        "too many files are waiting; send them first, or try again later",
    );

    pub(super) const NAME_TAKEN: ChatProblem = ChatProblem::fixed(
        StatusCode::CONFLICT,
        "name_taken",
        "an agent with this name already exists; choose another name",
    );

    /// The message was refused as a turn; nothing was stored.
    pub(super) const NOT_TAKEN: ChatProblem =
        ChatProblem::fixed(StatusCode::CONFLICT, "not_taken", "the message was not accepted");

    /// A prompt takes one press.
    pub(super) const ANSWERED: ChatProblem =
        ChatProblem::fixed(StatusCode::CONFLICT, "answered", "this question already has an answer");

    /// Nothing was stored; the same message can be sent again.
    pub(super) const INBOX_FULL: ChatProblem = ChatProblem::fixed(
        StatusCode::TOO_MANY_REQUESTS,
        "inbox_full",
        "the agent has too many unread messages; this one was not stored, try again later",
    );

    /// Nothing was stored. The tenant must free storage first.
    pub(super) const STORAGE_FULL: ChatProblem = ChatProblem::fixed(
        StatusCode::TOO_MANY_REQUESTS,
        "quota_exceeded",
        "no storage is left; the message was not stored, ask whoever runs this server",
    );

    const fn fixed(status: StatusCode, code: &'static str, text: &'static str) -> Self {
        Self(Problem::fixed(status, code, text).titled(text))
    }

    pub(super) const fn malformed(text: &'static str) -> Self {
        Self::fixed(StatusCode::BAD_REQUEST, "malformed", text)
    }

    pub(super) const fn unfit(text: &'static str) -> Self {
        Self::fixed(StatusCode::UNPROCESSABLE_ENTITY, "unfit", text)
    }

    /// The browser is signed in for one person, and the link invites another.
    pub(super) fn other_invitation(person: &str, invited: &str) -> Self {
        const TEXT: &str = "this browser is signed in with another invitation";
        let Self(problem) = Self::fixed(StatusCode::CONFLICT, "other_invitation", TEXT);
        Self(problem.with("person", person).with("invited", invited))
    }

    /// Nothing was stored; the same message can be sent again.
    pub(super) fn over_quota(over: OverQuota) -> Self {
        const TEXT: &str =
            "too many messages were sent in the last minute; this one was not stored, try again in a moment";
        let Self(problem) = Self::fixed(StatusCode::TOO_MANY_REQUESTS, "over_quota", TEXT);
        Self(problem.retry_after(over.retry_seconds()))
    }

    pub(super) const fn status(&self) -> StatusCode {
        self.0.status()
    }
}

impl IntoResponse for ChatProblem {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

/// Logs the fault. The page only gets "unavailable".
impl From<Fault> for ChatProblem {
    fn from(fault: Fault) -> Self {
        tracing::error!(%fault, "the web chat could not serve a request");
        ChatProblem::fixed(
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable",
            "the server cannot do this now; try again",
        )
    }
}

impl From<ledger::Fault> for ChatProblem {
    fn from(fault: ledger::Fault) -> Self {
        Fault::from(fault).into()
    }
}

impl From<identity::Fault> for ChatProblem {
    fn from(fault: identity::Fault) -> Self {
        Fault::from(fault).into()
    }
}

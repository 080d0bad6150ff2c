//! Errors of the client for programs.

use http::StatusCode;
use posthouse_wire::DispatchId;
use posthouse_wire::delivery::Cause;
use serde_json::Value;

use crate::https::{NO_ANSWER, beginning, shown};
use crate::token::NoToken;

/// Characters of the server's own text that are kept.
const LONGEST_DETAIL: usize = 2_000;

/// Reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The server, or a proxy in front of it, refused the request.
    #[error("refused with {status}: {detail}")]
    Refused {
        status: u16,
        /// The server's own code, such as `not_found`. Empty if the answer is not from Posthouse.
        code: String,
        detail: String,
        /// Which of the contract's five causes a failed delivery had.
        cause_kind: Option<Cause>,
        /// Finds the receipt of a failed delivery, if it has one.
        dispatch_id: Option<DispatchId>,
    },
    /// The agent did not answer the question in time. Contains the server's text.
    #[error("{0}")]
    Timeout(String),
    /// There was no answer, however often the call was repeated.
    #[error("cannot reach the server: {why}")]
    Unreachable {
        why: String,
        /// Whether the server may have received the request. It may have been carried out then: the same request
        /// again, or the id of the question, tells.
        sent: bool,
    },
    /// The server's answer is not in the expected form.
    #[error("cannot read the server's answer: {0}")]
    Malformed(String),
    /// The call is not possible: the address is not a URL, or a name cannot be part of one.
    #[error("cannot make the call: {0}")]
    Unusable(String),
}

impl Fault {
    /// Builds the fault from an answer that is not a success.
    pub(super) fn of(status: StatusCode, body: &[u8]) -> Self {
        let refused = Self::refused(status.as_u16(), body);
        match &refused {
            Fault::Refused { status: 504, code, .. } if code == "timeout" => {
                let problem: Value = serde_json::from_slice(body).unwrap_or_default();
                Fault::no_answer(problem["detail"].as_str().unwrap_or(NO_ANSWER))
            }
            _ => refused,
        }
    }

    /// Builds the fault from a refusal. It is never the timeout of a question.
    fn refused(status: u16, body: &[u8]) -> Self {
        let problem: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |names: [&str; 2]| names.iter().find_map(|name| problem[*name].as_str());
        // The token endpoint uses OAuth's field names.
        let code = text(["code", "error"]).unwrap_or_default().to_owned();
        let said = text(["detail", "error_description"]).or(problem["title"].as_str());
        let detail = match said {
            Some(said) => beginning(said, LONGEST_DETAIL),
            None if code.is_empty() => shown(&String::from_utf8_lossy(body)),
            None => code.clone(),
        };
        let cause_kind = serde_json::from_value(problem["cause_kind"].clone()).ok();
        let dispatch_id = problem["dispatch_id"].as_str().map(DispatchId::new);
        Fault::Refused { status, code, detail, cause_kind, dispatch_id }
    }

    /// The timeout of a question, in the server's words.
    pub(super) fn no_answer(detail: &str) -> Self {
        Fault::Timeout(beginning(detail, LONGEST_DETAIL))
    }

    /// The fault of a call that follows one which the server has answered.
    pub(super) fn after_an_answer(self) -> Self {
        match self {
            Fault::Unreachable { why, .. } => Fault::Unreachable { why, sent: true },
            other => other,
        }
    }

    /// Whether the same call may succeed a little later: there was no answer, or only a proxy answered, or
    /// the server says that it is unavailable for the moment.
    pub fn may_pass(&self) -> bool {
        match self {
            Fault::Unreachable { .. } => true,
            Fault::Refused { status: 502..=504, code, .. } => code.is_empty() || code == "unavailable",
            _ => false,
        }
    }
}

impl From<NoToken> for Fault {
    fn from(none: NoToken) -> Self {
        match none {
            NoToken::Unreachable(why) => Fault::Unreachable { why, sent: false },
            NoToken::Refused { status, body } => Fault::refused(status, &body),
            NoToken::Malformed => Fault::Malformed(none.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_the_servers_words_and_a_strangers_page_has_no_code() {
        let problem = br#"{"code":"delivery_failed","detail":"nobody","cause_kind":"client_validation","dispatch_id":"d-1"}"#;
        let refused = Fault::Refused {
            status: 404,
            code: "delivery_failed".into(),
            detail: "nobody".into(),
            cause_kind: Some(Cause::ClientValidation),
            dispatch_id: Some("d-1".into()),
        };
        assert_eq!(Fault::of(StatusCode::NOT_FOUND, problem), refused);
        assert!(!refused.may_pass());
        let page = Fault::of(StatusCode::BAD_GATEWAY, b"<html>\nout to lunch</html>");
        let Fault::Refused { code, detail, .. } = &page else { panic!("{page:?}") };
        assert_eq!((code.as_str(), detail.as_str()), ("", "<html> out to lunch</html>"));
        assert!(page.may_pass());
    }

    #[test]
    fn only_the_questions_own_timeout_is_one() {
        let timeout = br#"{"code":"timeout","detail":"no answer within 5000 ms"}"#;
        assert_eq!(
            Fault::of(StatusCode::GATEWAY_TIMEOUT, timeout),
            Fault::Timeout("no answer within 5000 ms".to_owned())
        );
        let webhook = br#"{"code":"delivery_failed","cause_kind":"timeout"}"#;
        let failed = Fault::of(StatusCode::GATEWAY_TIMEOUT, webhook);
        assert!(matches!(failed, Fault::Refused { cause_kind: Some(Cause::Timeout), .. }));
        assert!(!failed.may_pass());
        let token = NoToken::Refused { status: 504, body: timeout.to_vec() };
        assert!(matches!(Fault::from(token), Fault::Refused { status: 504, code, .. } if code == "timeout"));
    }
}

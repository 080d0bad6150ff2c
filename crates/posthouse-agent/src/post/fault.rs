//! Why a program does not get what it asked for.

use http::StatusCode;
use posthouse_wire::delivery::Cause;
use serde_json::Value;

use crate::https::shown;
use crate::token::NoToken;

/// Why a call came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Somebody answered, and the answer is no.
    #[error("refused with {status}: {detail}")]
    Refused {
        status: u16,
        /// The house's own name for it, such as `not_found`; empty where the answer is not the house's.
        code: String,
        detail: String,
        /// Which of the contract's five causes a failed delivery had.
        cause_kind: Option<Cause>,
    },
    /// The agent did not answer the question in time.
    #[error("no answer in time")]
    Timeout,
    /// Nobody answered the call, however often it was repeated. What was asked may have happened all the
    /// same: the same wish again, or the question's id, finds out.
    #[error("the house cannot be reached: {0}")]
    Unreachable(String),
    /// The house answered with something that is no answer.
    #[error("the house's answer cannot be read: {0}")]
    Malformed(String),
    /// Not a call that can be made: an address that is none, or a name that cannot stand in one.
    #[error("the call cannot be made: {0}")]
    Unusable(String),
}

impl Fault {
    /// Out of an answer that is no success.
    pub(super) fn of(status: StatusCode, body: &[u8]) -> Self {
        let problem: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |names: [&str; 2]| names.iter().find_map(|name| problem[*name].as_str());
        // The token's door answers with OAuth's own two words.
        let code = text(["code", "error"]).unwrap_or_default().to_owned();
        if status == StatusCode::GATEWAY_TIMEOUT && code == "timeout" {
            return Fault::Timeout;
        }
        let said = text(["detail", "error_description"]).or(problem["title"].as_str());
        let detail = match said {
            Some(said) => shown(said),
            None if code.is_empty() => shown(&String::from_utf8_lossy(body)),
            None => code.clone(),
        };
        let cause_kind = serde_json::from_value(problem["cause_kind"].clone()).ok();
        Fault::Refused { status: status.as_u16(), code, detail, cause_kind }
    }

    /// Whether the same call may fare better a little later: nobody was there, or only somebody in front
    /// of the house, or the house itself says that it cannot just now.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Fault::Unreachable(_) => true,
            Fault::Refused { status: 502..=504, code, .. } => code.is_empty() || code == "unavailable",
            _ => false,
        }
    }
}

impl From<NoToken> for Fault {
    fn from(none: NoToken) -> Self {
        match none {
            NoToken::Unreachable(why) => Fault::Unreachable(why),
            NoToken::Refused { status, body } => {
                Fault::of(StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY), &body)
            }
            NoToken::Malformed => Fault::Malformed(none.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_the_houses_words_and_a_strangers_page_has_no_code() {
        let problem = br#"{"code":"delivery_failed","detail":"nobody","cause_kind":"client_validation"}"#;
        let refused = Fault::Refused {
            status: 404,
            code: "delivery_failed".into(),
            detail: "nobody".into(),
            cause_kind: Some(Cause::ClientValidation),
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
        assert_eq!(Fault::of(StatusCode::GATEWAY_TIMEOUT, timeout), Fault::Timeout);
        let webhook = br#"{"code":"delivery_failed","cause_kind":"timeout"}"#;
        let failed = Fault::of(StatusCode::GATEWAY_TIMEOUT, webhook);
        assert!(matches!(failed, Fault::Refused { cause_kind: Some(Cause::Timeout), .. }));
        assert!(!failed.may_pass());
    }
}

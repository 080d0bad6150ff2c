//! Failures of calls to platforms, with error texts that stock gateways recognise.

use std::time::Duration;

/// Longest part of a platform's description that is copied into an error, in bytes.
const LONGEST_DESCRIPTION: usize = 300;

/// The reason why a call failed.
#[derive(Clone, Debug, PartialEq)]
pub enum CallFailure {
    /// No connection was made, so nothing was sent.
    Unreached(String),
    /// The request was sent and no response came. The platform may have carried it out.
    Lost,
    /// The call was carried out, and its response is larger than is read.
    TooLarge,
    /// The platform refused the call.
    Refused(CallRefusal),
}

/// A refusal, as the platform reports it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallRefusal {
    pub kind: RefusalKind,
    /// The platform's own number, or the HTTP status if it has none.
    pub code: i64,
    pub description: String,
    /// The pause that the platform asks for.
    pub retry_after: Option<Duration>,
    /// The new id of the chat, if the platform gave it one.
    pub moved_to: Option<String>,
}

/// What a refusal means for the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RefusalKind {
    /// The same call would be refused again.
    #[default]
    Permanent,
    /// The platform asks to wait, and has done nothing.
    RateLimited,
    /// The platform failed (5xx).
    ServerError,
    /// The platform does not accept the bot's credential.
    CredentialDead,
    /// The bot may not do this there.
    Forbidden,
    /// The chat, message or capability no longer exists.
    Gone,
}

impl RefusalKind {
    /// The kind by the HTTP status alone, for platforms whose error bodies say nothing more.
    pub fn of_status(status: u16) -> Self {
        match status {
            401 => RefusalKind::CredentialDead,
            403 => RefusalKind::Forbidden,
            404 | 410 => RefusalKind::Gone,
            429 => RefusalKind::RateLimited,
            500.. => RefusalKind::ServerError,
            _ => RefusalKind::Permanent,
        }
    }
}

impl CallRefusal {
    /// A refusal whose description is cut to a bounded length.
    pub fn new(kind: RefusalKind, code: i64, mut description: String) -> Self {
        description.truncate(description.floor_char_boundary(LONGEST_DESCRIPTION));
        Self { kind, code, description, ..Self::default() }
    }

    pub fn says(&self, words: &str) -> bool {
        self.description.to_lowercase().contains(words)
    }
}

impl CallFailure {
    /// The error text, with the words that stock gateways act on (relay contract section 11.4): `network` only if
    /// nothing can have been done, `timed out` if it may have been. `platform` is the platform's name for people.
    pub fn error(&self, platform: &str) -> String {
        match self {
            CallFailure::Unreached(cause) => format!("network: {platform} cannot be reached ({cause})"),
            other => other.cause(platform),
        }
    }

    /// As [`CallFailure::error`], without the word `network`, which makes gateways retry.
    pub fn cause(&self, platform: &str) -> String {
        let refused = match self {
            CallFailure::Unreached(_) => return format!("{platform} cannot be reached"),
            CallFailure::Lost => {
                return format!("{platform}'s response timed out; the call may have succeeded");
            }
            CallFailure::TooLarge => return format!("{platform}'s response is too large"),
            CallFailure::Refused(refused) => refused,
        };
        let code = refused.code;
        match (refused.kind, refused.retry_after) {
            (RefusalKind::RateLimited, Some(wait)) => {
                let seconds = wait.as_secs_f64().ceil();
                format!("rate limit: {platform} asks to wait {seconds} s (flood control)")
            }
            (RefusalKind::RateLimited, None) => {
                format!("rate limit: {platform} asks to wait (flood control)")
            }
            (RefusalKind::CredentialDead, _) => {
                format!("unauthorized: {platform} does not accept this bot's credential")
            }
            (RefusalKind::Forbidden, _) if !refused.says("forbidden") => {
                format!("forbidden: {}", refused.description)
            }
            // Only the number, because some status texts contain words that gateways act on.
            (RefusalKind::ServerError, _) => format!("{platform} failed with status {code}"),
            _ if refused.description.is_empty() => format!("{platform} refused with status {code}"),
            _ => refused.description.clone(),
        }
    }

    pub fn is_credential_dead(&self) -> bool {
        matches!(self, CallFailure::Refused(CallRefusal { kind: RefusalKind::CredentialDead, .. }))
    }

    /// Whether the platform would refuse the same call again, as far as it says.
    pub fn is_final(&self) -> bool {
        let CallFailure::Refused(refused) = self else { return false };
        matches!(refused.kind, RefusalKind::Gone | RefusalKind::Forbidden | RefusalKind::Permanent)
    }

    /// Whether the call certainly had no effect.
    pub fn had_no_effect(&self) -> bool {
        match self {
            CallFailure::Unreached(_) => true,
            CallFailure::Lost | CallFailure::TooLarge => false,
            CallFailure::Refused(refused) => refused.kind != RefusalKind::ServerError,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_surely_did_nothing_asks_for_a_repetition() {
        let unreached = CallFailure::Unreached("refused".into());
        assert!(unreached.error("Pigeon").starts_with("network: ") && unreached.had_no_effect());
        assert!(!unreached.cause("Pigeon").contains("network"));
        let lost = CallFailure::Lost.error("Pigeon");
        assert!(lost.contains("timed out") && !lost.contains("network"), "{lost}");
        assert!(!CallFailure::Lost.had_no_effect());
    }

    #[test]
    fn the_kind_of_a_refusal_follows_its_status() {
        for (status, kind) in [
            (400, RefusalKind::Permanent),
            (401, RefusalKind::CredentialDead),
            (403, RefusalKind::Forbidden),
            (404, RefusalKind::Gone),
            (429, RefusalKind::RateLimited),
            (502, RefusalKind::ServerError),
        ] {
            assert_eq!(RefusalKind::of_status(status), kind);
        }
    }
}

//! Client of the Bot API: one call, its response and its errors.
//!
//! The bot's token is part of every URL, so neither a URL nor an error of the HTTP client is ever printed.

use std::sync::Arc;
use std::time::Duration;

use reqwest::redirect::Policy;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bots::OpenedBot;

use super::media::MediaForm;
use super::{TOKEN, Telegram};

const CONNECT: Duration = Duration::from_secs(5);
const KEEP_IDLE: Duration = Duration::from_secs(30);
/// Largest response body, in bytes. Only a full batch of updates comes near this.
const LARGEST_ANSWER: usize = 16 << 20;
/// Longest part of Telegram's description that is copied into an error, in bytes.
const LONGEST_DESCRIPTION: usize = 300;

/// The body of a call. For a form the type of the parameters does not matter.
pub(super) enum CallBody<'a, P> {
    Json(&'a P),
    Form(&'a MediaForm),
}

// Not derived: that would demand the same of the parameters.
impl<P> Clone for CallBody<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for CallBody<'_, P> {}

/// The reason why a call failed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Failure {
    /// No connection was made, so nothing was sent.
    Unreached(String),
    /// The request was sent and no response came. Telegram may have carried it out.
    Lost,
    /// Telegram refused the call.
    Refused(ApiError),
}

/// A refusal, as Telegram reports it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ApiError {
    pub code: u16,
    pub description: String,
    pub retry_after: Option<u64>,
    /// The new id of the group.
    pub migrate_to: Option<i64>,
}

#[derive(Deserialize)]
struct ApiEnvelope<R> {
    ok: bool,
    // A named default makes the field optional without a bound `R: Default`.
    #[serde(default = "nothing")]
    result: Option<R>,
    error_code: Option<u16>,
    description: Option<String>,
    parameters: Option<Parameters>,
}

fn nothing<R>() -> Option<R> {
    None
}

#[derive(Deserialize, Default)]
struct Parameters {
    retry_after: Option<u64>,
    migrate_to_chat_id: Option<i64>,
}

impl Telegram {
    /// The base URL for this bot's calls.
    pub(super) fn base_of<'a>(&'a self, bot: &'a OpenedBot) -> &'a str {
        bot.setting("api_base_url").unwrap_or(&self.api_base).trim_end_matches('/')
    }

    /// Calls `method` once and waits at most `limit` for the response.
    pub(super) async fn call<R: DeserializeOwned>(
        &self,
        bot: &OpenedBot,
        method: &'static str,
        params: &impl Serialize,
        limit: Duration,
    ) -> Result<R, Failure> {
        self.call_with(bot, method, CallBody::Json(params), limit).await
    }

    /// As [`Telegram::call`], with any body.
    pub(super) async fn call_with<R: DeserializeOwned, P: Serialize>(
        &self,
        bot: &OpenedBot,
        method: &'static str,
        body: CallBody<'_, P>,
        limit: Duration,
    ) -> Result<R, Failure> {
        let Some(token) = bot.credentials.get(TOKEN) else {
            return Err(Failure::Unreached("the bot has no token".to_owned()));
        };
        let base = self.base_of(bot);
        let address = format!("{base}/bot{}/{method}", token.expose());
        let request = self.client()?.post(address);
        let request = match body {
            CallBody::Json(params) => request.json(params),
            CallBody::Form(form) => request.multipart(form.open().await?),
        };
        let exchange = async {
            let mut response = request.send().await.map_err(failure)?;
            let status = response.status().as_u16();
            let mut body = Vec::new();
            // The status is known by now, so an error while reading the body does not change the result.
            while let Ok(Some(part)) = response.chunk().await {
                body.extend_from_slice(&part);
                if body.len() > LARGEST_ANSWER {
                    break;
                }
            }
            Ok((status, body))
        };
        let (status, body) = match self.timepiece.within(limit, exchange).await {
            Ok(answer) => answer?,
            Err(_late) => return Err(Failure::Lost),
        };
        let mut answer = read(status, &body);
        if let Err(Failure::Refused(refused)) = &mut answer {
            // Telegram does not repeat the token in a description, but a stand-in might.
            refused.description = refused.description.replace(token.expose(), "…");
            if refused.is_dead() {
                self.refused_tokens.report(&bot.id);
            }
        }
        answer
    }

    pub(super) fn client(&self) -> Result<&reqwest::Client, Failure> {
        let client = self.client.get_or_init(|| {
            let built = reqwest::Client::builder()
                // A redirect would pass the token on.
                .redirect(Policy::none())
                .no_proxy()
                // One connection per call. On a shared HTTP/2 connection, hanging calls could use up all streams and
                // block the rest.
                .http1_only()
                // It resolves on threads of its own, a few per host. So a host whose lookups hang blocks neither the
                // calls to other hosts nor the runtime's blocking threads.
                .dns_resolver(Arc::new(self.lookup.clone()))
                .connect_timeout(CONNECT)
                // Shorter than Telegram's own idle timeout: a call written to a closing connection is lost.
                .pool_idle_timeout(KEEP_IDLE)
                .user_agent("posthouse")
                .build();
            built.map_err(|error| error.without_url().to_string())
        });
        client.as_ref().map_err(|cause| Failure::Unreached(cause.clone()))
    }
}

fn failure(error: reqwest::Error) -> Failure {
    if !error.is_connect() && !error.is_builder() {
        return Failure::Lost;
    }
    let error = error.without_url();
    let mut deepest: &dyn std::error::Error = &error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    Failure::Unreached(deepest.to_string())
}

fn read<R: DeserializeOwned>(status: u16, body: &[u8]) -> Result<R, Failure> {
    let envelope: Option<ApiEnvelope<R>> = serde_json::from_slice(body).ok();
    let envelope = match envelope {
        Some(ApiEnvelope { ok: true, result: Some(result), .. }) => return Ok(result),
        Some(envelope) if !envelope.ok => Some(envelope),
        // The status says it was carried out, but the result is unknown.
        _ if status < 300 => return Err(Failure::Lost),
        _ => None,
    };
    let (code, description, parameters) = match envelope {
        Some(refusal) => (refusal.error_code, refusal.description, refusal.parameters),
        None => (None, None, None),
    };
    let parameters = parameters.unwrap_or_default();
    let mut description = description.unwrap_or_default();
    description.truncate(description.floor_char_boundary(LONGEST_DESCRIPTION));
    Err(Failure::Refused(ApiError {
        code: code.unwrap_or(status),
        description,
        retry_after: parameters.retry_after,
        migrate_to: parameters.migrate_to_chat_id,
    }))
}

impl ApiError {
    /// Telegram itself says that the token is not valid: revoked (401), or not in the form of a token (404). Telegram
    /// always describes the reason; the error page of a proxy has no description.
    pub fn is_dead(&self) -> bool {
        matches!(self.code, 401 | 404) && !self.description.is_empty()
    }

    pub fn says(&self, words: &str) -> bool {
        self.description.to_lowercase().contains(words)
    }
}

impl Failure {
    /// The error text, with the words that stock gateways act on (relay contract section 11.4): `network` only if
    /// nothing can have been done, `timed out` if it may have been.
    pub fn error(&self) -> String {
        match self {
            Failure::Unreached(cause) => format!("network: Telegram cannot be reached ({cause})"),
            other => other.cause(),
        }
    }

    /// As [`Failure::error`], without the word `network`, which makes gateways retry.
    pub fn cause(&self) -> String {
        let refused = match self {
            Failure::Unreached(_) => return "Telegram cannot be reached".to_owned(),
            Failure::Lost => return "Telegram's response timed out; the call may have succeeded".to_owned(),
            Failure::Refused(refused) => refused,
        };
        match (refused.code, refused.retry_after) {
            (429, Some(seconds)) => format!("rate limit: Telegram asks to wait {seconds} s (flood control)"),
            (429, None) => "rate limit: Telegram asks to wait (flood control)".to_owned(),
            (401 | 404, _) => "unauthorized: Telegram does not accept this bot's token".to_owned(),
            (403, _) if !refused.says("forbidden") => format!("forbidden: {}", refused.description),
            // Only the number, because some status texts contain words that gateways act on.
            (code @ 500.., _) => format!("Telegram failed with status {code}"),
            (code, _) if refused.description.is_empty() => format!("Telegram refused with status {code}"),
            _ => refused.description.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn refusal(status: u16, body: &str) -> String {
        read::<Value>(status, body.as_bytes()).unwrap_err().error()
    }

    #[test]
    fn refusals_are_told_in_the_words_that_gateways_know() {
        for (status, body, expected) in [
            (
                400,
                r#"{"ok":false,"error_code":400,"description":"Bad Request: chat not found"}"#,
                "chat not found",
            ),
            (
                400,
                r#"{"ok":false,"description":"Bad Request: message thread not found"}"#,
                "thread not found",
            ),
            (400, r#"{"ok":false,"description":"Bad Request: message is too long"}"#, "too long"),
            (403, r#"{"ok":false,"description":"Forbidden: bot was blocked by the user"}"#, "Forbidden"),
            (403, r#"{"ok":false,"description":"no"}"#, "forbidden: no"),
            (401, r#"{"ok":false,"description":"Unauthorized"}"#, "unauthorized"),
            (
                429,
                r#"{"ok":false,"parameters":{"retry_after":77}}"#,
                "rate limit: Telegram asks to wait 77 s",
            ),
            (502, "<html>Bad Gateway</html>", "status 502"),
            (511, "Network Authentication Required", "status 511"),
            (418, "", "status 418"),
        ] {
            let error = refusal(status, body);
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("network") && !error.contains("timed out"), "{error}");
        }
    }

    #[test]
    fn only_what_surely_did_nothing_asks_for_a_repetition() {
        assert!(Failure::Unreached("refused".into()).error().starts_with("network: "));
        let lost = Failure::Lost.error();
        assert!(lost.contains("timed out") && !lost.contains("network"), "{lost}");
        assert!(!Failure::Unreached("refused".into()).cause().contains("network"));
    }

    #[test]
    fn a_done_call_whose_answer_cannot_be_read_is_lost_and_not_refused() {
        for body in ["", "{", r#"{"ok":true}"#, r#"{"ok":true,"result":"text"}"#, "[]"] {
            assert_eq!(read::<i64>(200, body.as_bytes()), Err(Failure::Lost), "{body}");
        }
        assert_eq!(read::<i64>(200, br#"{"ok":true,"result":7}"#), Ok(7));
    }
}

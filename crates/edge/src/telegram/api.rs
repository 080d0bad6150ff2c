//! Client of the Bot API: one call, its response and its errors.
//!
//! The bot's token is part of every URL, so neither a URL nor an error of the HTTP client is ever printed.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bots::OpenedBot;
use crate::platform_calls::{CallFailure, CallRefusal, CallReply, RefusalKind};

use super::media::MediaForm;
use super::{TOKEN, Telegram};

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
    ) -> Result<R, CallFailure> {
        self.call_with(bot, method, CallBody::Json(params), limit).await
    }

    /// As [`Telegram::call`], with any body.
    pub(super) async fn call_with<R: DeserializeOwned, P: Serialize>(
        &self,
        bot: &OpenedBot,
        method: &'static str,
        body: CallBody<'_, P>,
        limit: Duration,
    ) -> Result<R, CallFailure> {
        let Some(token) = bot.credentials.get(TOKEN) else {
            return Err(CallFailure::Unreached("the bot has no token".to_owned()));
        };
        let base = self.base_of(bot);
        let address = format!("{base}/bot{}/{method}", token.expose());
        let request = self.client.http()?.post(address);
        let request = match body {
            CallBody::Json(params) => request.json(params),
            CallBody::Form(form) => request.multipart(form.open().await?),
        };
        let CallReply { status, body, .. } = self.client.exchange(request, limit).await?;
        let mut answer = read(status, &body);
        if let Err(CallFailure::Refused(refused)) = &mut answer {
            // Telegram does not repeat the token in a description, but a stand-in might.
            refused.description = refused.description.replace(token.expose(), "…");
            if refused.kind == RefusalKind::CredentialDead {
                self.refused.report(&bot.id);
            }
        }
        answer
    }
}

fn read<R: DeserializeOwned>(status: u16, body: &[u8]) -> Result<R, CallFailure> {
    let envelope: Option<ApiEnvelope<R>> = serde_json::from_slice(body).ok();
    let envelope = match envelope {
        Some(ApiEnvelope { ok: true, result: Some(result), .. }) => return Ok(result),
        Some(envelope) if !envelope.ok => Some(envelope),
        // The status says it was carried out, but the result is unknown.
        _ if status < 300 => return Err(CallFailure::Lost),
        _ => None,
    };
    let (code, description, parameters) = match envelope {
        Some(refusal) => (refusal.error_code, refusal.description, refusal.parameters),
        None => (None, None, None),
    };
    let parameters = parameters.unwrap_or_default();
    let (code, description) = (code.unwrap_or(status), description.unwrap_or_default());
    let kind = match code {
        // Telegram itself says that the token is not valid: revoked (401), or not in the form of a token (404). It
        // always describes the reason; the error page of a proxy has no description.
        401 | 404 if !description.is_empty() => RefusalKind::CredentialDead,
        401 | 404 => RefusalKind::Permanent,
        code => RefusalKind::of_status(code),
    };
    // Telegram counts whole seconds, and 0 is none.
    let retry_after = parameters.retry_after.map(|seconds| Duration::from_secs(seconds.max(1)));
    let moved_to = parameters.migrate_to_chat_id.map(|chat| chat.to_string());
    let refusal = CallRefusal::new(kind, code.into(), description);
    Err(CallFailure::Refused(CallRefusal { retry_after, moved_to, ..refusal }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn refusal(status: u16, body: &str) -> String {
        read::<Value>(status, body.as_bytes()).unwrap_err().error("Telegram")
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
            (404, "<html>Not Found</html>", "status 404"),
        ] {
            let error = refusal(status, body);
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("network") && !error.contains("timed out"), "{error}");
        }
    }

    #[test]
    fn a_done_call_whose_answer_cannot_be_read_is_lost_and_not_refused() {
        for body in ["", "{", r#"{"ok":true}"#, r#"{"ok":true,"result":"text"}"#, "[]"] {
            assert_eq!(read::<i64>(200, body.as_bytes()), Err(CallFailure::Lost), "{body}");
        }
        assert_eq!(read::<i64>(200, br#"{"ok":true,"result":7}"#), Ok(7));
    }
}

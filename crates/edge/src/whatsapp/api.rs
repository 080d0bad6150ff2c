//! Client of WhatsApp's Graph API: one call, its response, and its errors in words.

use std::time::Duration;

use http::Method;
use posthouse_wire::TenantId;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::media::UploadForm;
use super::{TOKEN, WhatsApp};
use crate::bots::OpenedBot;
use crate::platform_calls::{CallFailure, CallRefusal, CallReply, CallShare, RefusalKind, ShareOwner};

/// Messages that a number may send in a second. This is WhatsApp's own default.
const NUMBER_LIMIT: u32 = 80;
const NUMBER_PERIOD: Duration = Duration::from_secs(1);

/// The code for too many messages to one person.
const PAIR_LIMIT: i64 = 131_056;

/// One call.
#[derive(Clone)]
pub(super) struct GraphCall<'a> {
    pub method: Method,
    /// For traces and logs; without ids.
    pub name: &'static str,
    /// The path below the version, such as `/106/messages`.
    pub path: String,
    pub body: GraphBody<'a>,
    /// The tenant for whose agent it is made.
    pub share_of: ShareOwner,
}

#[derive(Clone)]
pub(super) enum GraphBody<'a> {
    Nothing,
    Json(Value),
    Form(&'a UploadForm),
}

impl<'a> GraphCall<'a> {
    pub fn get(name: &'static str, path: String) -> Self {
        Self { method: Method::GET, name, path, body: GraphBody::Nothing, share_of: None }
    }

    pub fn post(name: &'static str, path: String, body: Value) -> Self {
        Self { method: Method::POST, name, path, body: GraphBody::Json(body), share_of: None }
    }

    pub fn upload(name: &'static str, path: String, form: &'a UploadForm) -> Self {
        Self { method: Method::POST, name, path, body: GraphBody::Form(form), share_of: None }
    }

    /// Counts the call as one of this tenant, in the limits that tenants share.
    pub fn for_tenant(self, tenant: &TenantId) -> Self {
        Self { share_of: Some(tenant.clone()), ..self }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct GraphRefusal {
    error: GraphErrorFields,
}

/// The error object of a refusal.
#[derive(Deserialize, Default)]
#[serde(default)]
struct GraphErrorFields {
    code: i64,
    message: String,
    error_data: GraphErrorDetails,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct GraphErrorDetails {
    details: String,
}

/// A part of a path. Anything else could change the meaning of a call.
pub(super) fn is_path_part(id: &str) -> bool {
    (1..=256).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

impl WhatsApp {
    /// The base URL for this bot's calls, with the version.
    pub(super) fn base_of(&self, bot: &OpenedBot) -> String {
        let base = bot.setting("api_base_url").unwrap_or(&self.api_base).trim_end_matches('/');
        let version = bot.setting(super::GRAPH_VERSION).unwrap_or(&self.graph_version);
        format!("{base}/{version}")
    }

    /// Makes a call once, after its rate limit allows it, and waits at most `limit` for the result.
    pub(super) async fn call<R: DeserializeOwned>(
        &self,
        bot: &OpenedBot,
        call: GraphCall<'_>,
        limit: Duration,
    ) -> Result<R, CallFailure> {
        let begun = self.timepiece.instant();
        self.rate_limits.set_limit(bot.id.as_str(), NUMBER_LIMIT, NUMBER_PERIOD);
        let share = CallShare { bot: &bot.id, of: &call.share_of };
        self.rate_limits.take(share, &[bot.id.as_str()], limit).await?;
        let left = limit.saturating_sub(self.timepiece.instant().since(begun));
        let token = bot.credentials.get(TOKEN).filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| CallFailure::Unreached("the bot has no token".to_owned()))?;
        let address = format!("{}{}", self.base_of(bot), call.path);
        let mut request = self.client.http()?.request(call.method, address);
        request = request.bearer_auth(token.expose());
        request = match call.body {
            GraphBody::Nothing => request,
            GraphBody::Json(body) => request.json(&body),
            GraphBody::Form(form) => request.multipart(form.open().await?),
        };
        let mut answer = read(&self.client.exchange(request, left).await?);
        if let Err(CallFailure::Refused(refused)) = &mut answer {
            // WhatsApp does not repeat the token in a message, but a stand-in might.
            refused.description = refused.description.replace(token.expose(), "…");
            match (refused.kind, refused.retry_after) {
                (RefusalKind::CredentialDead, _) => self.refused.report(&bot.id),
                // The limit of a pair is about one person only.
                (RefusalKind::RateLimited, Some(wait)) if refused.code != PAIR_LIMIT => {
                    self.rate_limits.pause(bot.id.as_str(), wait);
                }
                _ => {}
            }
        }
        answer
    }
}

fn read<R: DeserializeOwned>(response: &CallReply) -> Result<R, CallFailure> {
    let CallReply { status, headers, body } = response;
    if *status < 300 {
        // The call was carried out, but its result cannot be read.
        return serde_json::from_slice(body).map_err(|_| CallFailure::Lost);
    }
    let GraphRefusal { error } = serde_json::from_slice(body).unwrap_or_default();
    let kind = match error.code {
        190 | 463 | 467 => RefusalKind::CredentialDead,
        4 | 80007 | 130429 | 131048 | PAIR_LIMIT => RefusalKind::RateLimited,
        1 | 2 | 131000 | 131016 => RefusalKind::ServerError,
        3 | 10 | 200..=299 | 368 | 131005 | 131031 => RefusalKind::Forbidden,
        // Other errors of the Graph API have status 401 or 403 without being about the token.
        0 => RefusalKind::of_status(*status),
        _ if *status >= 500 => RefusalKind::ServerError,
        _ => RefusalKind::Permanent,
    };
    let wait = headers.get("retry-after").and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let code = if error.code == 0 { i64::from(*status) } else { error.code };
    let refusal = CallRefusal::new(kind, code, explained(&error));
    Err(CallFailure::Refused(CallRefusal { retry_after: wait.map(Duration::from_secs), ..refusal }))
}

/// The error in words that say what to do, for the errors that one meets.
fn explained(error: &GraphErrorFields) -> String {
    let words = match error.code {
        131047 => {
            "the 24-hour window is closed: this person last wrote more than 24 hours ago, and until they write again \
             WhatsApp accepts only template messages"
        }
        131026 => {
            "message undeliverable: this person has no WhatsApp, or does not accept messages of this number"
        }
        131030 => "this is a test number, and the recipient is not in its list of allowed numbers",
        131062 => "this kind of message needs the person's phone number, which is hidden",
        131009 => "WhatsApp does not accept a value of this message",
        131051 => "WhatsApp does not know this kind of message",
        131052 | 131053 => {
            "WhatsApp does not accept this file: its type is not supported, or it is too large"
        }
        133010 => "this phone number is not registered with the Cloud API",
        2635 => "this version of the Graph API has ended: set graph_version to a newer one",
        _ => return [error.message.as_str(), error.error_data.details.as_str()].join(" ").trim().to_owned(),
    };
    format!("{words} (code {})", error.code)
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::whatsapp::LABEL;

    fn refused(status: u16, body: &str) -> CallFailure {
        let response = CallReply { status, headers: HeaderMap::new(), body: body.as_bytes().to_vec() };
        read::<Value>(&response).unwrap_err()
    }

    #[test]
    fn errors_are_told_in_words() {
        for (status, code, expected) in [
            (400, 131_047, "24-hour window is closed"),
            (400, 131_026, "undeliverable"),
            (401, 190, "unauthorized: WhatsApp does not accept this bot's credential"),
            (429, 130_429, "rate limit: WhatsApp asks to wait"),
            (400, 131_056, "rate limit: WhatsApp asks to wait"),
            (403, 10, "forbidden: "),
            (500, 131_000, "failed with status"),
            (400, 100, "a message"),
        ] {
            let body = format!(r#"{{"error":{{"code":{code},"message":"a message"}}}}"#);
            let error = refused(status, &body).error(LABEL);
            assert!(error.contains(expected), "{code}: {error}");
            assert!(!error.contains("network") && !error.contains("timed out"), "{error}");
        }
        assert!(refused(502, "<html>").error(LABEL).contains("status 502"));
    }

    #[test]
    fn only_the_token_itself_makes_a_credential_dead() {
        let body = |code: u32| format!(r#"{{"error":{{"code":{code},"message":"x"}}}}"#);
        assert!(refused(401, &body(190)).is_credential_dead());
        assert!(!refused(403, &body(131_031)).is_credential_dead());
        assert!(!refused(401, &body(100)).is_credential_dead());
    }
}

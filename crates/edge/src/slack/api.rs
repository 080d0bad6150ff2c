//! Client of Slack's Web API: one call, its rate limits, its response and its errors.

use std::time::Duration;

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use posthouse_wire::TenantId;
use reqwest::Url;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{APP_TOKEN, Slack, TOKEN};
use crate::bots::OpenedBot;
use crate::platform_calls::{CallFailure, CallRefusal, CallReply, CallShare, RefusalKind, ShareOwner};

/// Slack accepts about one new message a second in a channel.
const MESSAGES: u32 = 1;
const MESSAGE_PERIOD: Duration = Duration::from_secs(1);
/// More calls of one method than anybody makes. Slack announces no limits, so that only its requests to wait count. A
/// limit that is known beforehand stays as it is after such a request.
const CALLS: u32 = 1_000;
const CALL_PERIOD: Duration = Duration::from_secs(1);

/// One call of a method.
#[derive(Clone)]
pub(super) struct WebApiCall {
    pub method: &'static str,
    pub arguments: CallArguments,
    /// The channel in which it posts a message.
    pub posts_in: Option<String>,
    /// Made with the token of the app instead of that of the bot.
    pub by_app: bool,
    /// The tenant for whose agent it is made.
    pub share_of: ShareOwner,
}

#[derive(Clone)]
pub(super) enum CallArguments {
    Json(Value),
    /// Methods that only read do not accept JSON.
    Form(Vec<(&'static str, String)>),
}

impl WebApiCall {
    pub fn json(method: &'static str, arguments: Value) -> Self {
        Self {
            method,
            arguments: CallArguments::Json(arguments),
            posts_in: None,
            by_app: false,
            share_of: None,
        }
    }

    pub fn form(method: &'static str, arguments: Vec<(&'static str, String)>) -> Self {
        Self {
            method,
            arguments: CallArguments::Form(arguments),
            posts_in: None,
            by_app: false,
            share_of: None,
        }
    }

    pub fn posting_in(self, channel: &str) -> Self {
        Self { posts_in: Some(channel.to_owned()), ..self }
    }

    /// Counts the call as one of this tenant, in the limits that tenants share.
    pub fn for_tenant(self, tenant: &TenantId) -> Self {
        Self { share_of: Some(tenant.clone()), ..self }
    }

    pub fn by_app(self) -> Self {
        Self { by_app: true, ..self }
    }
}

/// The fields that every answer has.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AnswerHead {
    ok: bool,
    error: String,
    /// The scope that the app lacks.
    needed: Option<String>,
}

impl Slack {
    /// The base URL for this bot's calls.
    pub(super) fn base_of<'a>(&'a self, bot: &'a OpenedBot) -> &'a str {
        bot.setting("api_base_url").unwrap_or(&self.api_base).trim_end_matches('/')
    }

    /// Whether a URL is at the same host and port as the stand-in that plays Slack for this bot. Slack itself is never
    /// reached by plain http.
    pub(super) fn is_stand_in(&self, bot: &OpenedBot, url: &Url) -> bool {
        let base = Url::parse(self.base_of(bot)).ok().filter(|base| base.scheme() == "http");
        base.is_some_and(|base| {
            let (host, port) = (base.host_str(), base.port_or_known_default());
            // Its sockets have the scheme `ws`.
            matches!(url.scheme(), "http" | "ws")
                && url.host_str() == host
                && url.port_or_known_default() == port
        })
    }

    /// Makes a call once, after its rate limits allow it, and waits at most `limit` for the result.
    pub(super) async fn call<R: DeserializeOwned>(
        &self,
        bot: &OpenedBot,
        call: WebApiCall,
        limit: Duration,
    ) -> Result<R, CallFailure> {
        let begun = self.timepiece.instant();
        let method = format!("{}:{}", bot.id, call.method);
        let channel = call.posts_in.map(|channel| format!("{method}:{channel}"));
        self.rate_limits.set_limit(&method, CALLS, CALL_PERIOD);
        let names: Vec<&str> = match &channel {
            Some(channel) => {
                self.rate_limits.set_limit(channel, MESSAGES, MESSAGE_PERIOD);
                vec![&method, channel]
            }
            None => vec![&method],
        };
        let share = CallShare { bot: &bot.id, of: &call.share_of };
        self.rate_limits.take(share, &names, limit).await?;
        let left = limit.saturating_sub(self.timepiece.instant().since(begun));

        let token = bot.credentials.get(if call.by_app { APP_TOKEN } else { TOKEN });
        let token = token.ok_or_else(|| CallFailure::Unreached("the bot has no token".to_owned()))?;
        let address = format!("{}/{}", self.base_of(bot), call.method);
        let request = self.client.http()?.post(address).bearer_auth(token.expose());
        let request = match call.arguments {
            // Without the character set Slack adds a warning to its answer.
            CallArguments::Json(body) => {
                request.header(CONTENT_TYPE, "application/json; charset=utf-8").body(body.to_string())
            }
            CallArguments::Form(fields) => request.form(&fields),
        };
        let response = self.client.exchange(request, left).await?;
        let mut answer = read(&response);
        if let Err(CallFailure::Refused(refused)) = &mut answer {
            // Slack does not repeat the token in an error, but a stand-in might.
            refused.description = refused.description.replace(token.expose(), "…");
            match (refused.kind, refused.retry_after) {
                (RefusalKind::CredentialDead, _) => self.refused.report(&bot.id),
                (RefusalKind::RateLimited, Some(wait)) => {
                    self.rate_limits.learn(channel.as_deref().unwrap_or(&method), 0, wait);
                }
                _ => {}
            }
        }
        answer
    }
}

/// The pause that a response asks for, in whole seconds.
pub(super) fn retry_after(response: &CallReply) -> Option<Duration> {
    let seconds = response.headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn read<R: DeserializeOwned>(response: &CallReply) -> Result<R, CallFailure> {
    let CallReply { status, body, .. } = response;
    let head: AnswerHead = serde_json::from_slice(body).unwrap_or_default();
    if *status < 300 && head.ok {
        // The call was carried out, but its result cannot be read.
        return serde_json::from_slice(body).map_err(|_| CallFailure::Lost);
    }
    if *status < 300 && head.error.is_empty() {
        // Neither a result nor an error: what became of the call is not known.
        return Err(CallFailure::Lost);
    }
    let kind = match head.error.as_str() {
        "" => RefusalKind::of_status(*status),
        error => kind_of(error),
    };
    let refusal = CallRefusal::new(kind, i64::from(*status), described(&head));
    Err(CallFailure::Refused(CallRefusal { retry_after: retry_after(response), ..refusal }))
}

fn kind_of(error: &str) -> RefusalKind {
    match error {
        "invalid_auth" | "not_authed" | "account_inactive" | "token_revoked" | "token_expired"
        | "org_login_required" => RefusalKind::CredentialDead,
        "ratelimited" | "rate_limited" | "message_limit_exceeded" => RefusalKind::RateLimited,
        "internal_error" | "fatal_error" | "service_unavailable" | "request_timeout" | "accesslimited" => {
            RefusalKind::ServerError
        }
        "channel_not_found" | "message_not_found" | "thread_not_found" | "file_not_found"
        | "user_not_found" | "users_not_found" | "file_deleted" => RefusalKind::Gone,
        "not_in_channel"
        | "missing_scope"
        | "no_permission"
        | "restricted_action"
        | "access_denied"
        | "is_archived"
        | "cant_update_message"
        | "cant_delete_message"
        | "edit_window_closed"
        | "cannot_dm_bot"
        | "team_access_not_granted"
        | "not_allowed_token_type"
        | "ekm_access_denied" => RefusalKind::Forbidden,
        _ => RefusalKind::Permanent,
    }
}

/// The error in words, with those that stock gateways recognise.
fn described(head: &AnswerHead) -> String {
    let error = head.error.as_str();
    match (error, &head.needed) {
        ("", _) => String::new(),
        ("channel_not_found", _) => format!("chat not found: {error}"),
        ("message_not_found", _) => format!("message to edit not found: {error}"),
        ("thread_not_found", _) => format!("thread not found: {error}"),
        ("msg_too_long" | "msg_blocks_too_long", _) => format!("the message is too long: {error}"),
        ("not_in_channel", _) => {
            format!("forbidden: the app is not in this channel; invite it there ({error})")
        }
        ("missing_scope", Some(needed)) => {
            format!("forbidden: the app needs the scope {needed}; add it and install the app again ({error})")
        }
        ("is_archived", _) => format!("forbidden: the channel is archived ({error})"),
        _ => format!("Slack refuses: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::slack::LABEL;

    fn reply(status: u16, body: &str) -> CallReply {
        CallReply { status, headers: HeaderMap::new(), body: body.as_bytes().to_vec() }
    }

    #[test]
    fn refusals_are_told_in_the_words_that_gateways_know() {
        for (status, body, expected) in [
            (200, r#"{"ok":false,"error":"channel_not_found"}"#, "chat not found"),
            (200, r#"{"ok":false,"error":"message_not_found"}"#, "message to edit not found"),
            (200, r#"{"ok":false,"error":"msg_too_long"}"#, "too long"),
            (200, r#"{"ok":false,"error":"not_in_channel"}"#, "forbidden"),
            (200, r#"{"ok":false,"error":"missing_scope","needed":"chat:write"}"#, "the scope chat:write"),
            (200, r#"{"ok":false,"error":"token_revoked"}"#, "unauthorized"),
            (429, r#"{"ok":false,"error":"ratelimited"}"#, "rate limit"),
            (503, "<html>", "status 503"),
            (200, r#"{"ok":false,"error":"strange"}"#, "Slack refuses: strange"),
        ] {
            let error = read::<Value>(&reply(status, body)).unwrap_err().error(LABEL);
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("network") && !error.contains("timed out"), "{error}");
        }
    }

    #[test]
    fn a_success_that_cannot_be_read_is_not_repeated() {
        assert_eq!(read::<Vec<u8>>(&reply(200, r#"{"ok":true}"#)), Err(CallFailure::Lost));
        assert_eq!(read::<Value>(&reply(200, "nonsense")), Err(CallFailure::Lost));
    }

    #[test]
    fn a_pause_is_read_from_the_header() {
        let mut limited = reply(429, "");
        limited.headers.insert(RETRY_AFTER, "30".parse().unwrap());
        assert_eq!(retry_after(&limited), Some(Duration::from_secs(30)));
        limited.headers.insert(RETRY_AFTER, "soon".parse().unwrap());
        assert_eq!(retry_after(&limited), None);
    }
}

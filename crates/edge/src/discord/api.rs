//! Client of Discord's HTTP API: one call, its rate-limit buckets, its response and its errors.

use std::time::Duration;

use http::{HeaderMap, Method};
use posthouse_wire::TenantId;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::media::FileForm;
use super::{Discord, TOKEN};
use crate::bots::OpenedBot;
use crate::platform_calls::{CallFailure, CallRefusal, CallReply, CallShare, RefusalKind, ShareOwner};

/// Calls that a bot may make in a second, over all routes. Discord's own limit is 50.
const GLOBAL_LIMIT: u32 = 45;
const GLOBAL_PERIOD: Duration = Duration::from_secs(1);

/// One call.
#[derive(Clone)]
pub(super) struct DiscordCall<'a> {
    pub method: Method,
    /// The route with its variable parts left out, for traces, logs and rate limits.
    pub name: &'static str,
    pub path: String,
    /// The channel, server or webhook by which Discord counts the route.
    pub major: String,
    pub body: CallPayload<'a>,
    /// Whether the bot's token is sent. Calls with an interaction's token need none, and are not counted for the bot.
    pub as_bot: bool,
    /// The tenant for whose agent it is made.
    pub share_of: ShareOwner,
}

#[derive(Clone)]
pub(super) enum CallPayload<'a> {
    Nothing,
    Json(Value),
    Form(&'a FileForm),
}

impl<'a> DiscordCall<'a> {
    pub fn new(method: Method, name: &'static str, path: String) -> Self {
        Self {
            method,
            name,
            path,
            major: String::new(),
            body: CallPayload::Nothing,
            as_bot: true,
            share_of: None,
        }
    }

    pub fn get(name: &'static str, path: &str) -> Self {
        Self::new(Method::GET, name, path.to_owned())
    }

    pub fn of(self, major: impl Into<String>) -> Self {
        Self { major: major.into(), ..self }
    }

    pub fn json(self, body: Value) -> Self {
        Self { body: CallPayload::Json(body), ..self }
    }

    pub fn form(self, form: &'a FileForm) -> Self {
        Self { body: CallPayload::Form(form), ..self }
    }

    /// Counts the call as one of this tenant, in the limits that tenants share.
    pub fn for_tenant(self, tenant: &TenantId) -> Self {
        Self { share_of: Some(tenant.clone()), ..self }
    }

    pub fn without_token(self) -> Self {
        Self { as_bot: false, ..self }
    }
}

/// The error object of a refusal.
#[derive(Deserialize, Default)]
#[serde(default)]
struct DiscordError {
    code: i64,
    message: String,
    retry_after: Option<f64>,
    global: bool,
}

impl Discord {
    /// The base URL for this bot's calls.
    pub(super) fn base_of<'a>(&'a self, bot: &'a OpenedBot) -> &'a str {
        bot.setting("api_base_url").unwrap_or(&self.api_base).trim_end_matches('/')
    }

    /// Makes a call once, after its rate limits allow it, and waits at most `limit` for the result.
    pub(super) async fn call<R: DeserializeOwned>(
        &self,
        bot: &OpenedBot,
        call: DiscordCall<'_>,
        limit: Duration,
    ) -> Result<R, CallFailure> {
        let begun = self.timepiece.instant();
        let route = format!("{}:{}:{}", bot.id, call.name, call.major);
        if let Some(refusal) = self.refusal_limit.standing(&route).filter(|_| call.as_bot) {
            return Err(CallFailure::Refused(refusal));
        }
        let (global, bucket) = (format!("{}:global", bot.id), self.buckets.get(&route));
        let bucket = bucket.unwrap_or_else(|| route.clone());
        self.rate_limits.set_limit(&global, GLOBAL_LIMIT, GLOBAL_PERIOD);
        let names: &[&str] = if call.as_bot { &[&global, &bucket] } else { &[&bucket] };
        let share = CallShare { bot: &bot.id, of: &call.share_of };
        self.rate_limits.take(share, names, limit).await?;
        let left = limit.saturating_sub(self.timepiece.instant().since(begun));

        let address = format!("{}{}", self.base_of(bot), call.path);
        let mut request = self.client.http()?.request(call.method, address);
        let token = bot.credentials.get(TOKEN).filter(|_| call.as_bot);
        if call.as_bot {
            let token = token.ok_or_else(|| CallFailure::Unreached("the bot has no token".to_owned()))?;
            request = request.header("authorization", format!("Bot {}", token.expose()));
        }
        request = match call.body {
            CallPayload::Nothing => request,
            CallPayload::Json(body) => request.json(&body),
            CallPayload::Form(form) => request.multipart(form.open().await?),
        };
        let response = self.client.exchange(request, left).await?;
        self.learn_limits(bot, &route, &call.major, &response.headers);
        let mut answer = read(&response);
        if let Err(CallFailure::Refused(refused)) = &mut answer {
            if let Some(token) = token {
                // Discord does not repeat the token in a message, but a stand-in might.
                refused.description = refused.description.replace(token.expose(), "…");
            }
            match (refused.kind, refused.retry_after) {
                (RefusalKind::CredentialDead, _) if call.as_bot => self.refused.report(&bot.id),
                // The token of an interaction is not a credential of the bot.
                (RefusalKind::CredentialDead, _) => refused.kind = RefusalKind::Gone,
                (RefusalKind::RateLimited, Some(wait)) => {
                    let is_global = is_global(&response);
                    self.rate_limits.learn(if is_global { &global } else { &bucket }, 0, wait);
                }
                (RefusalKind::Forbidden, _) if call.as_bot => self.refusal_limit.note(&route, refused),
                _ => {}
            }
        }
        answer
    }

    /// Notes the bucket of a route and how many calls it has left.
    fn learn_limits(&self, bot: &OpenedBot, route: &str, major: &str, headers: &HeaderMap) {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let (Some(bucket), Some(left), Some(after)) = (
            text("x-ratelimit-bucket"),
            text("x-ratelimit-remaining").and_then(|left| left.parse().ok()),
            text("x-ratelimit-reset-after").and_then(seconds),
        ) else {
            return;
        };
        let name = format!("{}:{bucket}:{major}", bot.id);
        self.rate_limits.learn(&name, left, after);
        self.buckets.insert(route.to_owned(), name);
    }
}

/// Parses a number of seconds with a fraction. `None` if it is not a valid duration.
fn seconds(text: &str) -> Option<Duration> {
    text.trim().parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

fn is_global(response: &CallReply) -> bool {
    let by_header = response.headers.get("x-ratelimit-global").is_some();
    by_header || serde_json::from_slice::<DiscordError>(&response.body).is_ok_and(|refusal| refusal.global)
}

fn read<R: DeserializeOwned>(response: &CallReply) -> Result<R, CallFailure> {
    let CallReply { status, headers, body } = response;
    if *status < 300 {
        // A call without a result has an empty body.
        let body: &[u8] = if body.is_empty() { b"null" } else { body };
        // The call was carried out, but its result cannot be read.
        return serde_json::from_slice(body).map_err(|_| CallFailure::Lost);
    }
    let refusal: DiscordError = serde_json::from_slice(body).unwrap_or_default();
    let kind = match refusal.code {
        10003 | 10004 | 10008 | 10013 | 10014 | 10015 | 10062 | 50027 => RefusalKind::Gone,
        50001 | 50007 | 50013 => RefusalKind::Forbidden,
        _ => RefusalKind::of_status(*status),
    };
    // Error texts that stock gateways recognise.
    let description = match refusal.code {
        10003 => format!("chat not found: {}", refusal.message),
        10008 => format!("message to edit not found: {}", refusal.message),
        40005 => format!("the file is too long: {}", refusal.message),
        _ => refusal.message,
    };
    let retry_after = refusal.retry_after.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let by_header = || headers.get("retry-after").and_then(|value| seconds(value.to_str().ok()?));
    let code = if refusal.code == 0 { i64::from(*status) } else { refusal.code };
    let refusal = CallRefusal::new(kind, code, description);
    Err(CallFailure::Refused(CallRefusal { retry_after: retry_after.or_else(by_header), ..refusal }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discord::LABEL;

    fn refused(status: u16, body: &str) -> CallFailure {
        let response = CallReply { status, headers: HeaderMap::new(), body: body.as_bytes().to_vec() };
        read::<Value>(&response).unwrap_err()
    }

    #[test]
    fn refusals_are_told_in_the_words_that_gateways_know() {
        for (status, body, expected) in [
            (404, r#"{"message":"Unknown Channel","code":10003}"#, "chat not found"),
            (404, r#"{"message":"Unknown Message","code":10008}"#, "message to edit not found"),
            (403, r#"{"message":"Missing PermissionSet","code":50013}"#, "forbidden: Missing PermissionSet"),
            (401, r#"{"message":"401: Unauthorized","code":0}"#, "unauthorized"),
            (
                429,
                r#"{"message":"x","retry_after":64.57,"global":false}"#,
                "rate limit: Discord asks to wait 65 s",
            ),
            (502, "<html>", "status 502"),
        ] {
            let error = refused(status, body).error(LABEL);
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("network") && !error.contains("timed out"), "{error}");
        }
    }

    #[test]
    fn a_call_without_a_result_and_one_with_an_unreadable_result_are_told_apart() {
        let done = |body: &[u8]| CallReply { status: 204, headers: HeaderMap::new(), body: body.to_vec() };
        assert_eq!(read::<Option<i64>>(&done(b"")), Ok(None));
        assert_eq!(read::<i64>(&done(b"{")), Err(CallFailure::Lost));
    }
}

//! Client of WeCom's API for applications: one call, its access token, its response, and its errors in words.

use std::time::Duration;

use http::Method;
use posthouse_wire::{Secret, TenantId};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::access_tokens::is_stale;
use super::media::WeComUpload;
use super::{SECRET, WeCom};
use crate::bots::OpenedBot;
use crate::platform_calls::{CallFailure, CallRefusal, CallReply, CallShare, RefusalKind, ShareOwner};

/// Calls that one application makes in a second at most. WeCom's own limits are by the minute and higher.
const APP_LIMIT: u32 = 50;
const APP_PERIOD: Duration = Duration::from_secs(1);

/// One call.
#[derive(Clone)]
pub(super) struct WeComCall<'a> {
    pub method: Method,
    /// For traces and logs; without ids. The path is `/cgi-bin/` and this.
    pub name: &'static str,
    pub query: Vec<(&'static str, String)>,
    pub body: WeComBody<'a>,
    /// The tenant for whose agent it is made.
    pub share_of: ShareOwner,
}

#[derive(Clone)]
pub(super) enum WeComBody<'a> {
    Nothing,
    Json(Value),
    Form(&'a WeComUpload),
}

impl<'a> WeComCall<'a> {
    pub const TOKEN_PATH: &'static str = "/cgi-bin/gettoken";

    pub fn get(name: &'static str, query: Vec<(&'static str, String)>) -> Self {
        Self { method: Method::GET, name, query, body: WeComBody::Nothing, share_of: None }
    }

    pub fn post(name: &'static str, body: Value) -> Self {
        Self { method: Method::POST, name, query: Vec::new(), body: WeComBody::Json(body), share_of: None }
    }

    pub fn upload(name: &'static str, kind: &str, form: &'a WeComUpload) -> Self {
        let query = vec![("type", kind.to_owned())];
        Self { method: Method::POST, name, query, body: WeComBody::Form(form), share_of: None }
    }

    /// Counts the call as one of this tenant, in the limits that tenants share.
    pub fn for_tenant(self, tenant: &TenantId) -> Self {
        Self { share_of: Some(tenant.clone()), ..self }
    }
}

/// The fields that every answer has. The HTTP status is 200 for errors too.
#[derive(Deserialize, Default)]
#[serde(default)]
struct WeComAnswerHead {
    errcode: i64,
    errmsg: String,
}

impl WeCom {
    /// The base URL for this bot's calls.
    pub(super) fn base_of<'a>(&'a self, bot: &'a OpenedBot) -> &'a str {
        bot.setting("api_base_url").unwrap_or(&self.api_base).trim_end_matches('/')
    }

    /// Makes a call once, after its rate limit allows it, and waits at most `limit` for the result. An access token
    /// that WeCom does not accept any more is replaced once.
    pub(super) async fn call<R: DeserializeOwned>(
        &self,
        bot: &OpenedBot,
        call: WeComCall<'_>,
        limit: Duration,
    ) -> Result<R, CallFailure> {
        let begun = self.timepiece.instant();
        let left = || limit.saturating_sub(self.timepiece.instant().since(begun));
        self.rate_limits.set_limit(bot.id.as_str(), APP_LIMIT, APP_PERIOD);
        let share = CallShare { bot: &bot.id, of: &call.share_of };
        self.rate_limits.take(share, &[bot.id.as_str()], limit).await?;
        let token = self.access_token(bot, None, left()).await?;
        match self.call_with(bot, &call, &token, left()).await {
            Err(failure) if is_stale(&failure) => {
                let token = self.access_token(bot, Some(&token), left()).await?;
                self.call_with(bot, &call, &token, left()).await
            }
            answer => answer,
        }
    }

    async fn call_with<R: DeserializeOwned>(
        &self,
        bot: &OpenedBot,
        call: &WeComCall<'_>,
        token: &Secret,
        limit: Duration,
    ) -> Result<R, CallFailure> {
        let address = format!("{}/cgi-bin/{}", self.base_of(bot), call.name);
        let request = self.client.http()?.request(call.method.clone(), address);
        let request = request.query(&[("access_token", token.expose())]).query(&call.query);
        let request = match &call.body {
            WeComBody::Nothing => request,
            WeComBody::Json(body) => request.json(body),
            WeComBody::Form(form) => request.multipart(form.open().await?),
        };
        let reply = self.client.exchange(request, limit).await?;
        let secrets = [Some(token), bot.credentials.get(SECRET)];
        let secrets: Vec<&Secret> = secrets.into_iter().flatten().collect();
        read(&reply, &secrets)
    }
}

/// Reads an answer. WeCom does not repeat these secrets in an error, but a stand-in might.
pub(super) fn read<R: DeserializeOwned>(response: &CallReply, secrets: &[&Secret]) -> Result<R, CallFailure> {
    let CallReply { status, body, .. } = response;
    let head: Option<WeComAnswerHead> = serde_json::from_slice(body).ok();
    if *status < 300 && head.as_ref().is_none_or(|head| head.errcode == 0) {
        // The call was carried out, but its result cannot be read.
        return serde_json::from_slice(body).map_err(|_| CallFailure::Lost);
    }
    let head = head.unwrap_or_default();
    let kind = if head.errcode == 0 { RefusalKind::of_status(*status) } else { kind_of(head.errcode) };
    let code = if head.errcode == 0 { i64::from(*status) } else { head.errcode };
    let mut words = explained(head.errcode, &head.errmsg);
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        words = words.replace(secret.expose(), "…");
    }
    Err(CallFailure::Refused(CallRefusal::new(kind, code, words)))
}

pub(super) fn kind_of(code: i64) -> RefusalKind {
    match code {
        // Of the secret, the company, or the access token.
        40_001 | 40_013 | 40_014 | 40_091 | 41_001 | 42_001 | 42_009 => RefusalKind::CredentialDead,
        45_009 | 45_033 | 45_047 | 45_011 => RefusalKind::RateLimited,
        -1 | 50_001 | 50_002 => RefusalKind::ServerError,
        48_001 | 48_002 | 48_004 | 60_011 | 60_020 | 301_002 | 301_007 => RefusalKind::Forbidden,
        40_003 | 40_007 | 60_111 | 81_013 | 86_003 | 86_008 => RefusalKind::Gone,
        _ => RefusalKind::Permanent,
    }
}

/// The error in words that say what to do, for the errors that one meets.
pub(super) fn explained(code: i64, message: &str) -> String {
    let words = match code {
        40_003 | 60_111 => "chat not found: the company has no such person",
        40_007 => "WeCom no longer has this file",
        40_056 => "WeCom does not know this agent_id",
        45_002 => "the message is too long",
        48_002 => "the application may not make this call",
        60_011 | 301_002 => {
            "the secret does not belong to this agent_id, or the person cannot see the application"
        }
        60_020 => {
            "the address of this server is not trusted: add it to the trusted IPs of the application in WeCom's console"
        }
        81_013 => "chat not found: the person does not exist or cannot see the application",
        _ => {
            // A hint with addresses and links follows the error itself.
            let message = message.split(", hint").next().unwrap_or_default();
            return format!("WeCom refuses: {message} (code {code})");
        }
    };
    format!("{words} (code {code})")
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::wecom::LABEL;

    fn refused(status: u16, body: &str) -> CallFailure {
        let reply = CallReply { status, headers: HeaderMap::new(), body: body.as_bytes().to_vec() };
        read::<Value>(&reply, &[&Secret::new("canary")]).unwrap_err()
    }

    #[test]
    fn errors_are_told_in_words_although_the_status_is_200() {
        for (status, body, expected) in [
            (200, r#"{"errcode":60020,"errmsg":"not allow to access from your ip"}"#, "trusted IPs"),
            (200, r#"{"errcode":81013,"errmsg":"x"}"#, "chat not found"),
            (200, r#"{"errcode":45009,"errmsg":"x"}"#, "rate limit: WeCom asks to wait"),
            (200, r#"{"errcode":40001,"errmsg":"x"}"#, "unauthorized"),
            (200, r#"{"errcode":-1,"errmsg":"system busy"}"#, "failed with status -1"),
            (
                200,
                r#"{"errcode":44444,"errmsg":"odd canary, hint: [1]"}"#,
                "WeCom refuses: odd … (code 44444)",
            ),
            (502, "<html>", "status 502"),
        ] {
            let error = refused(status, body).error(LABEL);
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("network") && !error.contains("canary"), "{error}");
        }
    }

    #[test]
    fn an_access_token_that_ended_is_replaced_and_a_wrong_company_is_not() {
        let failure = |code| refused(200, &format!(r#"{{"errcode":{code},"errmsg":"x"}}"#));
        assert!(is_stale(&failure(42_001)) && is_stale(&failure(40_014)));
        assert!(!is_stale(&failure(40_013)) && !is_stale(&failure(45_009)));
        assert_eq!(refused(200, "nonsense"), CallFailure::Lost);
    }
}

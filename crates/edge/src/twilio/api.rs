//! Client of Twilio's REST API: one call, its response, and its errors in words.

use std::time::Duration;

use http::Method;
use posthouse_wire::TenantId;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{ACCOUNT, API_KEY_ID, API_KEY_SECRET, AUTH_TOKEN, LABEL, Twilio};
use crate::bots::OpenedBot;
use crate::platform_calls::{CallFailure, CallRefusal, CallReply, CallShare, RefusalKind, ShareOwner};

/// The version of the API, which is a part of every path.
const VERSION: &str = "2010-04-01";

/// One call.
#[derive(Clone)]
pub(super) struct TwilioCall {
    pub method: Method,
    /// For traces and logs; without ids.
    pub name: &'static str,
    /// The path below the account, such as `/Messages.json`.
    pub path: String,
    pub form: Vec<(&'static str, String)>,
    /// Whether the auth token is used even if there is an API key. An API key may not read its account.
    pub as_account: bool,
    /// The tenant for whose agent it is made.
    pub share_of: ShareOwner,
}

impl TwilioCall {
    pub fn get(name: &'static str, path: String) -> Self {
        Self { method: Method::GET, name, path, form: Vec::new(), as_account: false, share_of: None }
    }

    pub fn post(name: &'static str, path: String, form: Vec<(&'static str, String)>) -> Self {
        Self { method: Method::POST, name, path, form, as_account: false, share_of: None }
    }

    /// Counts the call as one of this tenant, in the limits that tenants share.
    pub fn for_tenant(self, tenant: &TenantId) -> Self {
        Self { share_of: Some(tenant.clone()), ..self }
    }

    pub fn with_auth_token(self) -> Self {
        Self { as_account: true, ..self }
    }
}

/// The error object of a refusal.
#[derive(Deserialize, Default)]
#[serde(default)]
struct TwilioRefusal {
    code: i64,
    message: String,
}

/// The id of an account, a message or a file. Anything else could change the path of a call.
pub(super) fn is_sid(id: &str) -> bool {
    (1..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

impl Twilio {
    /// The base URL for this bot's calls.
    pub(super) fn base_of<'a>(&'a self, bot: &'a OpenedBot) -> &'a str {
        bot.setting("api_base_url").unwrap_or(&self.api_base).trim_end_matches('/')
    }

    /// The URL of a path below the bot's account.
    pub(super) fn address(&self, bot: &OpenedBot, path: &str) -> Result<String, CallFailure> {
        let account = bot.setting(ACCOUNT).filter(|account| is_sid(account));
        let account = account.ok_or_else(|| CallFailure::Unreached("the bot has no account".to_owned()))?;
        Ok(format!("{}/{VERSION}/Accounts/{account}{path}", self.base_of(bot)))
    }

    /// A request with the bot's credentials.
    pub(super) fn request(
        &self,
        bot: &OpenedBot,
        method: Method,
        address: String,
        as_account: bool,
    ) -> Result<reqwest::RequestBuilder, CallFailure> {
        let missing = || CallFailure::Unreached("the bot has no auth token".to_owned());
        let key = bot.setting(API_KEY_ID).zip(bot.credentials.get(API_KEY_SECRET)).filter(|_| !as_account);
        let (user, password) = match key {
            Some(key) => key,
            None => bot.setting(ACCOUNT).zip(bot.credentials.get(AUTH_TOKEN)).ok_or_else(missing)?,
        };
        let request = self.client.http()?.request(method, address);
        Ok(request.basic_auth(user, Some(password.expose())))
    }

    /// Makes a call once, after a pause that Twilio asked for, and waits at most `limit` for the result.
    pub(super) async fn call<R: DeserializeOwned>(
        &self,
        bot: &OpenedBot,
        call: TwilioCall,
        limit: Duration,
    ) -> Result<R, CallFailure> {
        let begun = self.timepiece.instant();
        let share = CallShare { bot: &bot.id, of: &call.share_of };
        self.rate_limits.take(share, &[bot.id.as_str()], limit).await?;
        let left = limit.saturating_sub(self.timepiece.instant().since(begun));
        let request = self.request(bot, call.method, self.address(bot, &call.path)?, call.as_account)?;
        let request = if call.form.is_empty() { request } else { request.form(&call.form) };
        let mut answer = read(&self.client.exchange(request, left).await?);
        if let Err(CallFailure::Refused(refused)) = &mut answer {
            for name in [AUTH_TOKEN, API_KEY_SECRET] {
                if let Some(secret) = bot.credentials.get(name).filter(|secret| !secret.is_empty()) {
                    // Twilio does not repeat a secret in a message, but a stand-in might.
                    refused.description = refused.description.replace(secret.expose(), "…");
                }
            }
            match (refused.kind, refused.retry_after) {
                (RefusalKind::CredentialDead, _) => self.refused.report(&bot.id),
                (RefusalKind::RateLimited, Some(wait)) => self.rate_limits.pause(bot.id.as_str(), wait),
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
    let refusal: TwilioRefusal = serde_json::from_slice(body).unwrap_or_default();
    let kind = match refusal.code {
        20003 => RefusalKind::CredentialDead,
        20429 => RefusalKind::RateLimited,
        21610 | 21614 => RefusalKind::Gone,
        _ => RefusalKind::of_status(*status),
    };
    let words = match refusal.code {
        21211 | 21614 => "chat not found: this is not a number that can get messages",
        21408 => "the account may not send messages to this country",
        21606 | 21659 | 21660 => "the bot's number cannot send messages: check the setting `number`",
        21610 => "this person has opted out: they wrote STOP and get no messages until they write START",
        21617 => "the message is too long",
        63016 => {
            "the 24-hour window is closed: this person last wrote more than 24 hours ago, and until they write again \
             WhatsApp accepts only templates"
        }
        _ => refusal.message.as_str(),
    };
    let code = if refusal.code == 0 { i64::from(*status) } else { refusal.code };
    let description = if words.is_empty() { String::new() } else { format!("{words} (code {code})") };
    let wait = headers.get("retry-after").and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let refusal = CallRefusal::new(kind, code, description);
    Err(CallFailure::Refused(CallRefusal { retry_after: wait.map(Duration::from_secs), ..refusal }))
}

/// The failure of a call, for the operator.
pub(super) fn trouble_words(failure: &CallFailure) -> String {
    match failure {
        CallFailure::Refused(refused) if !refused.description.is_empty() => {
            format!("Twilio refuses: {}", refused.description)
        }
        CallFailure::Unreached(cause) => format!("Twilio cannot be reached: {cause}"),
        CallFailure::Lost => "Twilio did not answer in time".to_owned(),
        CallFailure::Refused(_) | CallFailure::TooLarge => failure.cause(LABEL),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use serde_json::Value;

    use super::*;

    #[test]
    fn errors_are_told_in_words() {
        for (status, code, expected) in [
            (400, 21_610, "opted out"),
            (400, 21_211, "chat not found"),
            (400, 63_016, "24-hour window is closed"),
            (401, 20_003, "unauthorized: Twilio does not accept"),
            (429, 20_429, "rate limit: Twilio asks to wait"),
            (500, 20_500, "failed with status 20500"),
            (400, 21_999, "something (code 21999)"),
        ] {
            let body = format!(r#"{{"code":{code},"message":"something","status":{status}}}"#).into_bytes();
            let failure = read::<Value>(&CallReply { status, headers: HeaderMap::new(), body }).unwrap_err();
            let error = failure.error(LABEL);
            assert!(error.contains(expected), "{code}: {error}");
            assert!(!error.contains("network") && !error.contains("timed out"), "{error}");
        }
    }
}

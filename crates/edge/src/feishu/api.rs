//! Client of Feishu's Open API: the tenant access token, one call, its rate limits, its response and its errors.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::RETRY_AFTER;
use moka::sync::Cache;
use parking_lot::Mutex;
use posthouse_time::Instant;
use posthouse_wire::{BotId, Secret, TenantId};
use reqwest::Url;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::media::FeishuUpload;
use super::{APP_ID, APP_SECRET, DOMAIN, Feishu};
use crate::bots::OpenedBot;
use crate::platform_calls::{CallFailure, CallRefusal, CallReply, CallShare, RefusalKind, ShareOwner};

/// Messages that Feishu accepts in one chat in a second.
const MESSAGES: u32 = 5;
/// Updates that it accepts of one card in a second.
const CARD_UPDATES: u32 = 10;
const SECOND: Duration = Duration::from_secs(1);
/// More calls than anybody makes. Feishu does not announce its other limits, so that only its requests to wait count.
const CALLS: u32 = 1_000;
/// A token is replaced this long before its end, because calls may wait.
const TOKEN_MARGIN: Duration = Duration::from_secs(300);
/// Codes that say that the token is not valid (any more).
const TOKEN_CODES: [i64; 5] = [99991661, 99991663, 99991664, 99991665, 99991668];
/// The code for too many calls of one kind.
const CALL_LIMIT: i64 = 99_991_400;
const WAIT_HEADER: &str = "x-ogw-ratelimit-reset";

/// One call of the API. The path begins below `/open-apis`.
#[derive(Clone)]
pub(super) struct FeishuCall<'a> {
    /// Its name for the record.
    pub name: &'static str,
    pub method: Method,
    pub path: String,
    pub body: FeishuBody<'a>,
    /// The chat or card whose limit it counts against.
    pub limited: Option<LimitedBy>,
    /// The tenant for whose agent it is made.
    pub share_of: ShareOwner,
}

#[derive(Clone)]
pub(super) enum FeishuBody<'a> {
    Nothing,
    Json(Value),
    Upload(&'a FeishuUpload),
}

#[derive(Clone)]
pub(super) enum LimitedBy {
    Chat(String),
    Card(String),
}

impl<'a> FeishuCall<'a> {
    pub fn get(name: &'static str, path: String) -> Self {
        Self::new(name, Method::GET, path, FeishuBody::Nothing)
    }

    pub fn json(name: &'static str, method: Method, path: String, body: Value) -> Self {
        Self::new(name, method, path, FeishuBody::Json(body))
    }

    pub fn new(name: &'static str, method: Method, path: String, body: FeishuBody<'a>) -> Self {
        Self { name, method, path, body, limited: None, share_of: None }
    }

    pub fn in_chat(self, chat: &str) -> Self {
        Self { limited: Some(LimitedBy::Chat(chat.to_owned())), ..self }
    }

    pub fn on_card(self, card: &str) -> Self {
        Self { limited: Some(LimitedBy::Card(card.to_owned())), ..self }
    }

    /// Counts the call as one of this tenant, in the limits that tenants share.
    pub fn for_tenant(self, tenant: &TenantId) -> Self {
        Self { share_of: Some(tenant.clone()), ..self }
    }
}

/// Whether an id can be part of a path as it is.
pub(super) fn is_path_part(id: &str) -> bool {
    (1..=200).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// The tokens of all bots.
#[derive(Clone)]
pub(super) struct TenantTokens(Cache<BotId, Arc<TokenSlot>>);

/// The token of one bot. Only one call at a time asks for a new one.
#[derive(Default)]
struct TokenSlot {
    asking: tokio::sync::Mutex<()>,
    known: Mutex<Option<KnownToken>>,
}

#[derive(Clone)]
struct KnownToken {
    token: Secret,
    until: Instant,
    /// The secret for which it was given. A new secret needs a new token.
    given_for: Secret,
}

impl Default for TenantTokens {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(20_000).build())
    }
}

#[derive(Deserialize)]
struct TenantTokenAnswer {
    tenant_access_token: String,
    /// Seconds.
    #[serde(default)]
    expire: u64,
}

/// The fields that every answer has.
#[derive(Deserialize)]
struct FeishuAnswer {
    code: i64,
    #[serde(default)]
    msg: String,
}

#[derive(Deserialize)]
struct AnswerData<R> {
    data: R,
}

impl Feishu {
    /// The base URL for this bot's calls.
    pub(super) fn base_of<'a>(&'a self, bot: &'a OpenedBot) -> &'a str {
        let of_domain = match bot.setting(DOMAIN) {
            Some("lark") => Some(Feishu::LARK_BASE),
            _ => None,
        };
        bot.setting("api_base_url").or(of_domain).unwrap_or(&self.api_base).trim_end_matches('/')
    }

    /// Whether a URL is at the same host and port as the stand-in that plays Feishu for this bot. Feishu itself is
    /// never reached by plain http.
    pub(super) fn is_stand_in(&self, bot: &OpenedBot, url: &Url) -> bool {
        let base = Url::parse(self.base_of(bot)).ok().filter(|base| base.scheme() == "http");
        base.is_some_and(|base| {
            matches!(url.scheme(), "http" | "ws")
                && url.host_str() == base.host_str()
                && url.port_or_known_default() == base.port_or_known_default()
        })
    }

    /// The token with which calls of a bot are made.
    pub(super) async fn token(&self, bot: &OpenedBot, limit: Duration) -> Result<Secret, CallFailure> {
        let secret = bot.credentials.get(APP_SECRET).filter(|secret| !secret.is_empty());
        let secret = secret.ok_or_else(|| CallFailure::Unreached("the bot has no app secret".to_owned()))?;
        let slot = self.tokens.0.get_with_by_ref(&bot.id, Arc::default);
        let now = self.timepiece.instant();
        let known = || {
            let known = slot.known.lock().clone();
            known.filter(|known| known.until > now && known.given_for.expose() == secret.expose())
        };
        if let Some(known) = known() {
            return Ok(known.token);
        }
        let asking = self.timepiece.within(limit, slot.asking.lock()).await;
        let Ok(_asking) = asking else { return Err(CallFailure::Lost) };
        if let Some(known) = known() {
            return Ok(known.token);
        }
        let address = format!("{}/open-apis/auth/v3/tenant_access_token/internal", self.base_of(bot));
        let app = bot.setting(APP_ID).unwrap_or(bot.id.as_str());
        let body = json!({ "app_id": app, "app_secret": secret.expose() });
        let left = limit.saturating_sub(self.timepiece.instant().since(now));
        let response = self.client.exchange(self.client.http()?.post(address).json(&body), left).await?;
        if let Err(failure) = read_head(&response) {
            let failure = match failure {
                // Feishu has no status of its own for a secret that is wrong.
                CallFailure::Refused(refused)
                    if matches!(refused.code, 10003 | 10012 | 10013 | 10014 | 10015 | 10017) =>
                {
                    CallFailure::Refused(CallRefusal { kind: RefusalKind::CredentialDead, ..refused })
                }
                failure => failure,
            };
            if failure.is_credential_dead() {
                self.refused.report(&bot.id);
            }
            return Err(without_secret(failure, secret));
        }
        let answer: TenantTokenAnswer =
            serde_json::from_slice(&response.body).map_err(|_| CallFailure::Lost)?;
        let token = Secret::new(answer.tenant_access_token);
        let lasts = Duration::from_secs(answer.expire).saturating_sub(TOKEN_MARGIN);
        *slot.known.lock() =
            Some(KnownToken { token: token.clone(), until: now + lasts, given_for: secret.clone() });
        Ok(token)
    }

    fn forget_token(&self, bot: &OpenedBot, token: &Secret) {
        if let Some(slot) = self.tokens.0.get(&bot.id) {
            let mut known = slot.known.lock();
            if known.as_ref().is_some_and(|known| known.token.expose() == token.expose()) {
                *known = None;
            }
        }
    }

    /// Makes a call, after its rate limits allow it, and waits at most `limit` for the result. A token that Feishu does
    /// not accept any more is replaced once.
    pub(super) async fn call<R: DeserializeOwned>(
        &self,
        bot: &OpenedBot,
        call: &FeishuCall<'_>,
        limit: Duration,
    ) -> Result<R, CallFailure> {
        let response = self.call_for_reply(bot, call, limit).await?;
        // Some answers have no data.
        match serde_json::from_slice::<AnswerData<R>>(&response.body) {
            Ok(answer) => Ok(answer.data),
            Err(_) => serde_json::from_value(Value::Null).map_err(|_| CallFailure::Lost),
        }
    }

    /// As [`Feishu::call`], for answers whose fields are beside the code.
    pub(super) async fn call_for_reply(
        &self,
        bot: &OpenedBot,
        call: &FeishuCall<'_>,
        limit: Duration,
    ) -> Result<CallReply, CallFailure> {
        let begun = self.timepiece.instant();
        let bucket = self.take_turn(bot, call, limit).await?;
        let left = || limit.saturating_sub(self.timepiece.instant().since(begun));
        let mut is_repeat = false;
        loop {
            let token = self.token(bot, left()).await?;
            let address = format!("{}/open-apis{}", self.base_of(bot), call.path);
            let request =
                self.client.http()?.request(call.method.clone(), address).bearer_auth(token.expose());
            let request = match &call.body {
                FeishuBody::Nothing => request,
                FeishuBody::Json(body) => request.json(body),
                FeishuBody::Upload(upload) => request.multipart(upload.open().await?),
            };
            let response = self.client.exchange(request, left()).await?;
            let failure = match read_head(&response) {
                Ok(()) => return Ok(response),
                Err(failure) => without_secret(failure, &token),
            };
            let CallFailure::Refused(refused) = &failure else { return Err(failure) };
            if TOKEN_CODES.contains(&refused.code) {
                self.forget_token(bot, &token);
                if !std::mem::replace(&mut is_repeat, true) {
                    continue;
                }
                self.refused.report(&bot.id);
            }
            if let (RefusalKind::RateLimited, Some(wait)) = (refused.kind, refused.retry_after) {
                // Most refusals are about the chat. This one is about the call, in whatever chat.
                let of_call = format!("{}:{}", bot.id, call.name);
                let bucket = if refused.code == CALL_LIMIT { &of_call } else { &bucket };
                self.rate_limits.learn(bucket, 0, wait);
            }
            return Err(failure);
        }
    }

    /// Waits for the limits of a call. Returns the name of the narrowest.
    async fn take_turn(
        &self,
        bot: &OpenedBot,
        call: &FeishuCall<'_>,
        limit: Duration,
    ) -> Result<String, CallFailure> {
        let method = format!("{}:{}", bot.id, call.name);
        self.rate_limits.set_limit(&method, CALLS, SECOND);
        let narrow = match &call.limited {
            Some(LimitedBy::Chat(chat)) => Some((format!("{}:chat:{chat}", bot.id), MESSAGES)),
            Some(LimitedBy::Card(card)) => Some((format!("{}:card:{card}", bot.id), CARD_UPDATES)),
            None => None,
        };
        let share = CallShare { bot: &bot.id, of: &call.share_of };
        match narrow {
            Some((name, most)) => {
                self.rate_limits.set_limit(&name, most, SECOND);
                self.rate_limits.take(share, &[&method, &name], limit).await?;
                Ok(name)
            }
            None => {
                self.rate_limits.take(share, &[&method], limit).await?;
                Ok(method)
            }
        }
    }
}

/// Feishu does not repeat a credential in an error, but a stand-in might.
fn without_secret(failure: CallFailure, secret: &Secret) -> CallFailure {
    match failure {
        CallFailure::Refused(mut refused) => {
            refused.description = refused.description.replace(secret.expose(), "…");
            CallFailure::Refused(refused)
        }
        failure => failure,
    }
}

/// The pause that a response asks for, in whole seconds.
fn retry_after(response: &CallReply) -> Option<Duration> {
    let header = response.headers.get(WAIT_HEADER).or_else(|| response.headers.get(RETRY_AFTER))?;
    let seconds = header.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn read_head(response: &CallReply) -> Result<(), CallFailure> {
    let CallReply { status, body, .. } = response;
    let head: Option<FeishuAnswer> = serde_json::from_slice(body).ok();
    let (kind, code, description) = match head {
        Some(head) if head.code == 0 && *status < 300 => return Ok(()),
        Some(head) if head.code != 0 => {
            let kind = kind_of(head.code).unwrap_or(match RefusalKind::of_status(*status) {
                // The status says only that the code matters.
                RefusalKind::CredentialDead | RefusalKind::Forbidden | RefusalKind::Gone => {
                    RefusalKind::Permanent
                }
                kind => kind,
            });
            (kind, head.code, described(&head))
        }
        // Neither a result nor an error: what became of the call is not known.
        _ if *status < 300 => return Err(CallFailure::Lost),
        _ => match RefusalKind::of_status(*status) {
            RefusalKind::CredentialDead => (RefusalKind::Forbidden, i64::from(*status), String::new()),
            kind => (kind, i64::from(*status), String::new()),
        },
    };
    let refusal = CallRefusal::new(kind, code, description);
    Err(CallFailure::Refused(CallRefusal { retry_after: retry_after(response), ..refusal }))
}

fn kind_of(code: i64) -> Option<RefusalKind> {
    Some(match code {
        code if TOKEN_CODES.contains(&code) => RefusalKind::CredentialDead,
        CALL_LIMIT | 11232 | 11233 | 11247 | 230020 | 1000004 | 1000005 => RefusalKind::RateLimited,
        99991672 | 99991679 | 230002 | 230006 | 230013 | 230017 | 230018 | 230027 | 230035 | 232025 => {
            RefusalKind::Forbidden
        }
        230011 | 230110 | 230003 | 232006 | 234003 | 234008 => RefusalKind::Gone,
        1 | 2200 | 1061001 | 1663 => RefusalKind::ServerError,
        _ => return None,
    })
}

/// The error in words, with those that stock gateways recognise.
fn described(head: &FeishuAnswer) -> String {
    let FeishuAnswer { code, msg } = head;
    match code {
        230002 => {
            format!("forbidden: the bot is not in this chat; add it to the group ({code})")
        }
        230006 => format!("forbidden: the app has no bot; switch the bot ability on ({code})"),
        230013 => format!("forbidden: the bot is not available to this person ({code})"),
        99991672 | 99991679 => format!("forbidden: the app lacks a permission: {msg} ({code})"),
        230011 | 230110 | 230003 => format!("message to edit not found: it was recalled or deleted ({code})"),
        232006 => format!("chat not found ({code})"),
        230025 => format!("the message is too long ({code})"),
        230028 => format!("Feishu's content check refuses this message ({code})"),
        230072 => format!("a message can be edited 20 times, and this one has been ({code})"),
        _ => format!("Feishu refuses: {msg} ({code})"),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::feishu::LABEL;

    fn reply(status: u16, body: &str) -> CallReply {
        CallReply { status, headers: HeaderMap::new(), body: body.as_bytes().to_vec() }
    }

    #[test]
    fn refusals_are_told_in_the_words_that_gateways_know() {
        for (status, body, expected) in [
            (400, r#"{"code":230002,"msg":"x"}"#, "forbidden: the bot is not in this chat"),
            (400, r#"{"code":230011,"msg":"x"}"#, "message to edit not found"),
            (400, r#"{"code":230025,"msg":"x"}"#, "too long"),
            (400, r#"{"code":230072,"msg":"x"}"#, "edited 20 times"),
            (400, r#"{"code":99991663,"msg":"x"}"#, "unauthorized"),
            (400, r#"{"code":99991672,"msg":"need im:message"}"#, "need im:message"),
            (400, r#"{"code":99991400,"msg":"x"}"#, "rate limit"),
            (429, "", "rate limit"),
            (503, "<html>", "status 503"),
            (200, r#"{"code":999,"msg":"strange"}"#, "Feishu refuses: strange"),
        ] {
            let error = read_head(&reply(status, body)).unwrap_err().error(LABEL);
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("network") && !error.contains("timed out"), "{error}");
        }
    }

    #[test]
    fn a_success_that_cannot_be_read_is_not_repeated() {
        assert_eq!(read_head(&reply(200, "nonsense")), Err(CallFailure::Lost));
        assert_eq!(read_head(&reply(200, r#"{"code":0}"#)), Ok(()));
    }

    #[test]
    fn only_ids_are_put_into_paths() {
        assert!(is_path_part("om_dc13264520392913993dd051dba21dcf") && is_path_part("img_v3_0-a"));
        for wrong in ["", "a/b", "a?b", "..", "a%2f"] {
            assert!(!is_path_part(wrong), "{wrong}");
        }
    }
}

//! Client of a homeserver's client-server API: one call, its response and its errors.

use std::time::Duration;

use http::Method;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use posthouse_wire::TenantId;
use reqwest::{Body, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{HOMESERVER_URL, Matrix, TOKEN, USER_ID, is_appservice};
use crate::bots::OpenedBot;
use crate::platform::StoredMedia;
use crate::platform_calls::{CallFailure, CallRefusal, CallReply, CallShare, RefusalKind, ShareOwner};

/// One call.
#[derive(Clone)]
pub(super) struct MatrixCall<'a> {
    pub method: Method,
    /// For traces and logs; without ids.
    pub name: &'static str,
    /// The parts of the path below `/_matrix`, not escaped.
    pub path: Vec<String>,
    pub query: Vec<(&'static str, String)>,
    pub body: MatrixBody<'a>,
    /// Made without naming the user as whom an application service acts.
    pub by_service: bool,
    /// The tenant for whose agent it is made.
    pub share_of: ShareOwner,
}

#[derive(Clone)]
pub(super) enum MatrixBody<'a> {
    Nothing,
    Json(Value),
    File(&'a StoredMedia),
}

impl<'a> MatrixCall<'a> {
    pub fn new(method: Method, name: &'static str, path: &[&str]) -> Self {
        Self {
            method,
            name,
            path: path.iter().map(|part| (*part).to_owned()).collect(),
            query: Vec::new(),
            body: MatrixBody::Nothing,
            by_service: false,
            share_of: None,
        }
    }

    /// A call about a room. `path` is below the room.
    pub fn in_room(method: Method, name: &'static str, room: &str, path: &[&str]) -> Self {
        Self::new(method, name, &[&["client", "v3", "rooms", room], path].concat())
    }

    pub fn with_query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    pub fn with_json(self, body: Value) -> Self {
        Self { body: MatrixBody::Json(body), ..self }
    }

    pub fn with_file(self, file: &'a StoredMedia) -> Self {
        Self { body: MatrixBody::File(file), ..self }
    }

    pub fn by_service(self) -> Self {
        Self { by_service: true, ..self }
    }

    /// Counts the call as one of this tenant, in the limits that tenants share.
    pub fn for_tenant(self, tenant: &TenantId) -> Self {
        Self { share_of: Some(tenant.clone()), ..self }
    }
}

/// The error object of a refusal.
#[derive(Deserialize, Default)]
#[serde(default)]
struct MatrixError {
    errcode: String,
    error: String,
    retry_after_ms: Option<u64>,
}

impl Matrix {
    /// The base URL of the bot's homeserver.
    pub(super) fn base_of<'a>(&'a self, bot: &'a OpenedBot) -> &'a str {
        let own = bot.setting(HOMESERVER_URL).or_else(|| bot.setting("api_base_url"));
        own.unwrap_or(&self.api_base).trim_end_matches('/')
    }

    /// A URL below `/_matrix` of the bot's homeserver.
    pub(super) fn url_of(&self, bot: &OpenedBot, path: &[impl AsRef<str>]) -> Option<Url> {
        let mut url = Url::parse(self.base_of(bot)).ok()?;
        url.path_segments_mut().ok()?.pop_if_empty().push("_matrix").extend(path);
        Some(url)
    }

    /// Makes a call once, after its rate limit allows it, and waits at most `limit` for the result.
    pub(super) async fn call<R: DeserializeOwned>(
        &self,
        bot: &OpenedBot,
        call: MatrixCall<'_>,
        limit: Duration,
    ) -> Result<R, CallFailure> {
        let begun = self.timepiece.instant();
        // A homeserver counts messages apart from calls that only read.
        let sends = matches!(call.method, Method::PUT | Method::POST);
        let bucket = format!("{}:{}", bot.id, if sends { "send" } else { "read" });
        let share = CallShare { bot: &bot.id, of: &call.share_of };
        self.rate_limits.take(share, &[&bucket], limit).await?;
        let left = limit.saturating_sub(self.timepiece.instant().since(begun));
        let unsent = |cause: &str| CallFailure::Unreached(cause.to_owned());
        let token = bot.credentials.get(TOKEN).filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| unsent("the bot has no token"))?;
        let url = self.url_of(bot, &call.path).ok_or_else(|| unsent("homeserver_url is not a URL"))?;
        let mut query = call.query;
        if let Some(user) = bot.setting(USER_ID).filter(|_| is_appservice(bot) && !call.by_service) {
            query.push(("user_id", user.to_owned()));
        }
        let request = self.client.http()?.request(call.method, url).query(&query);
        let request = request.bearer_auth(token.expose());
        let request = match call.body {
            MatrixBody::Nothing => request,
            MatrixBody::Json(body) => request.json(&body),
            MatrixBody::File(file) => {
                let reader = file.open().await.ok_or_else(|| unsent("the file cannot be read"))?;
                let length = reader.size();
                request
                    .header(CONTENT_TYPE, &file.record.mime)
                    .header(CONTENT_LENGTH, length)
                    .body(Body::wrap_stream(reader.into_stream()))
            }
        };
        let mut answer = read(&self.client.exchange(request, left).await?);
        if let Err(CallFailure::Refused(refused)) = &mut answer {
            // A homeserver does not repeat the token in an error, but a proxy before it might.
            refused.description = refused.description.replace(token.expose(), "…");
            match (refused.kind, refused.retry_after) {
                (RefusalKind::CredentialDead, _) => self.refused.report(&bot.id),
                (RefusalKind::RateLimited, Some(wait)) => self.rate_limits.pause(&bucket, wait),
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
    let error: MatrixError = serde_json::from_slice(body).unwrap_or_default();
    let kind = match error.errcode.as_str() {
        "M_UNKNOWN_TOKEN" | "M_MISSING_TOKEN" | "M_USER_DEACTIVATED" => RefusalKind::CredentialDead,
        "M_LIMIT_EXCEEDED" => RefusalKind::RateLimited,
        "M_FORBIDDEN" | "M_GUEST_ACCESS_FORBIDDEN" | "M_EXCLUSIVE" | "M_USER_SUSPENDED" => {
            RefusalKind::Forbidden
        }
        "M_NOT_FOUND" => RefusalKind::Gone,
        "" => RefusalKind::of_status(*status),
        _ if *status >= 500 => RefusalKind::ServerError,
        _ => RefusalKind::Permanent,
    };
    let in_seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let wait = error.retry_after_ms.map(Duration::from_millis).or(in_seconds.map(Duration::from_secs));
    let refusal = CallRefusal::new(kind, i64::from(*status), described(&error));
    Err(CallFailure::Refused(CallRefusal { retry_after: wait, ..refusal }))
}

/// The error in words, with those that stock gateways recognise.
fn described(error: &MatrixError) -> String {
    match error.errcode.as_str() {
        "" => String::new(),
        // The code would hide that the word `forbidden` is still to be added.
        "M_FORBIDDEN" => error.error.clone(),
        "M_TOO_LARGE" => "the message is too long (M_TOO_LARGE)".to_owned(),
        "M_NOT_FOUND" => format!("chat not found: {} (M_NOT_FOUND)", error.error),
        code => format!("{} ({code})", error.error),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::matrix::LABEL;

    fn refused(status: u16, body: &str) -> CallFailure {
        let response = CallReply { status, headers: HeaderMap::new(), body: body.as_bytes().to_vec() };
        read::<Value>(&response).unwrap_err()
    }

    #[test]
    fn errors_are_told_in_the_words_that_gateways_know() {
        for (status, body, expected) in [
            (401, r#"{"errcode":"M_UNKNOWN_TOKEN","error":"x"}"#, "unauthorized"),
            (429, r#"{"errcode":"M_LIMIT_EXCEEDED","retry_after_ms":1500}"#, "asks to wait 2 s"),
            (403, r#"{"errcode":"M_FORBIDDEN","error":"not in room"}"#, "forbidden: not in room"),
            (404, r#"{"errcode":"M_NOT_FOUND","error":"x"}"#, "chat not found"),
            (413, r#"{"errcode":"M_TOO_LARGE","error":"x"}"#, "too long"),
            (502, "<html>", "status 502"),
            (400, r#"{"errcode":"M_UNKNOWN","error":"odd"}"#, "odd (M_UNKNOWN)"),
        ] {
            let error = refused(status, body).error(LABEL);
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("network") && !error.contains("timed out"), "{error}");
        }
    }

    #[test]
    fn a_pause_is_read_from_the_header_if_the_body_has_none() {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, "3".parse().unwrap());
        let body = br#"{"errcode":"M_LIMIT_EXCEEDED"}"#.to_vec();
        let failure = read::<Value>(&CallReply { status: 429, headers, body }).unwrap_err();
        let CallFailure::Refused(refusal) = failure else { panic!("{failure:?}") };
        assert_eq!(refusal.retry_after, Some(Duration::from_secs(3)));
    }
}

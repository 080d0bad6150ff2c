//! Tokens for credentials: `/oauth/token` for clients (RFC 6749, client credentials), `/api/oauth/token`
//! for stock agents with a planted login (cron contract section 1.1).

use std::net::IpAddr;
use std::time::Duration;

use axum::extract::rejection::FormRejection;
use axum::extract::{DefaultBodyLimit, Extension, Form, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, CACHE_CONTROL, PRAGMA, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use posthouse_wire::Secret;
use serde_json::{Value, json};
use vault::{BOOTSTRAP_CLIENT, Refreshed};

use crate::auth::Caller;
use crate::metrics::Why;
use crate::{Fault, Relay};

/// The largest body that is read.
const LARGEST_BODY: usize = 16 * 1024;
/// Where a stock agent puts its refresh token.
const REFRESH_TOKEN: &str = "x-nous-refresh-token";
/// What a login is good for. A stock agent takes one without the vendor's scope for no key to a model.
pub const LOGIN_SCOPE: &str = "cron";

type Fields = Result<Form<Vec<(String, String)>>, FormRejection>;

/// Both doors.
pub(crate) fn routes(relay: &Relay) -> Router {
    Router::new()
        .route("/oauth/token", post(exchange))
        .route("/api/oauth/token", post(refresh))
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .with_state(relay.clone())
}

/// What is answered instead of a token. A stock agent throws its credentials away at `invalid_grant` and
/// `refresh_token_reused`, so those two are said only when nothing could help any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    Malformed(&'static str),
    TooLarge,
    UnknownGrantType,
    WrongClient,
    WrongGrant,
    Reused,
    /// Too many refusals from there.
    Barred,
    /// A fault of ours.
    Unavailable,
}

async fn exchange(
    State(relay): State<Relay>,
    caller: Option<Extension<Caller>>,
    headers: HeaderMap,
    fields: Fields,
) -> Result<Response, Refusal> {
    let form = Asked::read(fields)?;
    let (client, secret) = form.credential(&headers)?;
    form.grant_type("client_credentials")?;
    let address = caller.map(|Extension(caller)| caller.0);
    let granted = match relay.0.keyring.client(&client, secret.expose()).await.map_err(unavailable)? {
        Some(client) => relay.0.keyring.grant_access(&client.client).await.map_err(unavailable)?,
        None => None,
    };
    let Some(grant) = granted else {
        return Err(relay.turned_away(address, Refusal::WrongClient).await);
    };
    relay.count_token("granted");
    Ok(answer(json!({
        "access_token": grant.access_token.expose(),
        "token_type": "Bearer",
        "expires_in": grant.expires_in.as_secs(),
    })))
}

async fn refresh(
    State(relay): State<Relay>,
    caller: Option<Extension<Caller>>,
    headers: HeaderMap,
    fields: Fields,
) -> Result<Response, Refusal> {
    let form = Asked::read(fields)?;
    form.grant_type("refresh_token")?;
    let client = form.get("client_id").ok_or(Refusal::Malformed("client_id is missing"))?;
    // Looked at before the token: no answer to somebody else's client tells whether a token is good.
    if client != BOOTSTRAP_CLIENT {
        return Err(Refusal::WrongClient);
    }
    let presented = headers.get(REFRESH_TOKEN).and_then(|value| value.to_str().ok());
    let presented =
        presented.ok_or(Refusal::Malformed("the refresh token goes into the header x-nous-refresh-token"))?;
    let address = caller.map(|Extension(caller)| caller.0);
    match relay.0.keyring.refresh(presented, client).await.map_err(unavailable)? {
        Refreshed::Granted(login) => {
            relay.count_token("granted");
            Ok(answer(json!({
                "access_token": login.access.access_token.expose(),
                "refresh_token": login.refresh_token.expose(),
                "token_type": "Bearer",
                "expires_in": login.access.expires_in.as_secs(),
                "scope": LOGIN_SCOPE,
            })))
        }
        Refreshed::Reused(login) => {
            // The login goes on for whoever holds its latest token; an operator who did not copy the file
            // about will want to end it.
            tracing::warn!(login.id = %login, "a refresh token that was exchanged before was presented again");
            Err(relay.turned_away(address, Refusal::Reused).await)
        }
        Refreshed::Refused => Err(relay.turned_away(address, Refusal::WrongGrant).await),
    }
}

impl Relay {
    /// A refusal that counts against the address it goes to: guessing gets slower, then stops.
    async fn turned_away(&self, address: Option<IpAddr>, refusal: Refusal) -> Refusal {
        let why = if refusal == Refusal::Reused { "reused" } else { "refused" };
        if self.slowed_down(address, why).await { refusal } else { Refusal::Barred }
    }

    /// Counts one more refusal of somebody there, and waits as long as that shall take. False, and at
    /// once, when there were too many.
    pub(crate) async fn slowed_down(&self, address: Option<IpAddr>, why: &'static str) -> bool {
        let pause = self.0.refusals.pause(None, address, self.0.timepiece.now());
        self.count_token(if pause.is_some() { why } else { "barred" });
        self.0.timepiece.after(pause.unwrap_or_default()).await;
        pause.is_some()
    }

    fn count_token(&self, why: &'static str) {
        self.0.metrics.tokens.get_or_create(&Why { why }).inc();
    }
}

/// A form, each name at most once.
struct Asked(Vec<(String, Secret)>);

impl Asked {
    fn read(fields: Fields) -> Result<Self, Refusal> {
        let Form(fields) = fields.map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Refusal::TooLarge,
            _ => Refusal::Malformed("the body is no application/x-www-form-urlencoded form"),
        })?;
        let mut read: Vec<(String, Secret)> = Vec::with_capacity(fields.len());
        for (name, value) in fields {
            if read.iter().any(|(known, _)| *known == name) {
                return Err(Refusal::Malformed("a field stands there twice"));
            }
            read.push((name, Secret::new(value)));
        }
        Ok(Self(read))
    }

    /// An empty field is none.
    fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.expose())
            .filter(|v| !v.is_empty())
    }

    fn grant_type(&self, expected: &str) -> Result<(), Refusal> {
        match self.get("grant_type") {
            Some(found) if found == expected => Ok(()),
            Some(_) => Err(Refusal::UnknownGrantType),
            None => Err(Refusal::Malformed("grant_type is missing")),
        }
    }

    /// From HTTP Basic or from the form, and not from both.
    fn credential(&self, headers: &HeaderMap) -> Result<(String, Secret), Refusal> {
        let named = (self.get("client_id"), self.get("client_secret"));
        match (headers.get(AUTHORIZATION), named) {
            (None, (Some(client), Some(secret))) => Ok((client.to_owned(), Secret::new(secret))),
            (None, _) => Err(Refusal::WrongClient),
            (Some(_), (_, Some(_))) => Err(Refusal::Malformed("the client proves itself in two ways")),
            (Some(header), (named, None)) => {
                let (client, secret) = header.to_str().ok().and_then(basic).ok_or(Refusal::WrongClient)?;
                match named {
                    Some(named) if named != client => Err(Refusal::Malformed("two clients are named")),
                    _ => Ok((client, secret)),
                }
            }
        }
    }
}

/// The two parts of a Basic header. Our client ids hold a colon, our secrets do not; whoever follows the
/// RFC to the letter writes that colon as `%3A`.
pub(crate) fn basic(header: &str) -> Option<(String, Secret)> {
    let (scheme, encoded) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = Secret::new(String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?);
    let (client, secret) = text.expose().rsplit_once(':')?;
    Some((client.replace("%3A", ":").replace("%3a", ":"), Secret::new(secret)))
}

fn unavailable(fault: vault::Fault) -> Refusal {
    let fault = Fault::from(fault);
    tracing::error!(%fault, "could not exchange a credential");
    Refusal::Unavailable
}

/// RFC 6749 wants both headers with everything that holds a token.
fn answer(body: Value) -> Response {
    ([(CACHE_CONTROL, "no-store"), (PRAGMA, "no-cache")], Json(body)).into_response()
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        const LATER: Duration = Duration::from_secs(60);
        let (status, error, description) = match self {
            Refusal::Malformed(why) => (StatusCode::BAD_REQUEST, "invalid_request", why),
            Refusal::TooLarge => {
                (StatusCode::PAYLOAD_TOO_LARGE, "invalid_request", "the body is larger than 16 KiB")
            }
            Refusal::UnknownGrantType => {
                (StatusCode::BAD_REQUEST, "unsupported_grant_type", "this door does not know that grant")
            }
            Refusal::WrongClient => {
                (StatusCode::UNAUTHORIZED, "invalid_client", "the client is unknown or its secret is wrong")
            }
            Refusal::WrongGrant => (
                StatusCode::BAD_REQUEST,
                "invalid_grant",
                "the refresh token is unknown or its login has ended",
            ),
            Refusal::Reused => {
                (StatusCode::BAD_REQUEST, "refresh_token_reused", "the refresh token was exchanged before")
            }
            Refusal::Barred => {
                (StatusCode::TOO_MANY_REQUESTS, "slow_down", "too many refusals: try again later")
            }
            Refusal::Unavailable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "temporarily_unavailable",
                "the house cannot do this now: try again later",
            ),
        };
        let mut response = answer(json!({ "error": error, "error_description": description }));
        *response.status_mut() = status;
        if self == Refusal::WrongClient {
            response.headers_mut().insert(WWW_AUTHENTICATE, http::HeaderValue::from_static("Basic"));
        }
        if self == Refusal::Barred {
            response.headers_mut().insert(RETRY_AFTER, LATER.as_secs().into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_proves_itself_by_http_basic_however_its_colon_is_written() {
        for client in ["agent:inst_1", "agent%3Ainst_1", "agent%3ainst_1"] {
            let header = format!("Basic {}", STANDARD.encode(format!("{client}:phs_1")));
            let (client, secret) = basic(&header).unwrap();
            assert_eq!((client.as_str(), secret.expose()), ("agent:inst_1", "phs_1"));
        }
        for wrong in ["Basic", "Basic !", "Bearer YTpi", "Basic YWI=", ""] {
            assert!(basic(wrong).is_none(), "{wrong}");
        }
    }
}

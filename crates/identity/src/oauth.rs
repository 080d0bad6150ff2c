//! OAuth token endpoints.
//!
//! `/oauth/token` serves clients (RFC 6749, client credentials). `/api/oauth/token` serves stock agents with a
//! bootstrap login (cron contract section 1.1).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use http::header::{AUTHORIZATION, CACHE_CONTROL, PRAGMA, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use http_kit::{
    BoundedForm, ClientAddress, Endpoint, Operation, UnreadBody, UnreadForm, operations, router, sole_header,
};
use posthouse_time::Timepiece;
use posthouse_wire::Secret;
use serde_json::{Value, json};
use vault::{BOOTSTRAP_CLIENT, Keyring, Login, Refreshed};

use crate::authorization::{authorization, basic};
use crate::refresh_log::RefreshLog;
use crate::{Metrics, Throttle};

/// Largest request body in bytes.
const LARGEST_BODY: usize = 16 * 1024;
/// Maximum number of form fields. A request needs four; unknown ones are ignored, up to this number.
const MOST_FIELDS: usize = 64;
/// Header in which a stock agent sends its refresh token.
const REFRESH_TOKEN: &str = "x-nous-refresh-token";
/// Scope of a login. Because it lacks the vendor's scope, a stock agent does not take the login for a model API key.
pub const LOGIN_SCOPE: &str = "cron";

type FormFields = Result<BoundedForm<LARGEST_BODY>, UnreadForm>;

/// State of both endpoints.
#[derive(Clone)]
pub(crate) struct TokenEndpoints {
    keyring: Keyring,
    throttle: Throttle,
    metrics: Arc<Metrics>,
    refresh_log: Arc<RefreshLog>,
    timepiece: Timepiece,
}

const ENDPOINTS: &[Endpoint<TokenEndpoints>] = &[
    Endpoint::open("POST", "/oauth/token", || post(exchange)),
    Endpoint::open("POST", "/api/oauth/token", || post(refresh)),
];

/// The operations of the token endpoints.
pub const OPERATIONS: &[Operation] = &operations::<TokenEndpoints, { ENDPOINTS.len() }>(ENDPOINTS);

/// The OpenAPI fragment of the token endpoints, written by hand.
pub const OPENAPI: &str = include_str!("openapi.json");

/// Routes of both endpoints.
pub(crate) fn routes(endpoints: TokenEndpoints) -> Router {
    router("", ENDPOINTS).with_state(endpoints)
}

/// Error responses of the token endpoints. A stock agent deletes its credentials on `invalid_grant` and
/// `refresh_token_reused`, so those two are sent only when the credentials can never work again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenError {
    Malformed(&'static str),
    TooLarge,
    UnknownGrantType,
    WrongClient,
    WrongGrant,
    Reused,
    /// Too many refusals from this address.
    Barred,
    /// The login is used in too many places at once.
    PutOff,
    /// An internal error.
    Unavailable,
}

async fn exchange(
    State(endpoints): State<TokenEndpoints>,
    address: Option<Extension<ClientAddress>>,
    headers: HeaderMap,
    fields: FormFields,
) -> Result<Response, TokenError> {
    let address = address.map(|Extension(ClientAddress(address))| address);
    match endpoints.exchange_client(&headers, fields).await {
        Ok(answer) => Ok(answer),
        Err(refusal) => Err(endpoints.turned_away(address, refusal).await),
    }
}

async fn refresh(
    State(endpoints): State<TokenEndpoints>,
    address: Option<Extension<ClientAddress>>,
    headers: HeaderMap,
    fields: FormFields,
) -> Result<Response, TokenError> {
    let address = address.map(|Extension(ClientAddress(address))| address);
    match endpoints.exchange_refresh_token(&headers, fields, address).await {
        Ok(answer) => Ok(answer),
        Err(refusal) => Err(endpoints.turned_away(address, refusal).await),
    }
}

impl TokenEndpoints {
    pub fn new(keyring: Keyring, throttle: Throttle, metrics: Arc<Metrics>, timepiece: Timepiece) -> Self {
        Self { keyring, throttle, metrics, refresh_log: Arc::default(), timepiece }
    }

    async fn exchange_client(&self, headers: &HeaderMap, fields: FormFields) -> Result<Response, TokenError> {
        let form = TokenForm::read(fields)?;
        let (client, secret) = form.credential(headers)?;
        form.grant_type("client_credentials")?;
        let keyring = &self.keyring;
        let granted = match keyring.client(&client, secret.expose()).await.map_err(unavailable)? {
            Some(client) => keyring.grant_access(&client.client).await.map_err(unavailable)?,
            None => None,
        };
        let grant = granted.ok_or(TokenError::WrongClient)?;
        self.metrics.count_token("granted");
        Ok(answer(json!({
            "access_token": grant.access_token.expose(),
            "token_type": "Bearer",
            "expires_in": grant.expires_in.as_secs(),
        })))
    }

    async fn exchange_refresh_token(
        &self,
        headers: &HeaderMap,
        fields: FormFields,
        address: Option<IpAddr>,
    ) -> Result<Response, TokenError> {
        let form = TokenForm::read(fields)?;
        form.grant_type("refresh_token")?;
        let client = form.get("client_id").ok_or(TokenError::Malformed("client_id is missing"))?;
        // Checked before the token, so that no response to a wrong client reveals whether a token is valid.
        if client != BOOTSTRAP_CLIENT {
            return Err(TokenError::WrongClient);
        }
        let presented = sole_header(headers, REFRESH_TOKEN).and_then(|value| value.to_str().ok());
        let presented = presented
            .ok_or(TokenError::Malformed("send the refresh token in one header x-nous-refresh-token"))?;
        match self.keyring.refresh(presented, client, address).await.map_err(unavailable)? {
            Refreshed::Granted(login) => Ok(self.refreshed(&login)),
            Refreshed::Forked(login, record) => {
                tracing::warn!(
                    login.id = %record.login,
                    instance.id = %record.instance,
                    lines = record.lines,
                    address = address.map(tracing::field::display),
                    addresses = record.addresses.join(", "),
                    "a login is used in {} places at once because its file was copied; end it with `posthouse client revoke {}` \
                     unless that is intended",
                    record.lines,
                    record.login,
                );
                Ok(self.refreshed(&login))
            }
            Refreshed::Full(record) => {
                if self.refresh_log.is_due(&record.login, self.timepiece.instant()) {
                    tracing::warn!(
                        login.id = %record.login,
                        instance.id = %record.instance,
                        lines = record.lines,
                        address = address.map(tracing::field::display),
                        addresses = record.addresses.join(", "),
                        "refused a refresh for now: the login is used in too many places at once",
                    );
                }
                Err(TokenError::PutOff)
            }
            Refreshed::Reused(login) => {
                // The login stays valid for the holder of its latest token. An operator who did not copy the file
                // will want to end it.
                tracing::warn!(login.id = %login, address = address.map(tracing::field::display), "a refresh token was presented again after it had been exchanged");
                Err(TokenError::Reused)
            }
            Refreshed::Refused => Err(TokenError::WrongGrant),
        }
    }

    fn refreshed(&self, login: &Login) -> Response {
        self.metrics.count_token("granted");
        answer(json!({
            "access_token": login.access.access_token.expose(),
            "refresh_token": login.refresh_token.expose(),
            "token_type": "Bearer",
            "expires_in": login.access.expires_in.as_secs(),
            "scope": LOGIN_SCOPE,
        }))
    }

    /// Counts a refusal against the client's address, so that guessing and sending malformed requests get slower and
    /// then stop. An internal error counts against nobody.
    async fn turned_away(&self, address: Option<IpAddr>, refusal: TokenError) -> TokenError {
        let why = match refusal {
            TokenError::Unavailable => return refusal,
            TokenError::Reused => "reused",
            TokenError::PutOff => "put_off",
            _ => "refused",
        };
        if self.throttle.slow_down(address, why).await { refusal } else { TokenError::Barred }
    }
}

/// A form in which each name occurs at most once.
struct TokenForm(HashMap<String, Secret>);

impl TokenForm {
    fn read(fields: FormFields) -> Result<Self, TokenError> {
        let BoundedForm(fields) = fields.map_err(|unread| match unread {
            UnreadForm::Body(UnreadBody::TooLarge { .. }) => TokenError::TooLarge,
            _ => TokenError::Malformed("the body must be an application/x-www-form-urlencoded form"),
        })?;
        if fields.len() > MOST_FIELDS {
            return Err(TokenError::Malformed("the form has more than 64 fields"));
        }
        let mut read = HashMap::with_capacity(fields.len());
        for (name, value) in fields {
            if read.insert(name, Secret::new(value)).is_some() {
                return Err(TokenError::Malformed("a field occurs twice"));
            }
        }
        Ok(Self(read))
    }

    /// The value of a field. An empty field counts as missing.
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(Secret::expose).filter(|value| !value.is_empty())
    }

    fn grant_type(&self, expected: &str) -> Result<(), TokenError> {
        match self.get("grant_type") {
            Some(found) if found == expected => Ok(()),
            Some(_) => Err(TokenError::UnknownGrantType),
            None => Err(TokenError::Malformed("grant_type is missing")),
        }
    }

    /// The client credential, from HTTP Basic or from the form, but not from both.
    fn credential(&self, headers: &HeaderMap) -> Result<(String, Secret), TokenError> {
        let named = (self.get("client_id"), self.get("client_secret"));
        if headers.contains_key(AUTHORIZATION) && authorization(headers).is_none() {
            return Err(TokenError::Malformed("there is more than one Authorization header"));
        }
        match (authorization(headers), named) {
            (None, (Some(client), Some(secret))) => Ok((client.to_owned(), Secret::new(secret))),
            (None, _) => Err(TokenError::WrongClient),
            (Some(_), (_, Some(_))) => Err(TokenError::Malformed(
                "send the client secret in the form or in the Authorization header, not in both",
            )),
            (Some(header), (named, None)) => {
                let (client, secret) = header.to_str().ok().and_then(basic).ok_or(TokenError::WrongClient)?;
                match named {
                    Some(named) if named != client => Err(TokenError::Malformed(
                        "client_id differs from the client in the Authorization header",
                    )),
                    _ => Ok((client, secret)),
                }
            }
        }
    }
}

fn unavailable(fault: vault::Fault) -> TokenError {
    tracing::error!(%fault, "could not exchange a credential");
    TokenError::Unavailable
}

/// RFC 6749 requires both headers on every response with a token.
fn answer(body: Value) -> Response {
    ([(CACHE_CONTROL, "no-store"), (PRAGMA, "no-cache")], Json(body)).into_response()
}

impl IntoResponse for TokenError {
    fn into_response(self) -> Response {
        const LATER: Duration = Duration::from_secs(60);
        let (status, error, description) = match self {
            TokenError::Malformed(why) => (StatusCode::BAD_REQUEST, "invalid_request", why),
            TokenError::TooLarge => {
                (StatusCode::PAYLOAD_TOO_LARGE, "invalid_request", "the body is larger than 16 KiB")
            }
            TokenError::UnknownGrantType => (
                StatusCode::BAD_REQUEST,
                "unsupported_grant_type",
                "this endpoint does not support that grant_type",
            ),
            TokenError::WrongClient => {
                (StatusCode::UNAUTHORIZED, "invalid_client", "the client is unknown or its secret is wrong")
            }
            TokenError::WrongGrant => (
                StatusCode::BAD_REQUEST,
                "invalid_grant",
                "the refresh token is unknown or its login has ended",
            ),
            TokenError::Reused => {
                (StatusCode::BAD_REQUEST, "refresh_token_reused", "the refresh token was already exchanged")
            }
            TokenError::Barred => {
                (StatusCode::TOO_MANY_REQUESTS, "slow_down", "too many failed attempts: try again later")
            }
            TokenError::PutOff | TokenError::Unavailable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "temporarily_unavailable",
                "the server cannot do this now: try again later",
            ),
        };
        let mut response = answer(json!({ "error": error, "error_description": description }));
        *response.status_mut() = status;
        if self == TokenError::WrongClient {
            response.headers_mut().insert(WWW_AUTHENTICATE, http::HeaderValue::from_static("Basic"));
        }
        if self == TokenError::Barred {
            response.headers_mut().insert(RETRY_AFTER, LATER.as_secs().into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_endpoint_is_described_and_nothing_else_is() {
        let wrong = http_kit::openapi::check_fragment(OPENAPI, &[], OPERATIONS);
        assert_eq!(wrong, Vec::<String>::new());
    }
}

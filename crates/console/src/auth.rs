//! Authentication of the operator by the admin token.

use aws_lc_rs::digest::{SHA256, digest};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::Extensions;
use http::header::{AUTHORIZATION, CACHE_CONTROL, HeaderMap, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http_kit::{ClientAddress, OverLimit, RequestControl};
use posthouse_wire::Secret;
use relay::Relay;
use subtle::ConstantTimeEq;

use crate::problem::AdminProblem;
use crate::routes::Console;

/// The stored admin token: only its hash.
#[derive(Clone)]
pub struct AdminToken(String);

impl AdminToken {
    /// The hash to store: SHA-256 in lower-case hex. The token is long and random, so no slower hash is
    /// needed.
    pub fn hash(token: &Secret) -> String {
        hex::encode(digest(&SHA256, token.expose().trim().as_bytes()))
    }

    /// From the stored hash. A text that is not a hash admits nobody.
    pub fn from_hash(hash: impl Into<String>) -> Self {
        Self(hash.into())
    }

    /// Compares hashes in constant time.
    pub fn admits(&self, presented: &Secret) -> bool {
        !presented.is_empty() && bool::from(Self::hash(presented).as_bytes().ct_eq(self.0.as_bytes()))
    }

    /// Whether a request has the token as `Authorization: Bearer`. Also for other paths that need it, such
    /// as `/metrics`.
    pub fn admits_request(&self, headers: &HeaderMap) -> bool {
        let mut presented = headers.get_all(AUTHORIZATION).iter();
        let (Some(header), None) = (presented.next(), presented.next()) else { return false };
        let Some((scheme, token)) = header.to_str().ok().and_then(|text| text.split_once(' ')) else {
            return false;
        };
        scheme.eq_ignore_ascii_case("bearer") && self.admits(&Secret::new(token.trim()))
    }
}

/// Check of the admin token with a rate limit. Wrong tokens are delayed, then refused, and logged.
#[derive(Clone)]
pub struct AdminDoor {
    token: AdminToken,
    relay: Relay,
}

impl AdminDoor {
    pub fn new(token: AdminToken, relay: Relay) -> Self {
        Self { token, relay }
    }

    /// Lets a request with the token pass; otherwise returns the refusal.
    pub async fn admit(&self, head: &HeaderMap, extensions: &Extensions) -> Result<(), Response> {
        if self.token.admits_request(head) {
            return RequestControl::proven(extensions, "admin", None)
                .map_err(|OverLimit| AdminProblem::TOO_MANY.into_response());
        }
        // A request without a token is not a guess.
        if !head.contains_key(AUTHORIZATION) {
            return Err(unauthorized());
        }
        let address = extensions.get::<ClientAddress>().map(|caller| caller.0);
        // Refusals without a check are not logged: the previous log lines are enough.
        if !self.relay.slow_down(address, "admin_refused").await {
            let mut response = AdminProblem::TOO_MANY.into_response();
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("60"));
            return Err(response);
        }
        tracing::warn!(address = address.map(tracing::field::display), "a wrong admin token was presented");
        Err(unauthorized())
    }
}

/// Middleware before everything under `/admin`, known paths and unknown ones. Many answers contain secrets,
/// so no proxy or browser may cache them.
pub(crate) async fn admit(State(console): State<Console>, request: Request, next: Next) -> Response {
    let mut response = match console.admin.admit(request.headers(), request.extensions()).await {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal,
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The answer without a valid token, the same at every path that needs it.
fn unauthorized() -> Response {
    let mut response = AdminProblem::UNAUTHORIZED.into_response();
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_itself_is_admitted() {
        let token = Secret::new("adm_1234");
        let admin = AdminToken::from_hash(AdminToken::hash(&token));
        assert!(admin.admits(&token));
        assert!(admin.admits(&Secret::new("adm_1234\n")), "a file ends with a line break");
        let hash = AdminToken::hash(&token);
        for wrong in ["", "adm_123", "adm_12345", "ADM_1234", hash.as_str()] {
            assert!(!admin.admits(&Secret::new(wrong)), "{wrong}");
        }
        assert!(!AdminToken::from_hash("").admits(&Secret::new("")), "no token configured, nobody admitted");
    }
}

//! Who may use this door: whoever holds the admin token.

use aws_lc_rs::digest::{SHA256, digest};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use posthouse_wire::Secret;
use subtle::ConstantTimeEq;

use crate::problem::Problem;
use crate::routes::Console;

/// The admin token as the house keeps it: its hash alone.
#[derive(Clone)]
pub struct AdminToken(String);

impl AdminToken {
    /// What to keep of a token: SHA-256 in lower-case hex. The token is long and random, so nothing
    /// slower is needed.
    pub fn hash(token: &Secret) -> String {
        hex::encode(digest(&SHA256, token.expose().trim().as_bytes()))
    }

    /// From what was kept. A text that is no hash admits nobody.
    pub fn from_hash(hash: impl Into<String>) -> Self {
        Self(hash.into())
    }

    /// Compares hashes, in time that tells nothing of either.
    pub fn admits(&self, presented: &Secret) -> bool {
        !presented.is_empty() && bool::from(Self::hash(presented).as_bytes().ct_eq(self.0.as_bytes()))
    }

    /// Whether a request carries the token as `Authorization: Bearer`. For doors that ask for it too,
    /// such as `/metrics`.
    pub fn admits_request(&self, headers: &HeaderMap) -> bool {
        let mut presented = headers.get_all(AUTHORIZATION).iter();
        let (Some(header), None) = (presented.next(), presented.next()) else { return false };
        let Some((scheme, token)) = header.to_str().ok().and_then(|text| text.split_once(' ')) else {
            return false;
        };
        scheme.eq_ignore_ascii_case("bearer") && self.admits(&Secret::new(token.trim()))
    }
}

/// Stands before everything under `/admin`, known paths and unknown ones alike.
pub(crate) async fn admit(State(console): State<Console>, request: Request, next: Next) -> Response {
    if console.admin.admits_request(request.headers()) {
        return next.run(request).await;
    }
    unauthorized()
}

/// What everybody without the token hears, here and at every other door that asks for it.
pub fn unauthorized() -> Response {
    let mut response = Problem::UNAUTHORIZED.into_response();
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

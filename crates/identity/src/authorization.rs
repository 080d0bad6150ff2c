//! The `Authorization` header: bearer tokens and client credentials (HTTP Basic).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use http_kit::sole_header;
use posthouse_wire::Secret;

/// The credential in a request's `Authorization` header.
pub(crate) enum PresentedCredential {
    Bearer(Secret),
    Basic { client: String, secret: Secret },
}

impl PresentedCredential {
    /// `None` when the header is missing, malformed, or given more than once.
    pub fn read(headers: &HeaderMap) -> Option<Self> {
        if let Some(token) = bearer(headers) {
            return Some(Self::Bearer(Secret::new(token)));
        }
        let (client, secret) = basic(authorization(headers)?.to_str().ok()?)?;
        Some(Self::Basic { client, secret })
    }
}

/// The only `Authorization` header.
pub(crate) fn authorization(headers: &HeaderMap) -> Option<&HeaderValue> {
    sole_header(headers, AUTHORIZATION)
}

/// The token of an `Authorization: Bearer` header.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = authorization(headers)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The client id and secret of a Basic header. Client ids contain a colon, secrets do not. Clients that follow the RFC
/// strictly encode that colon as `%3A`.
pub(crate) fn basic(header: &str) -> Option<(String, Secret)> {
    let (scheme, encoded) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = Secret::new(String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?);
    let (client, secret) = text.expose().rsplit_once(':')?;
    Some((client.replace("%3A", ":").replace("%3a", ":"), Secret::new(secret)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_authorization_headers_are_refused() {
        let mut headers = HeaderMap::new();
        headers.append(AUTHORIZATION, "Bearer abc".parse().unwrap());
        assert_eq!(bearer(&headers), Some("abc"));
        headers.append(AUTHORIZATION, "Bearer abc".parse().unwrap());
        assert_eq!(bearer(&headers), None, "even if they say the same");
        assert!(PresentedCredential::read(&headers).is_none());
    }

    #[test]
    fn only_a_bearer_token_counts() {
        let mut headers = HeaderMap::new();
        assert_eq!(bearer(&headers), None);
        headers.insert(AUTHORIZATION, "bearer abc".parse().unwrap());
        assert_eq!(bearer(&headers), Some("abc"));
        headers.insert(AUTHORIZATION, "Basic abc".parse().unwrap());
        assert_eq!(bearer(&headers), None);
    }

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

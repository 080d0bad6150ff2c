//! Problem Details (RFC 9457): every error response in `application/problem+json`, with a stable code.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

/// An error response: status, stable code, and a text for people.
///
/// Each plane maps its own refusals to one of these. The planes wrap it in a type of their own where they want
/// `From` implementations for foreign errors.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    title: Option<&'static str>,
    detail: Cow<'static, str>,
    members: Vec<(&'static str, Value)>,
    retry_after: Option<u32>,
    challenge: Option<&'static str>,
    no_store: bool,
}

impl Problem {
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { detail: detail.into(), ..Self::fixed(status, code, "") }
    }

    /// A problem whose text never changes, usable in constants.
    pub const fn fixed(status: StatusCode, code: &'static str, detail: &'static str) -> Self {
        Self {
            status,
            code,
            title: None,
            detail: Cow::Borrowed(detail),
            members: Vec::new(),
            retry_after: None,
            challenge: None,
            no_store: false,
        }
    }

    /// 400: the request cannot be parsed.
    pub fn bad_request(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// 404: what the request names does not exist.
    pub fn not_found(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, detail)
    }

    /// 409: the request conflicts with the current state.
    pub fn conflict(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    /// 422: the request can be parsed but not carried out.
    pub fn unprocessable(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail)
    }

    /// 422: a field is missing, wrong or unknown. `field` names it.
    pub fn invalid_field(field: &str, why: impl AsRef<str>) -> Self {
        // The client chose this name, so its length is limited.
        let field: String = field.chars().take(64).collect();
        let detail = format!("`{field}` {}", why.as_ref());
        Self::unprocessable("invalid_request", detail).with("field", field)
    }

    /// 400: the body is no JSON.
    pub fn malformed_json(why: impl std::fmt::Display) -> Self {
        Self::bad_request("malformed_json", format!("the body is not valid JSON: {why}"))
    }

    /// 405: the path exists, and does not support the method.
    pub fn method_not_allowed() -> Self {
        const DETAIL: &str = "this path does not support this method";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", DETAIL)
    }

    /// A title other than the reason phrase of the status.
    #[must_use]
    pub const fn titled(mut self, title: &'static str) -> Self {
        self.title = Some(title);
        self
    }

    /// Adds a member of this kind of problem to the body.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.members.push((name, value.into()));
        self
    }

    /// Adds the header `Retry-After`.
    #[must_use]
    pub const fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Adds the header `WWW-Authenticate`.
    #[must_use]
    pub const fn challenge(mut self, schemes: &'static str) -> Self {
        self.challenge = Some(schemes);
        self
    }

    /// Forbids caches to store the response.
    #[must_use]
    pub const fn no_store(mut self) -> Self {
        self.no_store = true;
        self
    }

    pub const fn status(&self) -> StatusCode {
        self.status
    }

    pub const fn code(&self) -> &'static str {
        self.code
    }
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut body = serializer.serialize_map(None)?;
        body.serialize_entry("type", "about:blank")?;
        let title = self.title.or(self.status.canonical_reason()).unwrap_or("Refused");
        body.serialize_entry("title", title)?;
        body.serialize_entry("status", &self.status.as_u16())?;
        body.serialize_entry("code", self.code)?;
        body.serialize_entry("detail", &self.detail)?;
        for (name, value) in &self.members {
            body.serialize_entry(name, value)?;
        }
        body.end()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(schemes) = self.challenge {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(schemes));
        }
        if self.no_store {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_problem_is_problem_json_with_its_members_last() {
        let response = Problem::not_found("no_such_agent", "there is no agent `heron`")
            .with("field", "agent")
            .into_response();
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        assert!(
            !response.headers().contains_key(RETRY_AFTER) && !response.headers().contains_key(CACHE_CONTROL)
        );
        let body = crate::read_body(response.into_body(), 4096).await.unwrap();
        assert_eq!(
            String::from_utf8_lossy(&body),
            r#"{"type":"about:blank","title":"Not Found","status":404,"code":"no_such_agent","detail":"there is no agent `heron`","field":"agent"}"#
        );
    }

    #[test]
    fn headers_come_where_they_are_asked_for() {
        const BUSY: Problem =
            Problem::fixed(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "try again later")
                .titled("later")
                .retry_after(5)
                .challenge("Bearer")
                .no_store();
        let response = BUSY.into_response();
        assert_eq!(response.headers()[RETRY_AFTER], "5");
        assert_eq!(response.headers()[WWW_AUTHENTICATE], "Bearer");
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
        assert_eq!(serde_json::to_value(&BUSY).unwrap()["title"], "later");
    }
}

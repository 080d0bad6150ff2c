//! Request extractors: JSON bodies and queries, parsed strictly.

use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use http::request;
use http_kit::{PageSize, UnreadBody, read_body};
use serde::de::DeserializeOwned;

use crate::problem::AdminProblem;

/// Number of items per page, unless a list has its own.
pub(crate) const PAGE: PageSize = PageSize { default: 1000, largest: 1000 };

/// The answer to an `after` that no page gave.
pub(crate) fn no_position() -> AdminProblem {
    AdminProblem::malformed("`after` must be the `next` of the previous page")
}

/// Maximum size of a request body in bytes.
const LARGEST_BODY: usize = 256 * 1024;

/// A JSON body. An unknown field is an error that names it, so that a typo is never ignored. An empty body
/// is read as `{}`.
pub(crate) struct JsonBody<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = AdminProblem;

    async fn from_request(request: Request, _: &S) -> Result<Self, AdminProblem> {
        let bytes = read_body(request.into_body(), LARGEST_BODY).await.map_err(|unread| match unread {
            UnreadBody::TooLarge { .. } => AdminProblem::TOO_LARGE,
            UnreadBody::Incomplete => AdminProblem::malformed(unread.to_string()),
        })?;
        let text: &[u8] = if bytes.trim_ascii().is_empty() { b"{}" } else { &bytes };
        serde_json::from_slice(text).map(JsonBody).map_err(|error| AdminProblem::malformed(explain(&error)))
    }
}

/// A query. Unknown parameters are errors too.
pub(crate) struct QueryParams<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = AdminProblem;

    async fn from_request_parts(parts: &mut request::Parts, state: &S) -> Result<Self, AdminProblem> {
        let Query(asked) = Query::<T>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| AdminProblem::malformed(without_values(&rejection.body_text())))?;
        Ok(QueryParams(asked))
    }
}

/// The error of the parser, without the value: that may be a secret in the wrong place.
fn explain(error: &serde_json::Error) -> String {
    format!("invalid request body: {}", without_values(&error.to_string()))
}

fn without_values(complaint: &str) -> String {
    for kind in ["invalid type: ", "invalid value: "] {
        if let (Some(at), Some(expected)) = (complaint.find(kind), complaint.rfind(", expected ")) {
            let kind = kind.trim_end_matches(": ");
            return format!("{}{kind}{}", &complaint[..at], complaint.get(expected..).unwrap_or_default());
        }
    }
    complaint.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        #[expect(dead_code, reason = "only its reading is of interest")]
        secrets: std::collections::HashMap<String, String>,
    }

    fn complaint(text: &str) -> String {
        serde_json::from_str::<Body>(text).map(|_| ()).map_err(|error| explain(&error)).unwrap_err()
    }

    #[test]
    fn a_complaint_names_the_field_and_never_the_value() {
        assert!(complaint(r#"{"secret": {}}"#).contains("unknown field `secret`, expected `secrets`"));
        for text in [r#"{"secrets": "canary, expected x"}"#, r#"{"secrets": {"token": 4711}}"#] {
            let complaint = complaint(text);
            assert!(complaint.contains("invalid type, expected"), "{complaint}");
            assert!(!complaint.contains("canary") && !complaint.contains("4711"), "{complaint}");
        }
    }
}

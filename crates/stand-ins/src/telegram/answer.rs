//! Answers of the Bot API.

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;
use serde_json::{json, value::RawValue};

/// A call that took effect.
pub(super) struct ApiSuccess {
    pub result: Box<RawValue>,
    pub description: Option<&'static str>,
}

impl ApiSuccess {
    pub fn with(result: &impl Serialize) -> ApiSuccess {
        ApiSuccess { result: raw(result), description: None }
    }

    pub fn yes() -> ApiSuccess {
        ApiSuccess::with(&true)
    }

    pub fn saying(self, description: &'static str) -> ApiSuccess {
        ApiSuccess { description: Some(description), ..self }
    }
}

/// Serializes something this crate built. Only maps with string keys are built here, so it cannot fail.
pub(super) fn raw(value: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("values built here have string keys")
}

/// A refused call, with the platform's description.
#[derive(Clone, Debug)]
pub(super) struct ApiRefusal {
    pub code: u16,
    pub description: String,
    pub retry_after: Option<u64>,
    pub migrate_to: Option<i64>,
}

impl ApiRefusal {
    fn new(code: u16, description: impl Into<String>) -> ApiRefusal {
        ApiRefusal { code, description: description.into(), retry_after: None, migrate_to: None }
    }

    pub fn bad_request(what: impl AsRef<str>) -> ApiRefusal {
        ApiRefusal::new(400, format!("Bad Request: {}", what.as_ref()))
    }

    pub fn unauthorized() -> ApiRefusal {
        ApiRefusal::new(401, "Unauthorized")
    }

    pub fn forbidden(what: &str) -> ApiRefusal {
        ApiRefusal::new(403, format!("Forbidden: {what}"))
    }

    pub fn blocked() -> ApiRefusal {
        ApiRefusal::new(403, "Forbidden: bot was blocked by the user")
    }

    pub fn not_found() -> ApiRefusal {
        ApiRefusal::new(404, "Not Found")
    }

    pub fn conflict(what: &str) -> ApiRefusal {
        ApiRefusal::new(409, format!("Conflict: {what}"))
    }

    pub fn too_large() -> ApiRefusal {
        ApiRefusal::new(413, "Request Entity Too Large")
    }

    pub fn too_many(retry_after: u64) -> ApiRefusal {
        let description = format!("Too Many Requests: retry after {retry_after}");
        ApiRefusal { retry_after: Some(retry_after), ..ApiRefusal::new(429, description) }
    }

    pub fn migrated(to: i64) -> ApiRefusal {
        let what = "group chat was upgraded to a supergroup chat";
        ApiRefusal { migrate_to: Some(to), ..ApiRefusal::bad_request(what) }
    }

    /// A failure of the platform. A status outside 500..=599 becomes 500.
    pub fn server_error(status: u16) -> ApiRefusal {
        let status = StatusCode::from_u16(status).ok().filter(StatusCode::is_server_error);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        ApiRefusal::new(status.as_u16(), status.canonical_reason().unwrap_or("Internal Server Error"))
    }
}

/// The envelope of every method's answer.
pub(super) fn answer(outcome: Result<ApiSuccess, ApiRefusal>) -> Response<Body> {
    match outcome {
        Ok(ApiSuccess { result, description: None }) => {
            json_text(200, format!(r#"{{"ok":true,"result":{result}}}"#))
        }
        Ok(ApiSuccess { result, description: Some(said) }) => {
            json_text(200, format!(r#"{{"ok":true,"result":{result},"description":"{said}"}}"#))
        }
        Err(refusal) => refuse(refusal),
    }
}

fn refuse(refusal: ApiRefusal) -> Response<Body> {
    let mut body = json!({"ok": false, "error_code": refusal.code, "description": refusal.description});
    if let Some(to) = refusal.migrate_to {
        body["parameters"] = json!({"migrate_to_chat_id": to});
    }
    if let Some(seconds) = refusal.retry_after {
        body["parameters"] = json!({"retry_after": seconds});
    }
    let mut response = json_text(refusal.code, body.to_string());
    if let Some(seconds) = refusal.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// A JSON answer with this status.
pub(super) fn json_text(status: u16, body: String) -> Response<Body> {
    respond(status, "application/json", body)
}

/// An answer with this status, type and body.
pub(super) fn respond(status: u16, kind: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

//! Error responses of Discord's HTTP API.

use axum::body::Body;
use http::Response;
use serde_json::{Value, json};

use crate::harness::json_response;

/// An error as the API sends it: `{message, code, errors}`.
#[derive(Debug)]
pub(super) struct RestError {
    status: u16,
    body: Value,
}

pub(super) type ApiResult = Result<Response<Body>, RestError>;

impl RestError {
    pub fn new(status: u16, code: u32, message: &str) -> RestError {
        RestError { status, body: json!({"message": message, "code": code}) }
    }

    pub fn unauthorized() -> RestError {
        RestError::new(401, 0, "401: Unauthorized")
    }

    pub fn not_found() -> RestError {
        RestError::new(404, 0, "404: Not Found")
    }

    /// One of the errors "Unknown ...".
    pub fn unknown(code: u32, what: &str) -> RestError {
        RestError::new(404, code, &format!("Unknown {what}"))
    }

    pub fn missing_access() -> RestError {
        RestError::new(403, 50001, "Missing Access")
    }

    pub fn missing_permissions() -> RestError {
        RestError::new(403, 50013, "Missing Permissions")
    }

    pub fn not_json() -> RestError {
        RestError::new(400, 50109, "The request body contains invalid JSON.")
    }

    /// A field that does not validate.
    pub fn field(path: &[&str], code: &str, message: &str) -> RestError {
        let mut errors = json!({"_errors": [{"code": code, "message": message}]});
        for name in path.iter().rev() {
            errors = json!({ *name: errors });
        }
        let body = json!({"message": "Invalid Form Body", "code": 50035, "errors": errors});
        RestError { status: 400, body }
    }

    pub fn too_long(field: &[&str], most: usize) -> RestError {
        let message = format!("Must be {most} or fewer in length.");
        RestError::field(field, "BASE_TYPE_MAX_LENGTH", &message)
    }
}

impl From<RestError> for Response<Body> {
    fn from(error: RestError) -> Response<Body> {
        json_response(error.status, &error.body)
    }
}

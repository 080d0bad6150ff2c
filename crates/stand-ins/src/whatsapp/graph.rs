//! Graph API: versions, tokens, errors.

use axum::body::Body;
use http::Response;
use serde_json::{Value, json};

use super::{WhatsAppPlatform, settings::WhatsAppNumber};
use crate::harness::{ApiCall, json_response};

/// Older versions have ended.
const OLDEST_VERSION: f64 = 21.0;

/// An error as the Graph API sends it.
pub(super) struct GraphError {
    status: u16,
    body: Value,
}

pub(super) type GraphResult = Result<Response<Body>, GraphError>;

impl GraphError {
    pub fn new(status: u16, code: u32, kind: &str, message: &str) -> GraphError {
        let error = json!({
            "message": format!("(#{code}) {message}"), "type": kind, "code": code, "fbtrace_id": "AStandInTrace",
        });
        GraphError { status, body: json!({"error": error}) }
    }

    /// An error of the messages API, with the details that it adds.
    pub fn of_message(status: u16, code: u32, message: &str, details: &str) -> GraphError {
        let mut error = GraphError::new(status, code, "OAuthException", message);
        error.body["error"]["error_data"] = json!({"messaging_product": "whatsapp", "details": details});
        error
    }

    pub fn parameter(details: &str) -> GraphError {
        GraphError::of_message(400, 100, "Invalid parameter", details)
    }

    pub fn unknown_object(id: &str) -> GraphError {
        let message = format!("Unsupported request. Object with ID '{id}' does not exist");
        let mut error = GraphError::new(400, 100, "GraphMethodException", &message);
        error.body["error"]["error_subcode"] = json!(33);
        error
    }

    /// The error of a rate limit: that of the whole number if `global`, otherwise that of one person.
    pub fn too_many(global: bool) -> GraphError {
        if global {
            GraphError::of_message(
                429,
                130_429,
                "Rate limit hit",
                "Message failed to send because there were too many \
                messages sent from this phone number in a short period of time.",
            )
        } else {
            GraphError::of_message(
                400,
                131_056,
                "(Business Account, Consumer Account) pair rate limit hit",
                "Message failed to send because there were too many messages sent to this person.",
            )
        }
    }

    fn token() -> GraphError {
        let mut error = GraphError::new(401, 190, "OAuthException", "");
        error.body["error"]["message"] = json!("Invalid OAuth access token - Cannot parse access token");
        error
    }
}

impl From<GraphError> for Response<Body> {
    fn from(error: GraphError) -> Response<Body> {
        json_response(error.status, &error.body)
    }
}

impl WhatsAppPlatform {
    /// The number whose token a call has.
    pub(super) fn caller(&self, call: &ApiCall) -> Result<&WhatsAppNumber, GraphError> {
        let token = call.credential("Bearer").ok_or_else(GraphError::token)?;
        let number = self.settings.numbers.iter().find(|number| number.token == token);
        number.ok_or_else(GraphError::token)
    }

    pub(super) fn graph(self: &std::sync::Arc<Self>, call: &ApiCall) -> GraphResult {
        let number = self.caller(call)?;
        let segments: Vec<&str> = call.path.split('/').skip(1).collect();
        if call.subject.call == "GET media content" {
            return self.media_content(number, segments[1]);
        }
        let version = segments[0].trim_start_matches('v').parse::<f64>().unwrap_or(0.0);
        if version < OLDEST_VERSION {
            return Err(GraphError::new(
                400,
                2635,
                "OAuthException",
                "You are calling a deprecated version of the API",
            ));
        }
        let id = segments[1];
        match call.subject.call.as_str() {
            "POST messages" => self.post_message(self.own_number(number, id)?, call),
            "POST media" => self.upload(self.own_number(number, id)?, call),
            "DELETE media" => self.delete_media(number, id),
            _ if id == number.id => Ok(json_response(
                200,
                &json!({
                    "id": number.id, "display_phone_number": format!("+{}", number.display),
                    "verified_name": "Stand-in", "quality_rating": "GREEN",
                }),
            )),
            _ => self.media_object(number, id),
        }
    }

    pub(super) fn own_number<'n>(
        &self,
        number: &'n WhatsAppNumber,
        id: &str,
    ) -> Result<&'n WhatsAppNumber, GraphError> {
        if number.id == id { Ok(number) } else { Err(GraphError::unknown_object(id)) }
    }
}

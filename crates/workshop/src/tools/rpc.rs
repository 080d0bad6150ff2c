//! `POST /rpc`: the tools of the reference runtime over JSON-RPC, one request and one JSON response.
//!
//! Every request gets status 200, whatever it says, except a body that is not JSON. Notifications get a response too. The
//! reference runtime does the same.

use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use post::Caller;
use serde_json::{Value, json};

use super::help::INSTRUCTIONS;
use super::json_rpc::{PARSE_ERROR, RpcError, RpcRequest, UnreadMessage, response};
use super::tool_calls::ToolCalls;
use crate::large_answers::AnswerTurn;

/// The revision that the reference runtime speaks.
const PROTOCOL_VERSION: &str = "2024-11-05";

/// Answers one request.
pub async fn answer(
    tools: &ToolCalls,
    caller: &Caller,
    request: Result<RpcRequest, UnreadMessage>,
    turn: Option<&AnswerTurn>,
) -> (StatusCode, Value) {
    match request {
        Ok(request) => {
            let id = request.id.clone();
            (StatusCode::OK, response(&id, serve(tools, caller, request, turn).await))
        }
        Err(unread) => {
            let is_junk = unread.error.code == PARSE_ERROR;
            let status = if is_junk { StatusCode::BAD_REQUEST } else { StatusCode::OK };
            (status, response(&unread.id, Err(unread.error)))
        }
    }
}

async fn serve(
    tools: &ToolCalls,
    caller: &Caller,
    request: RpcRequest,
    turn: Option<&AnswerTurn>,
) -> Result<Value, RpcError> {
    match request.method.as_str() {
        "initialize" => Ok(json!({
            "protocolVersion": PROTOCOL_VERSION,
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "posthouse", "version": env!("CARGO_PKG_VERSION") },
            "instructions": INSTRUCTIONS,
        })),
        "tools/list" => Ok(tools.listed()),
        "tools/call" => tools.call(caller, request, turn).await,
        other => Err(RpcError::method_not_found(other)),
    }
}

/// The length of the text that a tool gave.
pub fn result_length(message: &Value) -> usize {
    message.pointer("/result/content/0/text").and_then(Value::as_str).map_or(0, str::len)
}

/// A JSON document with the content type of the reference runtime.
pub fn json_response(status: StatusCode, body: &Value) -> Response {
    text_response(status, body.to_string())
}

/// The same, of a document that is written already.
pub fn text_response(status: StatusCode, json: String) -> Response {
    let mut response = (status, json).into_response();
    let kind = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

//! `/mcp`: the Model Context Protocol over streamable HTTP, in all its revisions at one address.
//!
//! Revisions up to 2025-11-25 begin with `initialize` and have sessions. Since 2026-07-28 there is neither, and every
//! request describes itself. Each request shows which kind it is.
//!
//! - Every response to a request is an event stream, because some clients read nothing else.
//! - A tool that fails is a JSON-RPC error with status 200. With another status, the reference runtime calls again.
//! - A request that the protocol does not permit gets the status that its revision names, and plain JSON.

mod change_stream;
mod event_stream;
mod revision;
mod sessions;
mod stateless;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode};
use posthouse_time::Timepiece;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use post::Caller;

use self::change_stream::{ChangeStreams, Listening};
use self::event_stream::single_event;
use self::revision::McpRevision;
use self::sessions::McpSessions;
use self::stateless::PROTOCOL_VERSION_HEADER;
use super::help::INSTRUCTIONS;
use super::json_rpc::{
    INVALID_REQUEST, PARSE_ERROR, RpcError, RpcMessage, RpcRequest, UnreadMessage, response,
};
use super::rpc::json_response;
use super::tool_calls::ToolCalls;

pub use self::change_stream::StillAllowed;

const SESSION_HEADER: &str = "mcp-session-id";
/// The code that the official servers use for it.
const NO_SESSION: i32 = -32001;
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// How long a client may keep the list of tools: it changes only with the server's version.
const LIST_TTL_MS: u64 = 300_000;

/// The server side of the protocol. Clones share everything.
#[derive(Clone)]
pub struct McpServer {
    tools: ToolCalls,
    sessions: Arc<McpSessions>,
    streams: Arc<ChangeStreams>,
}

impl McpServer {
    pub fn new(tools: ToolCalls, timepiece: Timepiece, closing: CancellationToken) -> Self {
        let sessions = Arc::new(McpSessions::new(timepiece.clone()));
        Self { tools, sessions, streams: Arc::new(ChangeStreams::new(timepiece, closing)) }
    }

    /// Answers one message. `still_allowed` tells a stream that stays open whether its caller still has access.
    pub async fn answer(
        &self,
        caller: &Caller,
        headers: &HeaderMap,
        message: Result<RpcMessage, UnreadMessage>,
        still_allowed: StillAllowed,
    ) -> Response {
        let message = match message {
            Ok(message) => message,
            Err(unread) => {
                let known = if unread.error.code == PARSE_ERROR { Value::Null } else { unread.id };
                return refused(StatusCode::BAD_REQUEST, &known, unread.error);
            }
        };
        match message {
            RpcMessage::Request(request) if stateless::is_stateless(headers, &request) => {
                self.answer_stateless(caller, headers, request, still_allowed).await
            }
            RpcMessage::Request(request) => self.answer_in_session(caller, headers, request).await,
            // Nobody waits for an answer. An unknown session is reported all the same, so that its client starts anew.
            RpcMessage::Notification(_) | RpcMessage::Response => {
                match self.session(caller, headers, &Value::Null) {
                    Ok(_) => StatusCode::ACCEPTED.into_response(),
                    Err(refusal) => *refusal,
                }
            }
        }
    }

    /// `DELETE /mcp`: ends a session.
    pub fn end_session(&self, caller: &Caller, headers: &HeaderMap) -> Response {
        match session_id(headers) {
            Some(id) if self.sessions.end(id, &caller.client) => StatusCode::NO_CONTENT.into_response(),
            Some(_) => no_session(&Value::Null),
            None => {
                let error = RpcError::new(INVALID_REQUEST, "the header Mcp-Session-Id is missing");
                refused(StatusCode::BAD_REQUEST, &Value::Null, error)
            }
        }
    }

    async fn answer_in_session(&self, caller: &Caller, headers: &HeaderMap, request: RpcRequest) -> Response {
        let id = request.id.clone();
        let turn = match self.tools.answer_turn(caller, &request).await {
            Ok(turn) => turn,
            Err(problem) => return problem.into_response(),
        };
        if request.method == "initialize" {
            return self.initialize(caller, &request);
        }
        if let Err(refusal) = self.session(caller, headers, &id) {
            return *refusal;
        }
        let outcome = match request.method.as_str() {
            "ping" => Ok(json!({})),
            "tools/list" => Ok(self.tools.listed()),
            "tools/call" => self.tools.call(caller, request, turn.as_ref()).await,
            other => Err(RpcError::method_not_found(other)),
        };
        single_event(&response(&id, outcome))
    }

    fn initialize(&self, caller: &Caller, request: &RpcRequest) -> Response {
        let requested = request.params.get("protocolVersion").and_then(Value::as_str);
        let revision = McpRevision::negotiated(requested);
        let session = new_session_id();
        self.sessions.start(session.clone(), &caller.client, revision);
        let result = json!({
            "protocolVersion": revision.as_str(),
            "capabilities": { "tools": { "listChanged": false } },
            "serverInfo": server_info(),
            "instructions": INSTRUCTIONS,
        });
        let mut answer = single_event(&response(&request.id, Ok(result)));
        if let Ok(session) = HeaderValue::from_str(&session) {
            answer.headers_mut().insert(SESSION_HEADER, session);
        }
        answer
    }

    /// Checks the session and the revision that the headers name. A request without a session is served too: a session
    /// holds nothing that a tool needs.
    fn session(&self, caller: &Caller, headers: &HeaderMap, id: &Value) -> Result<(), Box<Response>> {
        if let Some(session) = session_id(headers)
            && self.sessions.resume(session, &caller.client).is_none()
        {
            return Err(Box::new(no_session(id)));
        }
        match headers.get(PROTOCOL_VERSION_HEADER).map(|version| version.to_str().unwrap_or_default()) {
            Some(version) if McpRevision::named(version).is_none() => {
                let (status, error) = stateless::unsupported(version);
                Err(Box::new(refused(status, id, error)))
            }
            _ => Ok(()),
        }
    }

    async fn answer_stateless(
        &self,
        caller: &Caller,
        headers: &HeaderMap,
        request: RpcRequest,
        still_allowed: StillAllowed,
    ) -> Response {
        let id = request.id.clone();
        let turn = match self.tools.answer_turn(caller, &request).await {
            Ok(turn) => turn,
            Err(problem) => return problem.into_response(),
        };
        if let Err((status, error)) = stateless::check(headers, &request) {
            return refused(status, &id, error);
        }
        let outcome = match request.method.as_str() {
            "server/discover" => Ok(discovered()),
            "tools/list" => {
                let mut listed = self.tools.listed();
                listed["ttlMs"] = LIST_TTL_MS.into();
                listed["cacheScope"] = "private".into();
                Ok(listed)
            }
            "tools/call" => self.tools.call(caller, request, turn.as_ref()).await,
            "subscriptions/listen" => {
                let runner = Arc::clone(self.tools.runner());
                let listening = Listening { caller: caller.clone(), runner, still_allowed };
                return self.streams.open(listening, &request);
            }
            other => {
                return refused(StatusCode::NOT_FOUND, &id, RpcError::method_not_found(other));
            }
        };
        single_event(&response(&id, outcome.map(complete)))
    }
}

/// What `server/discover` answers.
fn discovered() -> Value {
    json!({
        "supportedVersions": McpRevision::ALL.map(McpRevision::as_str),
        "capabilities": { "tools": { "listChanged": true }, "extensions": {} },
        "instructions": INSTRUCTIONS,
        "ttlMs": LIST_TTL_MS,
        "cacheScope": "private",
    })
}

/// A result with what the stateless revision adds to every result.
fn complete(mut result: Value) -> Value {
    result["resultType"] = "complete".into();
    result["_meta"] = json!({ SERVER_INFO: server_info() });
    result
}

fn server_info() -> Value {
    json!({ "name": "posthouse", "title": "Posthouse", "version": env!("CARGO_PKG_VERSION") })
}

fn session_id(headers: &HeaderMap) -> Option<&str> {
    // A value that is no text names no session.
    headers.get(SESSION_HEADER).map(|id| id.to_str().unwrap_or_default())
}

/// 128 random bits in hexadecimal.
fn new_session_id() -> String {
    let mut random = [0; 16];
    aws_lc_rs::rand::fill(&mut random)
        .expect("the generator fails only when the system has no entropy at all");
    hex::encode(random)
}

fn no_session(id: &Value) -> Response {
    refused(StatusCode::NOT_FOUND, id, RpcError::new(NO_SESSION, "Session not found"))
}

/// The response to a request that the protocol does not permit.
fn refused(status: StatusCode, id: &Value, error: RpcError) -> Response {
    json_response(status, &response(id, Err(error)))
}

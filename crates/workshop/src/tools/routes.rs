//! HTTP routes of the tools: `/rpc` and `/mcp`.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{delete, post};
use bytes::Bytes;
use http::header::ORIGIN;
use http::request::Parts;
use http::{HeaderMap, StatusCode, Uri};
use http_kit::{Endpoint, Operation, Problem, operations, read_body, router};
use post::{Caller, CallerRefusal, Callers};
use posthouse_time::Timepiece;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::json_rpc::{RpcMessage, RpcRequest};
use super::mcp::{McpServer, StillAllowed};
use super::rpc;
use super::tool_calls::{ToolCalls, ToolRunner};
use super::tool_list::{ToolList, ToolSurface};
use crate::long_json::{parsed, written};
use crate::workshop::Workshop;

/// The largest request body: one entry of data (1 MiB and 64 KiB of metadata) with every byte as a six-byte JSON
/// escape, plus the rest.
const LARGEST_BODY: usize = 6 * (1024 + 64) * 1024 + 64 * 1024;

/// All operations with their handlers. The router is built from this list.
const ENDPOINTS: &[Endpoint<ToolDoor>] = &[
    Endpoint::closed("POST", "/rpc", || post(call_rpc)),
    Endpoint::closed("POST", "/mcp", || post(call_mcp)),
    Endpoint::closed("DELETE", "/mcp", || delete(end_session)),
];

/// All operations. Tests check the OpenAPI fragment and the access matrix against them.
pub const TOOL_OPERATIONS: &[Operation] = &operations::<ToolDoor, { ENDPOINTS.len() }>(ENDPOINTS);

/// The OpenAPI fragment of the operations, written by hand.
pub const TOOL_OPENAPI: &str = include_str!("openapi.json");

/// What the routes need.
pub struct ToolParts {
    pub callers: Callers,
    pub workshop: Workshop,
    pub runner: Arc<dyn ToolRunner>,
    /// The public URL of the server. Pages of other origins may not call tools.
    pub public_url: String,
    pub timepiece: Timepiece,
    /// Cancelled at shutdown.
    pub closing: CancellationToken,
    /// Shutdown waits for these tasks.
    pub tasks: TaskTracker,
}

/// The router for `/rpc` and `/mcp`.
pub fn tool_routes(parts: ToolParts) -> Router {
    let ToolParts { callers, workshop, runner, public_url, timepiece, closing, tasks } = parts;
    let calls = |surface| ToolCalls::new(surface, ToolList::of(surface), Arc::clone(&runner), tasks.clone());
    let door = ToolDoor {
        callers,
        workshop,
        rpc: calls(ToolSurface::Rpc),
        mcp: McpServer::new(calls(ToolSurface::Mcp), timepiece, closing),
        origin: origin_of(&public_url).into(),
    };
    router("", ENDPOINTS).method_not_allowed_fallback(async || not_allowed()).with_state(door)
}

/// The state shared by all handlers.
#[derive(Clone)]
struct ToolDoor {
    callers: Callers,
    workshop: Workshop,
    rpc: ToolCalls,
    mcp: McpServer,
    origin: Arc<str>,
}

type ToolResponse = Result<Response, Problem>;

impl ToolDoor {
    /// Authenticates the caller. A page of another origin is refused: a browser may send along a password that it keeps.
    async fn authenticate(&self, head: &Parts) -> Result<Caller, Problem> {
        let caller = self.callers.caller(head).await?;
        check_origin(&head.headers, &self.origin)?;
        Ok(caller)
    }

    /// Authenticates the caller, then reads the body. The body of an unknown caller is not read.
    async fn authenticate_and_read(&self, request: Request) -> Result<(Caller, Parts, Bytes), Problem> {
        let (head, body) = request.into_parts();
        let caller = self.authenticate(&head).await?;
        let body = read_body(body, LARGEST_BODY).await.map_err(|unread| unread.problem("too_long"))?;
        Ok((caller, head, body))
    }

    /// Asks again whether the credential of a request gives access. A caller that makes too many requests has access.
    fn still_allowed(&self, head: Parts) -> StillAllowed {
        let (callers, head) = (self.callers.clone(), Arc::new(head));
        Arc::new(move || {
            let (callers, head) = (callers.clone(), Arc::clone(&head));
            Box::pin(async move {
                !matches!(callers.caller(&head).await, Err(CallerRefusal::Nobody | CallerRefusal::Barred))
            })
        })
    }
}

async fn call_rpc(State(door): State<ToolDoor>, request: Request) -> ToolResponse {
    let (caller, _, body) = door.authenticate_and_read(request).await?;
    let threads = door.workshop.threads();
    let request = parsed(threads, &caller.tenant, body, RpcRequest::read_lenient).await?;
    // It is held until the response exists.
    let turn = match &request {
        Ok(request) => door.rpc.answer_turn(&caller, request).await?,
        Err(_) => None,
    };
    let (status, message) = rpc::answer(&door.rpc, &caller, request, turn.as_ref()).await;
    let length = rpc::result_length(&message);
    Ok(rpc::text_response(status, written(threads, &caller.tenant, message, length).await?))
}

async fn call_mcp(State(door): State<ToolDoor>, request: Request) -> ToolResponse {
    let (caller, head, body) = door.authenticate_and_read(request).await?;
    let headers = head.headers.clone();
    let still_allowed = door.still_allowed(head);
    let message = parsed(door.workshop.threads(), &caller.tenant, body, RpcMessage::read).await?;
    Ok(door.mcp.answer(&caller, &headers, message, still_allowed).await)
}

async fn end_session(State(door): State<ToolDoor>, head: Parts) -> ToolResponse {
    let caller = door.authenticate(&head).await?;
    Ok(door.mcp.end_session(&caller, &head.headers))
}

/// The answer of the reference runtime to any other method.
fn not_allowed() -> Response {
    let mut response = Response::new(Body::from("Method Not Allowed"));
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response
}

/// Scheme, host and port of a URL, as browsers write an origin.
fn origin_of(url: &str) -> String {
    let parsed = url.parse::<Uri>().ok();
    let parts = parsed.as_ref().and_then(|url| Some((url.scheme_str()?, url.authority()?.as_str())));
    parts.map_or_else(String::new, |(scheme, authority)| format!("{scheme}://{authority}"))
}

fn check_origin(headers: &HeaderMap, own: &str) -> Result<(), Problem> {
    match headers.get(ORIGIN) {
        Some(origin) if origin.as_bytes() != own.as_bytes() => {
            Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", "pages of other origins cannot call tools"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http_kit::openapi;

    use super::*;

    #[test]
    fn every_operation_is_described_and_nothing_else_is() {
        let wrong = openapi::check_fragment(TOOL_OPENAPI, &[post::OPENAPI], TOOL_OPERATIONS);
        assert_eq!(wrong, Vec::<String>::new());
    }

    #[test]
    fn only_pages_of_the_server_itself_can_call_tools() {
        let own = origin_of("https://house.example:8443/under");
        assert_eq!(own, "https://house.example:8443");
        let from = |origin: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ORIGIN, HeaderValue::from_static(origin));
            check_origin(&headers, &own).is_ok()
        };
        assert!(check_origin(&HeaderMap::new(), &own).is_ok());
        assert!(from("https://house.example:8443"));
        assert!(!from("https://evil.example") && !from("null") && !from("http://house.example:8443"));
    }
}

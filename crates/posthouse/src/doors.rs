//! HTTP entry point: every path of the server, request bodies, and answers to panics and overload.

mod answer;
mod body;
mod budget;
pub mod description;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use console::AdminApi;
use edge::{BotHealth, MappedHosts};
use futures_util::FutureExt;
use http::StatusCode;
use http::header::{CONNECTION, CONTENT_TYPE, HOST};
use http_kit::{Endpoint, Problem, RequestControl, router};
#[cfg(test)]
use http_kit::{Operation, operations};
use hyper::body::Incoming;
use prometheus_client::registry::Registry;
use tower::ServiceExt;

pub use self::body::BodyLimits;
use self::body::{BodyFault, RequestBody, RequestState};
use self::budget::BudgetRefusal;
pub use self::budget::ByteBudget;
use crate::server::PeerConnection;
use crate::wiring::ServerHealth;

/// State of the server's own handlers: health and metrics.
#[derive(Clone)]
pub struct ServerHandlers {
    pub health: ServerHealth,
    pub bots: BotHealth,
    pub metrics: Arc<Registry>,
    pub metrics_open: bool,
    pub admin: AdminApi,
    /// The OpenAPI document.
    pub description: Bytes,
}

/// The server's own operations with their handlers. The metrics are closed unless the operator opens them.
const ENDPOINTS: &[Endpoint<ServerHandlers>] = &[
    Endpoint::open("GET", "/healthz", || get(healthz)),
    Endpoint::open("GET", "/readyz", || get(readyz)),
    Endpoint::open("GET", "/metrics", || get(metrics)),
    Endpoint::open("GET", "/openapi.json", || get(description::show)),
];

/// The server's own operations.
#[cfg(test)]
const OPERATIONS: &[Operation] = &operations::<ServerHandlers, { ENDPOINTS.len() }>(ENDPOINTS);

/// All HTTP paths of this server. Clones are cheap.
#[derive(Clone)]
pub struct Doors {
    mounts: Router,
    prefix: Arc<str>,
    /// Hosts whose requests are all for one bot.
    hosts: MappedHosts,
    bodies: BodyLimits,
}

/// Everything below the path of the public URL. With `page`, one of the planes answers at `/` itself.
pub fn open(
    prefix: &str,
    planes: impl IntoIterator<Item = Router>,
    handlers: ServerHandlers,
    page: bool,
    hosts: MappedHosts,
    bodies: BodyLimits,
) -> Doors {
    let own = router("", ENDPOINTS).with_state(handlers);
    let own = if page { own } else { own.route("/", get(without_page)) };
    let mounts = planes.into_iter().fold(own, Router::merge);
    let mounts = if prefix.is_empty() { mounts } else { Router::new().nest(prefix, mounts) };
    Doors { mounts, prefix: prefix.into(), hosts, bodies }
}

impl Doors {
    /// Answers every request, whatever it is. This wraps the router instead of being a layer of it, because
    /// layers are cloned and boxed for every request.
    pub async fn answer(
        self,
        request: http::Request<Incoming>,
        address: IpAddr,
        connection: Arc<PeerConnection>,
    ) -> Result<Response, Infallible> {
        let answer = if connection.begins(address) {
            let passed = self.pass_on(request, address, Arc::clone(&connection));
            // A panic is a bug of ours; its message appears only in the log.
            AssertUnwindSafe(passed).catch_unwind().await.unwrap_or_else(|_| broken())
        } else {
            at_capacity()
        };
        connection.ended();
        Ok(answer)
    }

    /// The handler decides from the head of the request whether it reads the body.
    async fn pass_on(
        self,
        request: http::Request<Incoming>,
        address: IpAddr,
        connection: Arc<PeerConnection>,
    ) -> Response {
        let (mut parts, body) = request.into_parts();
        self.lead_to_bot(&mut parts);
        if connection.is_at_capacity() && !self.is_always_served(parts.uri.path()) {
            return at_capacity();
        }
        let state = RequestState::new(address, connection);
        let control: Arc<RequestState> = Arc::clone(&state);
        parts.extensions.insert(RequestControl::new(control));
        let (has_body, is_repeatable) = (!body.is_end_stream(), parts.method.is_safe());
        let body = if has_body {
            Body::new(RequestBody::new(body, Arc::clone(&state), &self.bodies))
        } else {
            Body::empty()
        };
        let Ok(answer) = self.mounts.oneshot(Request::from_parts(parts, body)).await;
        // A handler only knows that the body did not arrive; the reason is known here.
        let answer = state.fault().map_or(answer, turned_away);
        let mut answer = answer::counted(answer, is_repeatable, || state.sender(), &self.bodies.unsent);
        if has_body && !state.is_whole() {
            // The unread rest of the body would be parsed as the next request.
            answer.headers_mut().insert(CONNECTION, http::HeaderValue::from_static("close"));
        }
        answer
    }

    /// Replaces the path of a request to a host that is mapped to a bot. Nothing else can be reached at that host.
    fn lead_to_bot(&self, parts: &mut http::request::Parts) {
        let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
        let Some(door) = host.and_then(|host| self.hosts.door(host)) else { return };
        let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        if let Ok(uri) = format!("{}{door}{query}", self.prefix).parse() {
            parts.uri = uri;
        }
    }

    /// Paths that are served even if no connection is free: health, administration, and the relay's socket,
    /// which reports it by its own close code.
    fn is_always_served(&self, path: &str) -> bool {
        path.strip_prefix(&*self.prefix).is_some_and(|path| {
            matches!(path, "/healthz" | "/readyz" | "/metrics" | "/relay") || path.starts_with("/admin/")
        })
    }
}

/// The answer on a connection for which there is no room.
fn at_capacity() -> Response {
    const FULL: Problem = Problem::fixed(
        StatusCode::SERVICE_UNAVAILABLE,
        "at_capacity",
        "the server has no free connection: try again later",
    )
    .retry_after(5);
    let mut response = FULL.into_response();
    response.headers_mut().insert(CONNECTION, http::HeaderValue::from_static("close"));
    response
}

/// The answer if the body did not arrive completely.
fn turned_away(fault: BodyFault) -> Response {
    let (status, code) = match fault {
        BodyFault::TooSlow => (StatusCode::REQUEST_TIMEOUT, "too_slow"),
        BodyFault::BrokenOff => (StatusCode::BAD_REQUEST, "malformed_body"),
        BodyFault::BudgetRefusal(BudgetRefusal::OfSender) => {
            (StatusCode::TOO_MANY_REQUESTS, "too_many_unfinished_bodies")
        }
        BodyFault::BudgetRefusal(BudgetRefusal::OfServer) => (StatusCode::SERVICE_UNAVAILABLE, "overloaded"),
        BodyFault::OverLimit => (StatusCode::SERVICE_UNAVAILABLE, "too_many_connections"),
    };
    let problem = Problem::new(status, code, fault.to_string());
    match fault {
        BodyFault::BudgetRefusal(_) | BodyFault::OverLimit => problem.retry_after(1).into_response(),
        BodyFault::TooSlow | BodyFault::BrokenOff => problem.into_response(),
    }
}

/// The answer after a panic.
fn broken() -> Response {
    const BROKEN: Problem = Problem::fixed(
        StatusCode::INTERNAL_SERVER_ERROR,
        "fault",
        "internal error: see the log of the server",
    );
    BROKEN.into_response()
}

/// The page at `/` if the chat page is switched off.
async fn without_page() -> Html<&'static str> {
    Html(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Posthouse</title>\
         <h1>Posthouse</h1><p>This is a Posthouse server. Its chat page is switched off; its operator can turn it on \
         with the setting <code>platforms.web.page</code>.</p></html>",
    )
}

/// Liveness: the process answers.
async fn healthz() -> &'static str {
    "ok\n"
}

/// Readiness: the ledger works and no loop has failed. A dead bot is reported but does not make the server
/// unready.
async fn readyz(State(handlers): State<ServerHandlers>) -> Response {
    match handlers.health.check().await {
        Ok(()) => match handlers.bots.dead_count() {
            0 => "ready\n".into_response(),
            1 => "ready\n1 bot is dead\n".into_response(),
            dead => format!("ready\n{dead} bots are dead\n").into_response(),
        },
        Err(trouble) => (StatusCode::SERVICE_UNAVAILABLE, format!("{trouble}\n")).into_response(),
    }
}

async fn metrics(State(handlers): State<ServerHandlers>, request: Request) -> Response {
    if !handlers.metrics_open
        && let Err(refusal) = handlers.admin.admit(request.headers(), request.extensions()).await
    {
        return refusal;
    }
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &handlers.metrics) {
        Ok(()) => ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
            .into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

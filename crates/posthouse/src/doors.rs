//! Every mount, in one place.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::{Bytes, BytesMut};
use console::AdminToken;
use futures_util::FutureExt;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use hyper::body::Incoming;
use prometheus_client::registry::Registry;
use tower::ServiceExt;

use crate::house::Health;

/// What stands behind the doors that belong to the house itself.
#[derive(Clone)]
pub struct Porter {
    pub health: Health,
    pub metrics: Arc<Registry>,
    pub metrics_open: bool,
    pub admin: AdminToken,
}

/// The largest body that any door takes, which is the post's: a text of 256 KiB whose every byte is written as an
/// escape of six, and what stands around it. Each other door takes less.
const LARGEST_BODY: usize = 6 * 256 * 1024 + 64 * 1024;

/// Everything that can be asked of this house. Clones are cheap.
#[derive(Clone)]
pub struct Doors {
    mounts: Router,
    body_within: Duration,
}

/// Everything under the path of the public address.
pub fn open(
    prefix: &str,
    planes: impl IntoIterator<Item = Router>,
    porter: Porter,
    body_within: Duration,
) -> Doors {
    let own = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(porter);
    let mounts = planes.into_iter().fold(own, Router::merge);
    let mounts = if prefix.is_empty() { mounts } else { Router::new().nest(prefix, mounts) };
    Doors { mounts, body_within }
}

impl Doors {
    /// Answers, whatever comes. Around the router and not layers of it: those would be cloned and boxed
    /// anew for every request.
    pub async fn answer(self, request: http::Request<Incoming>) -> Result<Response, Infallible> {
        let answer = AssertUnwindSafe(self.pass_on(request)).catch_unwind().await;
        // A panic is a bug of ours; its words stay in the log.
        Ok(answer.unwrap_or_else(|_| turned_away(StatusCode::INTERNAL_SERVER_ERROR)))
    }

    /// Reads the body before anything else runs, so that a sender of one byte a second holds a timer and
    /// nothing more.
    async fn pass_on(self, request: http::Request<Incoming>) -> Response {
        let (parts, body) = request.into_parts();
        let body = match tokio::time::timeout(self.body_within, read(body)).await {
            Ok(Ok(body)) => body,
            Ok(Err(status)) => return turned_away(status),
            Err(_) => return turned_away(StatusCode::REQUEST_TIMEOUT),
        };
        let Ok(answer) = self.mounts.oneshot(Request::from_parts(parts, Body::from(body))).await;
        answer
    }
}

/// What is said before any door was reached, or after one broke.
fn turned_away(status: StatusCode) -> Response {
    let (code, detail) = match status {
        StatusCode::PAYLOAD_TOO_LARGE => ("too_long", "the body is longer than any door takes"),
        StatusCode::REQUEST_TIMEOUT => ("too_slow", "the body took too long"),
        StatusCode::BAD_REQUEST => ("malformed_body", "the body broke off or cannot be read"),
        _ => ("fault", "the house broke over this request: its log says how"),
    };
    let body = serde_json::json!({
        "type": "about:blank",
        "title": status.canonical_reason(),
        "status": status.as_u16(),
        "code": code,
        "detail": detail,
    });
    (status, [(CONTENT_TYPE, "application/problem+json")], body.to_string()).into_response()
}

/// Alive: the process answers.
async fn healthz() -> &'static str {
    "ok\n"
}

/// Ready: the ledger answers and no loop has fallen.
async fn readyz(State(porter): State<Porter>) -> Response {
    match porter.health.check().await {
        Ok(()) => "ready\n".into_response(),
        Err(trouble) => (StatusCode::SERVICE_UNAVAILABLE, format!("{trouble}\n")).into_response(),
    }
}

async fn metrics(State(porter): State<Porter>, request: Request) -> Response {
    if !porter.metrics_open && !porter.admin.admits_request(request.headers()) {
        return console::unauthorized();
    }
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &porter.metrics) {
        Ok(()) => ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
            .into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// The body, or why not. One that is too long is read on for a while and forgotten: a sender that is
/// cut off in the middle of it would never see the answer.
async fn read(mut body: Incoming) -> Result<Bytes, StatusCode> {
    // Nearly every body comes in one piece, which is then passed on as it is.
    let (mut first, mut whole, mut length) = (Bytes::new(), BytesMut::new(), 0);
    while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(chunk) = frame.map_err(|_| StatusCode::BAD_REQUEST)?.into_data() else { continue };
        length += chunk.len();
        if length > 8 * LARGEST_BODY {
            break;
        }
        if first.is_empty() {
            first = chunk;
        } else if length <= LARGEST_BODY {
            if whole.is_empty() {
                whole.extend_from_slice(&first);
            }
            whole.extend_from_slice(&chunk);
        }
    }
    match length {
        _ if length > LARGEST_BODY => Err(StatusCode::PAYLOAD_TOO_LARGE),
        _ if whole.is_empty() => Ok(first),
        _ => Ok(whole.freeze()),
    }
}

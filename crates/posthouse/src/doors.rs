//! Every mount, in one place.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::{Bytes, BytesMut};
use console::AdminToken;
use futures_util::StreamExt;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use prometheus_client::registry::Registry;
use tower_http::catch_panic::CatchPanicLayer;

use crate::house::Health;

/// What stands behind the doors that belong to the house itself.
#[derive(Clone)]
pub struct Porter {
    pub health: Health,
    pub metrics: Arc<Registry>,
    pub metrics_open: bool,
    pub admin: AdminToken,
}

/// The largest body that any door takes; each door may take less.
const LARGEST_BODY: usize = 1024 * 1024;

/// Everything under the path of the public address.
pub fn open(
    prefix: &str,
    planes: impl IntoIterator<Item = Router>,
    porter: Porter,
    body_within: Duration,
) -> Router {
    let own = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(porter);
    let doors = planes.into_iter().fold(own, Router::merge);
    let doors = doors
        .layer(middleware::from_fn_with_state(body_within, whole_body))
        .layer(CatchPanicLayer::custom(said_nothing));
    if prefix.is_empty() { doors } else { Router::new().nest(prefix, doors) }
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

/// Reads the body before anything else runs, so that a sender of one byte a second holds a timer and
/// nothing more.
async fn whole_body(State(within): State<Duration>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match tokio::time::timeout(within, read(body)).await {
        Ok(Ok(bytes)) => next.run(Request::from_parts(parts, Body::from(bytes))).await,
        Ok(Err(status)) => status.into_response(),
        Err(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
    }
}

/// The body, or why not. One that is too long is read on for a while and forgotten: a sender that is
/// cut off in the middle of it would never see the answer.
async fn read(body: Body) -> Result<Bytes, StatusCode> {
    let mut chunks = body.into_data_stream();
    let (mut whole, mut length) = (BytesMut::new(), 0);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| StatusCode::BAD_REQUEST)?;
        length += chunk.len();
        if length > 8 * LARGEST_BODY {
            break;
        }
        if length <= LARGEST_BODY {
            whole.extend_from_slice(&chunk);
        }
    }
    if length > LARGEST_BODY { Err(StatusCode::PAYLOAD_TOO_LARGE) } else { Ok(whole.freeze()) }
}

/// A panic is a bug of ours; its words stay in the log.
fn said_nothing(_: Box<dyn std::any::Any + Send + 'static>) -> Response {
    StatusCode::INTERNAL_SERVER_ERROR.into_response()
}

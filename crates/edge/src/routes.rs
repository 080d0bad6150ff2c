//! The edge's door: `/door/{platform}/{bot}` and what follows.

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use ledger::Identity;

use crate::Edge;
use crate::intake::Admitted;
use crate::platform::Raw;

/// The largest delivery taken; every platform's are far smaller.
const LARGEST: usize = 1024 * 1024;

pub fn routes(edge: &Edge) -> Router {
    Router::new()
        .route("/door/{platform}/{bot}", any(deliver))
        .route("/door/{platform}/{bot}/{*rest}", any(deliver))
        .with_state(edge.clone())
}

#[derive(serde::Deserialize)]
struct Door {
    platform: String,
    bot: String,
    #[serde(default)]
    rest: String,
}

async fn deliver(State(edge): State<Edge>, Path(door): Path<Door>, request: Request) -> Response {
    // Taken apart by hand: the extractors of method and headers would copy them.
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, LARGEST).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    // The path selects one bot, and so the key; never the tenant.
    let identity = Identity { platform: door.platform.as_str().into(), bot: door.bot.as_str().into() };
    let Some(platform) = edge.platform(&door.platform).cloned() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let bot = match edge.bots().find(&identity).await {
        Ok(Some(bot)) => bot,
        Ok(None) => return StatusCode::NOT_FOUND.into_response(),
        Err(fault) => {
            tracing::error!(%fault, platform = platform.name(), "could not open the bot of a delivery");
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
    };
    let raw = Raw {
        method: parts.method,
        rest: door.rest,
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers,
        body,
        received: edge.0.timepiece.now(),
    };
    match edge.intake().receive(&platform, &bot, raw).await {
        Ok(Admitted::Taken { entries, reply }) => {
            let mut response = Response::new(Body::from(reply.body));
            *response.status_mut() = reply.status;
            if let Some(content_type) = reply.content_type {
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            }
            let ids = entries.iter().map(|entry| entry.as_str()).collect::<Vec<_>>().join(",");
            if let Ok(ids) = HeaderValue::from_str(&ids)
                && !entries.is_empty()
            {
                response.headers_mut().insert("posthouse-id", ids);
            }
            response
        }
        Ok(Admitted::Refused(refusal)) => refusal.status.into_response(),
        Err(fault) => {
            // Not kept, so not acknowledged: the platform will bring it again.
            tracing::error!(%fault, platform = platform.name(), "could not keep a delivery");
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
    }
}

//! Fire endpoint as an axum route.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};

use super::{Cron, FireResponse};

/// Far more than a fire needs.
const LARGEST: usize = 64 << 10;

impl Cron {
    /// `POST /api/cron/fire`, to be merged into an agent's own routes.
    pub fn route(&self) -> Router {
        Router::new().route("/api/cron/fire", post(fire)).with_state(self.clone())
    }
}

async fn fire(State(cron): State<Cron>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, LARGEST).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    cron.fire(&head.headers, &body).await.into_response()
}

impl IntoResponse for FireResponse {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body.to_string()));
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(after) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        }
        response
    }
}

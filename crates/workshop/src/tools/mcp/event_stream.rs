//! Event streams: one message per event, one line per message.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde_json::Value;

/// A comment, which keeps a connection from being taken for dead.
pub const KEEP_ALIVE: Bytes = Bytes::from_static(b":\n\n");

/// One message as an event. JSON has no line break outside of escapes, so it is one line.
pub fn event(message: &Value) -> Bytes {
    Bytes::from(format!("event: message\ndata: {message}\n\n"))
}

/// A stream of one event.
pub fn single_event(message: &Value) -> Response {
    event_stream(Body::from(event(message)))
}

pub fn event_stream(body: Body) -> Response {
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    (headers, body).into_response()
}

//! Webhook receiver whose behaviour is chosen by the last segment of its path, and which records every
//! call.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::talk::PATIENCE;

/// All behaviours.
pub const MANNERS: [&str; 9] =
    ["good", "refusing", "angry", "angry-once", "hanging", "nonsense", "moved", "answering", "misanswering"];

/// One call that came in.
#[derive(Clone, Debug)]
pub struct Call {
    pub manner: String,
    pub headers: HeaderMap,
    pub bytes: Vec<u8>,
    pub body: Value,
}

impl Call {
    /// Where an answer may be sent to.
    pub fn reply_to(&self) -> Option<&str> {
        self.body["reply_to"].as_str()
    }
}

pub struct Receiver {
    url: String,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Receiver {
    pub async fn open() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let calls = Arc::default();
        let router = Router::new().fallback(take).with_state(Arc::clone(&calls));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, calls }
    }

    /// Where it answers in that manner.
    pub fn at(&self, manner: &str) -> String {
        format!("{}/{manner}", self.url)
    }

    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().clone()
    }

    /// Waits for the first call that is as described.
    pub async fn called(&self, with: impl Fn(&Call) -> bool) -> Call {
        let called = async {
            loop {
                if let Some(call) = self.calls().into_iter().find(|call| with(call)) {
                    return call;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, called).await.expect("the receiver was not called")
    }
}

async fn take(State(calls): State<Arc<Mutex<Vec<Call>>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if parts.method != Method::POST {
        return StatusCode::OK.into_response();
    }
    let Ok(bytes) = axum::body::to_bytes(body, 1024 * 1024).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let manner = parts.uri.path().trim_start_matches('/').to_owned();
    // The call of a stop URL has no body.
    let body = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap() };
    let (uri, sent) = (parts.uri.clone(), body.clone());
    let again = {
        let mut calls = calls.lock();
        let again = calls.iter().any(|known| known.manner == manner && known.bytes == bytes);
        calls.push(Call { manner: manner.clone(), headers: parts.headers, bytes: bytes.to_vec(), body });
        again
    };
    match manner.as_str() {
        "refusing" => StatusCode::FORBIDDEN.into_response(),
        "angry" => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        "angry-once" if !again => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        "hanging" => std::future::pending().await,
        "nonsense" => "<html>\u{0}]]> {\"delivered_at\":".into_response(),
        "moved" => (StatusCode::FOUND, [("location", "http://127.0.0.1:9/elsewhere")]).into_response(),
        "answering" => r#"{"reply":{"content":"here you are"}}"#.into_response(),
        "echoing" => repeated(&uri, &sent).into_response(),
        "misanswering" => r#"{"reply":{"content":7}}"#.into_response(),
        _ => (StatusCode::ACCEPTED, "{}").into_response(),
    }
}

/// The answer of a tool server that refuses a request, and repeats its URL.
fn repeated(uri: &http::Uri, request: &Value) -> String {
    let message = format!("refused: {uri}");
    json!({ "jsonrpc": "2.0", "id": request["id"], "error": { "code": -1, "message": message } }).to_string()
}

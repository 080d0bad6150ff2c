//! Webhook receiver for tests: records requests and answers as configured.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::response::Response;
use http::{HeaderMap, Method, Request, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;

/// What came.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

enum Manner {
    Answers(StatusCode, Option<String>, Vec<u8>),
    /// Accepts the request and never responds.
    Stalls,
}

#[derive(Clone)]
pub struct Receiver {
    pub base: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    manner: Arc<Mutex<Manner>>,
}

impl Receiver {
    pub async fn open() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let manner = Manner::Answers(StatusCode::OK, None, Vec::new());
        let receiver = Self { base, seen: Arc::default(), manner: Arc::new(Mutex::new(manner)) };
        let this = receiver.clone();
        let doors = axum::Router::new().fallback(move |request| this.clone().take(request));
        tokio::spawn(async move { axum::serve(listener, doors).await });
        receiver
    }

    /// Answers like this from now on.
    pub fn says(&self, status: u16, body: impl Into<Vec<u8>>) {
        *self.manner.lock() = Manner::Answers(StatusCode::from_u16(status).unwrap(), None, body.into());
    }

    pub fn redirects(&self, status: u16, to: &str) {
        let status = StatusCode::from_u16(status).unwrap();
        *self.manner.lock() = Manner::Answers(status, Some(to.to_owned()), Vec::new());
    }

    pub fn stalls(&self) {
        *self.manner.lock() = Manner::Stalls;
    }

    /// Everything since the last look.
    pub fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock())
    }

    /// How much came since the last look.
    pub fn count(&self) -> usize {
        self.seen.lock().len()
    }

    /// The one thing that came since the last look.
    pub fn one(&self) -> Seen {
        let mut seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen.remove(0)
    }

    async fn take(self, request: Request<Body>) -> Response {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().unwrap().to_string();
        let body = to_bytes(body, 1 << 24).await.unwrap().to_vec();
        self.seen.lock().push(Seen { method: parts.method, path, headers: parts.headers, body });
        let answer = match &*self.manner.lock() {
            Manner::Stalls => None,
            Manner::Answers(status, to, body) => {
                let mut answer = Response::new(Body::from(body.clone()));
                *answer.status_mut() = *status;
                if let Some(to) = to {
                    answer.headers_mut().insert("location", to.parse().unwrap());
                }
                Some(answer)
            }
        };
        match answer {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}

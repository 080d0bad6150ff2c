//! Callback URL of an agent, played on loopback with scripted answers.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use posthouse_time::{Moment, Timepiece};
use serde_json::Value;
use tokio::sync::Notify;

use crate::fixtures::PATIENCE;

/// A call that the server got.
#[derive(Clone, Debug)]
pub struct ReceivedFire {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Value,
    pub at: Moment,
}

#[derive(Clone)]
pub struct CallbackServer(Arc<Inner>);

struct Inner {
    address: SocketAddr,
    fires: Mutex<Vec<ReceivedFire>>,
    answers: Mutex<VecDeque<ScriptedAnswer>>,
    clock: Timepiece,
    changed: Notify,
}

/// One scripted answer. After the last one the server answers everything with 202.
#[derive(Clone)]
pub enum ScriptedAnswer {
    Status(u16, &'static str),
    RetryAfter(u16, u64),
    /// Sends the caller to another URL.
    Redirect(u16, String),
    /// Holds the call until it is notified.
    Hold(Arc<Notify>),
}

impl CallbackServer {
    pub async fn open(clock: Timepiece) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let inner = Arc::new(Inner {
            address: listener.local_addr().unwrap(),
            fires: Mutex::default(),
            answers: Mutex::default(),
            clock,
            changed: Notify::new(),
        });
        let router = Router::new().fallback(any(take)).with_state(Arc::clone(&inner));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self(inner)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.0.address)
    }

    pub fn answers(&self, answers: impl IntoIterator<Item = ScriptedAnswer>) {
        self.0.answers.lock().extend(answers);
    }

    pub fn fires(&self) -> Vec<ReceivedFire> {
        self.0.fires.lock().clone()
    }

    pub fn jobs(&self) -> Vec<String> {
        self.fires().iter().map(|fire| fire.body["job_id"].as_str().unwrap_or("?").to_owned()).collect()
    }

    /// Waits until the server was called this often.
    pub async fn called(&self, times: usize) -> Vec<ReceivedFire> {
        let waiting = async {
            loop {
                let changed = self.0.changed.notified();
                if self.0.fires.lock().len() >= times {
                    return self.fires();
                }
                changed.await;
            }
        };
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(fires) => fires,
            Err(_) => panic!("called {} times, not {times}", self.0.fires.lock().len()),
        }
    }
}

async fn take(State(inner): State<Arc<Inner>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 65_536).await.unwrap();
    let fire = ReceivedFire {
        path: parts.uri.to_string(),
        headers: parts.headers,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        at: inner.clock.now(),
    };
    inner.fires.lock().push(fire);
    let answer = inner.answers.lock().pop_front();
    inner.changed.notify_waiters();
    match answer {
        None => (StatusCode::ACCEPTED, r#"{"status":"accepted"}"#).into_response(),
        Some(ScriptedAnswer::Status(status, body)) => {
            (StatusCode::from_u16(status).unwrap(), body).into_response()
        }
        Some(ScriptedAnswer::RetryAfter(status, seconds)) => {
            let after = [("retry-after", seconds.to_string())];
            (StatusCode::from_u16(status).unwrap(), after, "waking").into_response()
        }
        Some(ScriptedAnswer::Redirect(status, to)) => {
            (StatusCode::from_u16(status).unwrap(), [("location", to)]).into_response()
        }
        Some(ScriptedAnswer::Hold(until)) => {
            until.notified().await;
            StatusCode::ACCEPTED.into_response()
        }
    }
}

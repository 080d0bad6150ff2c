//! Webhook receiver that records every call, answers some with 500, and is slow.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;

/// One delivery that came in.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub dispatch: String,
    pub agent: String,
    pub text: String,
    pub body: Vec<u8>,
    /// Whether it was answered well, if the server lived to hear it.
    pub taken: bool,
}

pub struct Hook {
    pub url: String,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Hook {
    pub async fn open() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let calls = Arc::new(Mutex::new(Vec::new()));
        let router = Router::new().fallback(take).with_state(Arc::clone(&calls));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, calls }
    }

    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().clone()
    }
}

async fn take(State(calls): State<Arc<Mutex<Vec<Call>>>>, request: Request) -> StatusCode {
    let (parts, body) = request.into_parts();
    if parts.method == Method::HEAD {
        return StatusCode::OK;
    }
    // A call that broke off half way is none.
    let Ok(body) = axum::body::to_bytes(body, 65_536).await else { return StatusCode::BAD_REQUEST };
    let read: Value = serde_json::from_slice(&body).unwrap();
    let text = |at: &str| read.pointer(at).unwrap().as_str().unwrap().to_owned();
    let dispatch = text("/meta/dispatch_id");
    let taken = {
        let mut calls = calls.lock();
        // One in eight fails once, so that all get through within the attempts that the server makes.
        let is_first = !calls.iter().any(|call| call.dispatch == dispatch);
        let taken = !(is_first && body.iter().map(|byte| usize::from(*byte)).sum::<usize>() % 8 == 0);
        calls.push(Call {
            dispatch,
            agent: text("/agent_id"),
            text: text("/content"),
            body: body.to_vec(),
            taken,
        });
        taken
    };
    // So that a kill may fall between the call and its answer.
    tokio::time::sleep(Duration::from_millis(body.len() as u64 % 16)).await;
    if taken { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR }
}

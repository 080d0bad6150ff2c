//! Test agent with cron jobs: it arms them over HTTP and receives its fires at a callback URL.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::cron::{FireAt, FireProof, Policy, Provision};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::house::House;
use crate::talk::PATIENCE;
use crate::tokens::exchanges;

/// One call that came in.
#[derive(Clone, Debug)]
pub struct Call {
    /// The agent that was meant, by the path of its callback.
    pub agent: String,
    pub job: String,
    pub fire_at: String,
    pub headers: HeaderMap,
    pub at: Moment,
    /// Whether it won the claim, so that the job runs.
    pub runs: bool,
}

impl Call {
    /// The token it came with.
    pub fn token(&self) -> &str {
        self.headers["authorization"].to_str().unwrap().strip_prefix("Bearer ").unwrap()
    }
}

/// Callback server of agents. It claims fires as an SDK agent does, so each fire time of a job runs once. A
/// call to any other path is refused and recorded as one that does not run.
#[derive(Clone)]
pub struct Callback {
    url: String,
    book: Arc<Book>,
}

#[derive(Default)]
struct Book {
    claims: Mutex<HashSet<(String, String, String)>>,
    calls: Mutex<Vec<Call>>,
    changed: Notify,
}

impl Callback {
    pub async fn open() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let book = Arc::new(Book::default());
        let router = Router::new().fallback(take).with_state(Arc::clone(&book));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, book }
    }

    /// The callback URL of one agent.
    pub fn of(&self, agent: &str) -> String {
        format!("{}/{agent}", self.url)
    }

    pub fn calls(&self) -> Vec<Call> {
        self.book.calls.lock().clone()
    }

    pub fn len(&self) -> usize {
        self.book.calls.lock().len()
    }

    /// Waits until there were this many calls.
    pub async fn called(&self, times: usize) -> Vec<Call> {
        let waited = tokio::time::timeout(PATIENCE, async {
            loop {
                let changed = self.book.changed.notified();
                if self.len() >= times {
                    return;
                }
                changed.await;
            }
        });
        assert!(waited.await.is_ok(), "called {} times, not {times}", self.len());
        self.calls()
    }
}

async fn take(State(book): State<Arc<Book>>, request: Request) -> Response {
    let at = Timepiece::wall().now();
    let (parts, body) = request.into_parts();
    // A call that broke off half way is none.
    let Ok(body) = axum::body::to_bytes(body, 65_536).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let body: Value = serde_json::from_slice(&body).unwrap();
    let agent = parts.uri.path().split('/').nth(1).unwrap().to_owned();
    let text = |name: &str| body[name].as_str().unwrap().to_owned();
    let (job, fire_at) = (text("job_id"), text("fire_at"));
    let is_there = parts.uri.path() == format!("/{agent}/api/cron/fire");
    let runs = is_there && book.claims.lock().insert((agent.clone(), job.clone(), fire_at.clone()));
    book.calls.lock().push(Call { agent, job, fire_at, headers: parts.headers, at, runs });
    book.changed.notify_waiters();
    match runs {
        _ if !is_there => StatusCode::NOT_FOUND.into_response(),
        true => (StatusCode::ACCEPTED, r#"{"status":"accepted"}"#).into_response(),
        false => (StatusCode::OK, r#"{"status":"duplicate"}"#).into_response(),
    }
}

/// Client with which an agent arms its jobs.
#[derive(Clone)]
pub struct Armer {
    house: String,
    pub token: String,
    pub callback: String,
    client: reqwest::Client,
}

impl Armer {
    /// As the client that `agent create` printed; called back at `callback`.
    pub async fn new(house: &House, agent: &Value, callback: String) -> Self {
        let token = exchanges(house, agent).await["access_token"].as_str().unwrap().to_owned();
        let client = reqwest::Client::builder().timeout(Duration::from_secs(60)).build().unwrap();
        Self { house: house.url.clone(), token, callback, client }
    }

    /// An arm request for that time, with default fields.
    pub fn wish(&self, job: &str, fire_at: &FireAt) -> Provision {
        Provision {
            job: job.into(),
            fire_at: fire_at.clone(),
            callback: Some(self.callback.clone()),
            dedup: Provision::dedup_key(&job.into(), fire_at),
            proof: FireProof::default(),
            policy: Policy::default(),
            then: Vec::new(),
        }
    }

    /// The answer, or none if the server ended before it answered.
    pub async fn posts(&self, verb: &str, body: &Value) -> Option<(u16, Value)> {
        let url = format!("{}/api/agent-cron/{verb}", self.house);
        let request = self.client.post(url).bearer_auth(&self.token).body(body.to_string());
        let answer = request.send().await.ok()?;
        let status = answer.status().as_u16();
        Some((status, answer.json().await.ok()?))
    }

    pub async fn asks(&self, what: &str) -> (u16, Value) {
        let url = format!("{}/api/agent-cron/{what}", self.house);
        let answer = self.client.get(url).bearer_auth(&self.token).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    /// Arms and retries until it succeeds.
    pub async fn arms(&self, wish: &Provision) -> Value {
        let (status, answer) = self.posts("provision", &wish.body()).await.unwrap();
        assert_eq!(status, 200, "{answer}");
        answer
    }

    pub async fn cancels(&self, job: &str) {
        assert_eq!(
            self.posts("cancel", &json!({ "job_id": job })).await.unwrap(),
            (200, json!({"ok": true}))
        );
    }

    /// The armed jobs, as the server lists them.
    pub async fn listed(&self) -> Vec<Value> {
        let (status, answer) = self.asks("list").await;
        assert_eq!(status, 200, "{answer}");
        answer["armed"].as_array().unwrap().clone()
    }
}

/// So long from now, to the millisecond.
pub fn ahead(by: Duration) -> FireAt {
    FireAt::from_micros((Timepiece::wall().now() + by).millis() * 1000)
}

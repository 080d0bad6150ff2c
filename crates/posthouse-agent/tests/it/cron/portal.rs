//! Test portal on loopback: keeps arms in memory, records calls, and fails as told.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post};
use axum::{Json, Router};
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use posthouse_agent::wire::id::JobId;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(super) struct FakePortal {
    pub(super) url: String,
    state: Arc<Mutex<PortalState>>,
}

#[derive(Default)]
struct PortalState {
    armed: BTreeMap<String, Value>,
    /// `list`, `arm JOB`, `cancel JOB`, `token`.
    calls: Vec<String>,
    down: bool,
    identity_refused: bool,
    fails_for: HashSet<String>,
    tokens: u32,
    /// Tokens up to this one are no longer accepted.
    spent: u32,
    going_on: usize,
    most_at_once: usize,
    /// Arm calls wait until this many are there at a time.
    gathers: usize,
    /// Where the portal listens.
    address: Option<SocketAddr>,
}

impl FakePortal {
    pub(super) async fn open() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(PortalState { address: Some(address), ..PortalState::default() }));
        let url = format!("http://{address}");
        let routes = Router::new()
            .route("/oauth/token", post(token))
            .route("/api/agent-cron/{verb}", any(verb))
            .with_state(Arc::clone(&state));
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { url, state }
    }

    /// The armed time of each job, as the portal got it.
    pub(super) fn armed(&self) -> BTreeMap<String, String> {
        let text = |body: &Value| body["fire_at"].as_str().unwrap_or_default().to_owned();
        self.state.lock().armed.iter().map(|(job, body)| (job.clone(), text(body))).collect()
    }

    pub(super) fn body(&self, job: &JobId) -> Value {
        self.state.lock().armed[job.as_str()].clone()
    }

    pub(super) fn calls(&self) -> Vec<String> {
        self.state.lock().calls.clone()
    }

    pub(super) fn count(&self, word: &str) -> usize {
        self.state.lock().calls.iter().filter(|calls| calls.starts_with(word)).count()
    }

    pub(super) fn forgets_its_calls(&self) {
        self.state.lock().calls.clear();
    }

    /// As if an earlier process had armed it.
    pub(super) fn holds(&self, job: &str, fire_at: &str) {
        self.state.lock().armed.insert(job.to_owned(), json!({ "fire_at": fire_at }));
    }

    /// The agent accepted it.
    pub(super) fn delivered(&self, job: &JobId) {
        self.state.lock().armed.remove(job.as_str());
    }

    pub(super) fn is_down(&self, down: bool) {
        self.state.lock().down = down;
    }

    pub(super) fn refuses_identity(&self) {
        self.state.lock().identity_refused = true;
    }

    pub(super) fn fails_for(&self, job: &JobId, fails: bool) {
        let mut state = self.state.lock();
        if fails {
            state.fails_for.insert(job.to_string());
        } else {
            state.fails_for.remove(job.as_str());
        }
    }

    pub(super) fn forgets_tokens(&self) {
        let mut state = self.state.lock();
        state.spent = state.tokens;
    }

    /// Lets no arm call through before this many are there at a time, however fast they arrive.
    pub(super) fn gathers(&self, calls: usize) {
        self.state.lock().gathers = calls;
    }

    pub(super) fn most_at_once(&self) -> usize {
        self.state.lock().most_at_once
    }
}

/// Returns when the portal has answered a call that is made now. One call too many would have arrived before it.
async fn answers_a_marker(portal: SocketAddr) {
    let mut marker = TcpStream::connect(portal).await.unwrap();
    marker.write_all(b"GET /marker HTTP/1.1\r\nhost: portal\r\nconnection: close\r\n\r\n").await.unwrap();
    marker.read_to_end(&mut Vec::new()).await.unwrap();
}

async fn token(State(state): State<Arc<Mutex<PortalState>>>, form: String) -> Response {
    let mut state = state.lock();
    if state.down {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    assert_eq!(form, "grant_type=client_credentials&client_id=agent%3Ainst_1&client_secret=s3cret");
    state.tokens += 1;
    state.calls.push("token".to_owned());
    Json(json!({ "access_token": format!("t{}", state.tokens), "expires_in": 900 })).into_response()
}

async fn verb(
    State(state): State<Arc<Mutex<PortalState>>>,
    Path(verb): Path<String>,
    headers: HeaderMap,
    body: axum::body::Bytes,
) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let job = body["job_id"].as_str().unwrap_or_default().to_owned();
    {
        let mut state = state.lock();
        state.going_on += 1;
        state.most_at_once = state.most_at_once.max(state.going_on);
    }
    if verb == "provision" {
        let still_few = || {
            let state = state.lock();
            state.most_at_once < state.gathers
        };
        let gathered = async {
            while still_few() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        // If they never come together, the test reports it.
        let _ = tokio::time::timeout(Duration::from_secs(60), gathered).await;
        let portal = {
            let state = state.lock();
            state.address.filter(|_| state.gathers > 0)
        };
        if let Some(portal) = portal {
            answers_a_marker(portal).await;
        }
    }
    let mut state = state.lock();
    state.going_on -= 1;
    if state.down || state.fails_for.contains(&job) {
        return (StatusCode::BAD_GATEWAY, "<html>out to lunch</html>").into_response();
    }
    let number = headers["authorization"].to_str().unwrap().strip_prefix("Bearer t").unwrap().parse::<u32>();
    if number.unwrap() <= state.spent {
        return (StatusCode::UNAUTHORIZED, Json(json!({ "error": "invalid_token" }))).into_response();
    }
    if state.identity_refused {
        let why = json!({ "error": "invalid_client", "error_description": "not an agent" });
        return (StatusCode::FORBIDDEN, Json(why)).into_response();
    }
    match verb.as_str() {
        "provision" => {
            state.calls.push(format!("arm {job}"));
            let mut answer = json!({ "schedule_id": "sch_1" });
            if body["verifier"] == "per_job_key" {
                answer["cron_key"] = format!("key of {job}").into();
            }
            state.armed.insert(job, body);
            Json(answer).into_response()
        }
        "cancel" => {
            state.calls.push(format!("cancel {job}"));
            state.armed.remove(&job);
            Json(json!({ "ok": true })).into_response()
        }
        "list" => {
            state.calls.push("list".to_owned());
            let row = |(job, body): (&String, &Value)| json!({ "job_id": job, "fire_at": body["fire_at"], "schedule_id": "sch_1" });
            let rows: Vec<Value> = state.armed.iter().map(row).collect();
            Json(json!({ "armed": rows })).into_response()
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// A client for loopback. It trusts no certificate, because it does not use TLS.
#[cfg(feature = "axum")]
pub(super) fn client() -> reqwest::Client {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder().tls_backend_preconfigured(tls).build().unwrap()
}

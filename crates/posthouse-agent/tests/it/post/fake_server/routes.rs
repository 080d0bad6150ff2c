//! HTTP answers of the test server.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{CLIENT_SECRET, Question, RecordedCalls, ServerTask, die};

#[derive(Clone)]
struct ServerState {
    recorded: watch::Sender<RecordedCalls>,
    task: Arc<Mutex<ServerTask>>,
}

pub(super) fn open(recorded: watch::Sender<RecordedCalls>, task: Arc<Mutex<ServerTask>>) -> Router {
    let server = ServerState { recorded, task };
    let doors = Router::new()
        .route("/v1/notify", post(notify))
        .route("/v1/wake", post(wake))
        .route("/v1/deliver", post(deliver))
        .route("/v1/exchange", post(exchange))
        .route("/v1/exchanges", get(questions))
        .route("/v1/exchanges/{question}", get(look))
        .route("/v1/receipts", get(receipts))
        .route("/v1/receipts/{dispatch}", get(receipt))
        .route("/v1/agents", get(agents))
        .route("/v1/agents/{name}", get(agent))
        .layer(from_fn_with_state(server.clone(), admit));
    let server = doors.route("/oauth/token", post(token)).with_state(server);
    // A server may be below a path of its own.
    Router::new().nest("/under/a/path", server.clone()).merge(server)
}

fn problem(status: StatusCode, code: &str) -> Response {
    (status, Json(json!({ "code": code, "detail": format!("this is {code}") }))).into_response()
}

async fn token(State(server): State<ServerState>, form: String) -> Response {
    let right = "grant_type=client_credentials&client_id=tenant%3Aacme&client_secret=";
    if form != format!("{right}{}", CLIENT_SECRET.replace(' ', "+")) {
        return (StatusCode::UNAUTHORIZED, Json(json!({ "error": "invalid_client" }))).into_response();
    }
    server.recorded.send_modify(|recorded| recorded.tokens += 1);
    let access_token = format!("t{}", server.recorded.borrow().tokens);
    Json(json!({ "access_token": access_token, "expires_in": 900 })).into_response()
}

/// Answers, and ends the connection afterwards if a test says so.
async fn admit(server: State<ServerState>, request: Request, next: Next) -> Response {
    let recorded = server.recorded.clone();
    let mut answer = recorded_answer(server, request, next).await;
    if recorded.borrow().hangs_up {
        answer.headers_mut().insert("connection", HeaderValue::from_static("close"));
    }
    answer
}

/// Checks the token and records the call.
async fn recorded_answer(State(server): State<ServerState>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let bearer = parts.headers["authorization"].to_str().unwrap().strip_prefix("Bearer t");
    let number: u32 = bearer.and_then(|number| number.parse().ok()).unwrap_or(0);
    if number <= server.recorded.borrow().spent {
        return problem(StatusCode::UNAUTHORIZED, "unauthorized");
    }
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let written = serde_json::from_slice(&body).unwrap_or_default();
    let path = parts.uri.path_and_query().unwrap().as_str();
    server
        .recorded
        .send_modify(|recorded| recorded.calls.push((format!("{} {path}", parts.method), written)));
    if let Some((status, page)) = server.recorded.borrow().answers {
        return (StatusCode::from_u16(status).unwrap(), page).into_response();
    }
    let answer = next.run(Request::from_parts(parts, body.into())).await;
    let mut dies = false;
    server.recorded.send_if_modified(|recorded| {
        dies = std::mem::take(&mut recorded.dies_with_the_answer);
        dies
    });
    if dies {
        die(&server.task);
        std::future::pending::<()>().await;
    }
    answer
}

async fn notify(State(server): State<ServerState>, headers: HeaderMap, Json(body): Json<Value>) -> Response {
    let key = headers["idempotency-key"].to_str().unwrap().to_owned();
    let agent = body["agent"].clone();
    server.recorded.send_modify(|recorded| {
        recorded.messages.entry(key.clone()).or_insert(body);
    });
    let receipt = json!({ "delivered_at": 7, "delivery_id": "ent_1", "delivery_skipped": true });
    let well = json!({ "connector": "relay", "ok": true, "route": "deliver", "receipt": receipt });
    let ill = json!({ "connector": "hook", "ok": false, "route": "deliver", "error": "no route", "error_kind": "network" });
    Json(json!({ "agent": agent, "dispatch_id": key, "dispatched": [well, ill] })).into_response()
}

async fn wake(headers: HeaderMap) -> Response {
    let key = headers["idempotency-key"].to_str().unwrap();
    let receipt = json!({ "woken_at": 7, "woken": true, "session_id": "desk" });
    let line = json!({ "connector": "relay", "ok": true, "route": "wake", "receipt": receipt });
    Json(json!({ "woken_at": 7, "woken": true, "session_id": "desk", "dispatch_id": key, "dispatched": [line] }))
        .into_response()
}

async fn deliver(Json(body): Json<Value>) -> Response {
    let dispatch = &body["meta"]["dispatch_id"];
    Json(json!({ "delivered_at": 7, "warnings": ["late"], "dispatch_id": dispatch, "dispatched": [] }))
        .into_response()
}

async fn exchange(State(server): State<ServerState>, Json(body): Json<Value>) -> Response {
    if body["agent"] == "nobody" {
        let cause = json!({ "code": "delivery_failed", "detail": "nobody of that name", "cause_kind": "client_validation" });
        return (StatusCode::NOT_FOUND, Json(cause)).into_response();
    }
    let question = body["correlation_id"].as_str().unwrap().to_owned();
    server.recorded.send_modify(|recorded| {
        recorded.questions.entry(question.clone()).or_insert(Question::Open);
    });
    if server.recorded.borrow().dies_with_the_answer {
        return StatusCode::NO_CONTENT.into_response();
    }
    stands(&server, &question).await
}

async fn look(State(server): State<ServerState>, Path(question): Path<String>) -> Response {
    stands(&server, &question).await
}

async fn questions() -> Response {
    let question = |id: &str, state: &str| {
        json!({
            "correlation_id": id, "agent_id": "heron", "connector": "relay", "dispatch_id": format!("d-{id}"),
            "state": state, "opened_at": 5, "deadline": 9,
        })
    };
    let mut failed = question("q3", "failed");
    (failed["ended_at"], failed["error"], failed["error_kind"]) = (json!(6), json!("away"), json!("network"));
    let items = [failed, question("q2", "timed_out"), question("q1", "mislaid")];
    Json(json!({ "items": items, "next": "q1" })).into_response()
}

/// Waits for the question to end, unless the server is set to answer at once.
async fn stands(server: &ServerState, question: &str) -> Response {
    let mut recorded = server.recorded.subscribe();
    let open = |recorded: &RecordedCalls| recorded.questions.get(question) == Some(&Question::Open);
    let recorded = recorded.wait_for(|recorded| recorded.impatient || !open(recorded)).await.unwrap();
    match recorded.questions.get(question) {
        None => problem(StatusCode::NOT_FOUND, "not_found"),
        Some(Question::TimedOut) => problem(StatusCode::GATEWAY_TIMEOUT, "timeout"),
        Some(Question::Open) => {
            let open = json!({ "correlation_id": question, "deadline": 1_765_000_300_000_i64 });
            (StatusCode::ACCEPTED, Json(open)).into_response()
        }
        Some(Question::Answered(content)) => {
            let mut answer =
                json!({ "correlation_id": question, "content": content, "sent_at": 9, "agent_id": "heron" });
            if let Ok(data) = serde_json::from_str::<Value>(content) {
                answer["data"] = data;
            }
            Json(answer).into_response()
        }
    }
}

fn one(dispatch: &str) -> Value {
    let said = json!({ "at": 9, "kind": "said", "message_id": "m1", "text": "on it" });
    json!({
        "dispatch_id": dispatch, "connector": "relay", "agent_id": "heron", "session_id": "ci", "route": "deliver",
        "state": "acknowledged", "sent_at": 5, "accepted_at": 6, "delivered_at": 7, "acknowledged_at": 8, "queue_lag_ms": 2,
        "receipt": { "delivered_at": 6, "delivery_id": "ent_1" }, "replies": [said],
    })
}

async fn receipts(RawQuery(query): RawQuery) -> Response {
    let first = !query.unwrap_or_default().contains("after=");
    match first {
        true => Json(json!({ "items": [one("d2")], "next": "2:d2" })).into_response(),
        false => Json(json!({ "items": [one("d1")] })).into_response(),
    }
}

async fn receipt(Path(dispatch): Path<String>) -> Response {
    match dispatch.as_str() {
        "unheard-of" => problem(StatusCode::NOT_FOUND, "not_found"),
        _ => Json(json!({ "items": [one(&dispatch)] })).into_response(),
    }
}

async fn agents() -> Response {
    let heron = json!({ "agent_id": "heron", "agent_name": "heron", "connectors": ["relay", "hook"] });
    Json(json!({ "items": [heron], "next": "heron" })).into_response()
}

async fn agent(Path(name): Path<String>) -> Response {
    Json(json!({ "agent_id": name, "connectors": ["relay"], "status": "asleep" })).into_response()
}

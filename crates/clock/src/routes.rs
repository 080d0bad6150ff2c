//! The clock's door: `/api/agent-cron/*` and the keys that check its tokens.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use ledger::{FireLine, Instance};
use posthouse_wire::cron::{BadField, Cancel, Listing, Provision};
use posthouse_wire::{InstanceId, JobId};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::arm::Answer;
use crate::auth::Caller;
use crate::{Clock, Fault, outside};

/// The largest request.
const LARGEST: usize = 16 * 1024;
/// Arms in one listing: everything an instance may have, many times over.
const LISTED: u32 = 10_000;
/// Lines of history in one answer.
const TOLD: u32 = 1000;

/// Everything under `/api/agent-cron`, and the house's public keys.
pub fn routes(clock: &Clock) -> Router {
    Router::new()
        .route("/api/agent-cron/provision", post(provision))
        .route("/api/agent-cron/cancel", post(cancel))
        .route("/api/agent-cron/list", get(list))
        .route("/api/agent-cron/relay", post(outside::relay))
        .route("/api/agent-cron/history", get(history))
        .route("/api/agent-cron/redrive", post(redrive))
        .route_layer(middleware::from_fn_with_state(clock.clone(), to_the_end))
        .route("/.well-known/jwks.json", get(jwks))
        .with_state(clock.clone())
}

/// Sees a request through even when whoever made it hangs up, which would otherwise end it between a commit
/// and what must follow it: an arm that is listed but in nobody's heap is never called.
async fn to_the_end(State(clock): State<Clock>, request: Request, next: Next) -> Response {
    match clock.0.tasks.spawn(next.run(request)).await {
        Ok(response) => response,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Nobody cancels it, so the runtime itself is going.
            Err(_) => unavailable(&Fault::from(ledger::Fault::Closed)),
        },
    }
}

async fn provision(State(clock): State<Clock>, request: Request) -> Response {
    let (headers, body) = match taken(request).await {
        Ok(taken) => taken,
        Err(refusal) => return refusal,
    };
    let instance = match admitted(&clock, &headers).await {
        Ok(instance) => instance,
        Err(refusal) => return refusal,
    };
    let wish = match Provision::read(&body) {
        Ok(wish) => wish,
        Err(fault) => return malformed(&fault),
    };
    match clock.provision(&instance, wish).await {
        Ok(Answer::Scheduled(scheduled)) => Json(scheduled.body()).into_response(),
        Ok(Answer::Malformed(fault)) => malformed(&fault),
        Ok(Answer::NotAllowed(why)) => {
            refused(StatusCode::UNPROCESSABLE_ENTITY, "callback_not_allowed", &why)
        }
        Ok(Answer::OverQuota) => {
            later(refused(StatusCode::TOO_MANY_REQUESTS, "quota_exceeded", "too many jobs are armed"), 60)
        }
        Err(fault) => unavailable(&fault),
    }
}

async fn cancel(State(clock): State<Clock>, request: Request) -> Response {
    match asked_about_job(&clock, request).await {
        Ok((instance, job)) => match clock.cancel(&instance, &job).await {
            Ok(()) => Json(json!({ "ok": true })).into_response(),
            Err(fault) => unavailable(&fault),
        },
        Err(refusal) => refusal,
    }
}

async fn redrive(State(clock): State<Clock>, request: Request) -> Response {
    match asked_about_job(&clock, request).await {
        Ok((instance, job)) => match clock.redrive(&instance, &job).await {
            Ok(redriven) => Json(json!({ "ok": true, "redriven": redriven })).into_response(),
            Err(fault) => unavailable(&fault),
        },
        Err(refusal) => refusal,
    }
}

async fn asked_about_job(clock: &Clock, request: Request) -> Result<(InstanceId, JobId), Response> {
    let (headers, body) = taken(request).await?;
    let instance = admitted(clock, &headers).await?;
    let Cancel { job } = Cancel::read(&body).map_err(|fault| malformed(&fault))?;
    Ok((instance.id, job))
}

async fn list(State(clock): State<Clock>, headers: HeaderMap) -> Response {
    let instance = match admitted(&clock, &headers).await {
        Ok(instance) => instance,
        Err(refusal) => return refusal,
    };
    match clock.0.arms.listing(&instance.id, LISTED).await {
        Ok(armed) => Json(Listing { armed }).into_response(),
        Err(fault) => unavailable(&fault.into()),
    }
}

#[derive(Deserialize)]
struct Asked {
    job_id: Option<JobId>,
    limit: Option<u32>,
    before: Option<i64>,
}

async fn history(
    State(clock): State<Clock>,
    query: Result<Query<Asked>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let instance = match admitted(&clock, &headers).await {
        Ok(instance) => instance,
        Err(refusal) => return refusal,
    };
    let Ok(Query(asked)) = query else {
        return malformed(&BadField::new("limit", "and `before` are whole numbers"));
    };
    let limit = asked.limit.unwrap_or(100).clamp(1, TOLD);
    let lines = clock.0.arms.history(&instance.id, asked.job_id.as_ref(), asked.before, limit).await;
    match lines {
        Ok(lines) => Json(json!({ "history": lines.iter().map(told).collect::<Vec<_>>() })).into_response(),
        Err(fault) => unavailable(&fault.into()),
    }
}

/// One line of history as JSON.
pub fn told(line: &FireLine) -> Value {
    json!({
        "seq": line.seq,
        "at": line.at.to_string(),
        "job_id": line.job,
        "schedule_id": line.schedule,
        "fire_at": line.fire_at,
        "what": line.what,
        "status": line.status,
        "error": line.error,
        "late_ms": line.late_ms,
        "next_attempt": line.next.map(|next| next.to_string()),
    })
}

/// From memory, for anybody: a stock agent asks again for every key it does not know.
async fn jwks(State(clock): State<Clock>, headers: HeaderMap) -> Response {
    let jwks = clock.0.signer.jwks();
    let etag = HeaderValue::from_str(&jwks.etag).unwrap_or(HeaderValue::from_static("\"\""));
    let known = headers.get(IF_NONE_MATCH).is_some_and(|known| known == etag);
    let status = if known { StatusCode::NOT_MODIFIED } else { StatusCode::OK };
    let body = if known { Bytes::new() } else { jwks.json.clone() };
    let mut response = (status, body).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    headers.insert(ETAG, etag);
    response
}

/// The request's head and its whole body, or why not.
pub(crate) async fn taken(request: Request) -> Result<(HeaderMap, Bytes), Response> {
    let (parts, body) = request.into_parts();
    match axum::body::to_bytes(body, LARGEST).await {
        Ok(body) => Ok((parts.headers, body)),
        Err(_) => {
            Err(refused(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", "the body is larger than 16 KiB"))
        }
    }
}

/// The agent that asks, if it may. Whoever asks is alive.
async fn admitted(clock: &Clock, headers: &HeaderMap) -> Result<Instance, Response> {
    let instance = match clock.caller(headers).await {
        Ok(Caller::Agent(instance)) => *instance,
        Ok(Caller::Nobody) => {
            return Err(refused(
                StatusCode::UNAUTHORIZED,
                "invalid_token",
                "the token is missing or not good",
            ));
        }
        Ok(Caller::NoAgent) => {
            return Err(refused(
                StatusCode::FORBIDDEN,
                "invalid_client",
                "this credential stands for no agent",
            ));
        }
        Ok(Caller::Disabled) => {
            return Err(refused(StatusCode::FORBIDDEN, "instance_disabled", "this agent is no more"));
        }
        Err(fault) => return Err(unavailable(&fault)),
    };
    if !clock.0.pace.admits(&instance.id, clock.0.timepiece.now()) {
        return Err(later(refused(StatusCode::TOO_MANY_REQUESTS, "rate_limited", "too many requests"), 1));
    }
    match clock.sign_of_life(&instance.id).await {
        Ok(()) => Ok(instance),
        Err(fault) => Err(unavailable(&fault)),
    }
}

pub(crate) fn refused(status: StatusCode, error: &str, description: &str) -> Response {
    (status, Json(json!({ "error": error, "error_description": description }))).into_response()
}

fn malformed(fault: &BadField) -> Response {
    let body = json!({
        "error": "invalid_request",
        "error_description": fault.to_string(),
        "field": fault.field,
    });
    (StatusCode::BAD_REQUEST, Json(body)).into_response()
}

pub(crate) fn later(mut response: Response, seconds: u32) -> Response {
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// Our own trouble is always a passing one to the agent: it keeps its jobs and asks again.
pub(crate) fn unavailable(fault: &Fault) -> Response {
    tracing::error!(%fault, "the clock could not serve a request");
    later(refused(StatusCode::SERVICE_UNAVAILABLE, "temporarily_unavailable", "try again later"), 5)
}

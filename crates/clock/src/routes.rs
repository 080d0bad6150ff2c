//! HTTP API of the clock: `/api/agent-cron/*`, and the public keys (JWKS) for its fire tokens.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use http_kit::{
    ClientAddress, Endpoint, Operation, PageSize, ShuttingDown, UnreadBody, completed, operations, read_body,
    router,
};
use identity::{Authentication, CredentialRefusal, Principal};
use ledger::{FireLine, Instance};
use posthouse_wire::cron::{ArmList, BadField, Cancel, Provision};
use posthouse_wire::{InstanceId, JobId};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::arm::ArmAnswer;
use crate::{Clock, Fault, external_scheduler};

/// Largest request body, in bytes.
const LARGEST: usize = 16 * 1024;
/// Most arms in one listing; far more than the default quota of an agent.
const LISTED: u32 = 10_000;
/// History lines in one answer.
const HISTORY: PageSize = PageSize { default: 100, largest: 1000 };

/// All operations with their handlers. The router is built from this list.
const ENDPOINTS: &[Endpoint<Clock>] = &[
    Endpoint::closed("POST", "/api/agent-cron/provision", || post(provision)),
    Endpoint::closed("POST", "/api/agent-cron/cancel", || post(cancel)),
    Endpoint::closed("GET", "/api/agent-cron/list", || get(list)),
    Endpoint::open("POST", "/api/agent-cron/relay", || post(external_scheduler::relay)),
    Endpoint::closed("GET", "/api/agent-cron/history", || get(history)),
    Endpoint::closed("POST", "/api/agent-cron/redrive", || post(redrive)),
    Endpoint::open("GET", "/.well-known/jwks.json", || get(jwks)),
];

/// All operations. A test checks the OpenAPI fragment against them.
pub const OPERATIONS: &[Operation] = &operations::<Clock, { ENDPOINTS.len() }>(ENDPOINTS);

/// The OpenAPI fragment of the operations, written by hand.
pub const OPENAPI: &str = include_str!("openapi.json");

/// Everything under `/api/agent-cron`, and the server's public keys.
pub fn routes(clock: &Clock) -> Router {
    let (cron, keys): (Vec<_>, Vec<_>) =
        ENDPOINTS.iter().partition(|endpoint| endpoint.operation().path.starts_with("/api/"));
    router("", cron)
        .route_layer(middleware::from_fn_with_state(clock.clone(), to_the_end))
        .merge(router("", keys))
        .with_state(clock.clone())
}

/// Runs a request to its end even if the client hangs up. Otherwise it could end between a commit and the steps
/// that must follow it, and an arm that is stored but not in the heap would never fire.
async fn to_the_end(State(clock): State<Clock>, request: Request, next: Next) -> Response {
    let response = completed(clock.0.background.tasks.spawn(next.run(request))).await;
    response.unwrap_or_else(|ShuttingDown| unavailable(&Fault::from(ledger::Fault::Closed)))
}

async fn provision(State(clock): State<Clock>, request: Request) -> Response {
    let (instance, body) = match known_and_body(&clock, request).await {
        Ok(known) => known,
        Err(refusal) => return refusal,
    };
    let provision = match Provision::read(&body) {
        Ok(provision) => provision,
        Err(fault) => return malformed(&fault),
    };
    match clock.0.arming.provision(&instance, provision).await {
        Ok(ArmAnswer::Scheduled(scheduled)) => Json(scheduled.body()).into_response(),
        Ok(ArmAnswer::Malformed(fault)) => malformed(&fault),
        Ok(ArmAnswer::NotAllowed(why)) => {
            refused(StatusCode::UNPROCESSABLE_ENTITY, "callback_not_allowed", &why)
        }
        Ok(ArmAnswer::OverQuota) => with_retry_after(
            refused(
                StatusCode::TOO_MANY_REQUESTS,
                "quota_exceeded",
                "too many jobs are armed; cancel some first",
            ),
            60,
        ),
        Err(fault) => unavailable(&fault),
    }
}

async fn cancel(State(clock): State<Clock>, request: Request) -> Response {
    match asked_about_job(&clock, request).await {
        Ok((instance, job)) => match clock.0.arming.cancel(&instance, &job).await {
            Ok(()) => Json(json!({ "ok": true })).into_response(),
            Err(fault) => unavailable(&fault),
        },
        Err(refusal) => refusal,
    }
}

async fn redrive(State(clock): State<Clock>, request: Request) -> Response {
    match asked_about_job(&clock, request).await {
        Ok((instance, job)) => match clock.0.jobs.redrive(&instance, &job).await {
            Ok(redriven) => Json(json!({ "ok": true, "redriven": redriven })).into_response(),
            Err(fault) => unavailable(&fault),
        },
        Err(refusal) => refusal,
    }
}

async fn asked_about_job(clock: &Clock, request: Request) -> Result<(InstanceId, JobId), Response> {
    let (instance, body) = known_and_body(clock, request).await?;
    let Cancel { job } = Cancel::read(&body).map_err(|fault| malformed(&fault))?;
    Ok((instance.id.clone(), job))
}

/// Authenticates the agent, then reads the body. Nothing of the body is read for an unknown caller.
async fn known_and_body(clock: &Clock, request: Request) -> Result<(Arc<Instance>, Bytes), Response> {
    let (head, body) = request.into_parts();
    let instance = admitted(clock, &head).await?;
    Ok((instance, read_request_body(body).await?))
}

async fn list(State(clock): State<Clock>, head: Parts) -> Response {
    let instance = match admitted(&clock, &head).await {
        Ok(instance) => instance,
        Err(refusal) => return refusal,
    };
    match clock.0.arms.listing(&instance.id, LISTED).await {
        Ok(armed) => Json(ArmList { armed }).into_response(),
        Err(fault) => unavailable(&fault.into()),
    }
}

#[derive(Deserialize)]
struct HistoryQuery {
    job_id: Option<JobId>,
    limit: Option<usize>,
    before: Option<i64>,
}

async fn history(
    State(clock): State<Clock>,
    query: Result<Query<HistoryQuery>, QueryRejection>,
    head: Parts,
) -> Response {
    let instance = match admitted(&clock, &head).await {
        Ok(instance) => instance,
        Err(refusal) => return refusal,
    };
    let Ok(Query(asked)) = query else {
        return malformed(&BadField::new("limit", "and `before` must be whole numbers"));
    };
    let limit = u32::try_from(HISTORY.clamp(asked.limit)).unwrap_or(u32::MAX);
    let lines = clock.0.arms.history(&instance.id, asked.job_id.as_ref(), asked.before, limit).await;
    match lines {
        Ok(lines) => Json(json!({ "history": lines.iter().map(render_fire_for_tenant).collect::<Vec<_>>() }))
            .into_response(),
        Err(fault) => unavailable(&fault.into()),
    }
}

/// Error of an attempt as its agent may see it. Whether a name has no address or only private ones would reveal the
/// server's network, so both have the same text. The operator's history and the log tell them apart.
fn for_the_tenant(error: &str) -> &str {
    let private = errand::Fault::from(errand::UrlRefusal::Address(std::net::Ipv4Addr::UNSPECIFIED.into()));
    match error == errand::Fault::Unresolved.to_string() || error == private.to_string() {
        true => "the host has no public address",
        false => error,
    }
}

fn render_fire_for_tenant(line: &FireLine) -> Value {
    let mut shown = render_fire(line);
    shown["error"] = json!(line.error.as_deref().map(for_the_tenant));
    shown
}

/// One history line as JSON, for the operator.
pub fn render_fire(line: &FireLine) -> Value {
    json!({
        "seq": line.number,
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

/// Public keys, served from memory to anybody: a stock agent asks again for every key that it does not know.
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

/// Reads the whole body of a request.
pub(crate) async fn read_request_body(body: Body) -> Result<Bytes, Response> {
    read_body(body, LARGEST).await.map_err(|unread| {
        let error = match unread {
            UnreadBody::TooLarge { .. } => "request_too_large",
            UnreadBody::Incomplete => "invalid_request",
        };
        refused(unread.status(), error, &unread.to_string())
    })
}

/// Authenticates the calling agent and applies its limits. The request also counts as a sign of life.
async fn admitted(clock: &Clock, head: &Parts) -> Result<Arc<Instance>, Response> {
    let address = head.extensions.get().map(|ClientAddress(address)| *address);
    let principal = match clock.0.authenticator.cron_agent(&head.headers, address).await {
        Ok(Authentication::Known(principal)) => principal,
        Ok(Authentication::Refused(refusal)) => return Err(unauthenticated(refusal)),
        Ok(Authentication::Barred) => return Err(unauthenticated(CredentialRefusal::Unknown)),
        Err(fault) => return Err(unavailable(&fault.into())),
    };
    let Principal::Agent { agent, .. } = &principal else {
        return Err(unauthenticated(CredentialRefusal::NotAnAgent));
    };
    if let Err(full) = principal.within_limits(&head.extensions) {
        return Err(with_retry_after(
            refused(StatusCode::SERVICE_UNAVAILABLE, "temporarily_unavailable", &full.to_string()),
            5,
        ));
    }
    if !clock.0.rate_limit.admits(&agent.id, clock.0.background.timepiece.instant()) {
        return Err(with_retry_after(
            refused(StatusCode::TOO_MANY_REQUESTS, "rate_limited", "too many requests"),
            1,
        ));
    }
    match clock.0.revivals.sign_of_life(&agent.id).await {
        Ok(()) => Ok(Arc::clone(agent)),
        Err(fault) => Err(unavailable(&fault)),
    }
}

/// The answer to a caller without a valid credential of an agent (contract section 1.1).
fn unauthenticated(refusal: CredentialRefusal) -> Response {
    match refusal {
        CredentialRefusal::Missing | CredentialRefusal::Unknown | CredentialRefusal::Expired => {
            refused(StatusCode::UNAUTHORIZED, "invalid_token", "the access token is missing or not valid")
        }
        // A stock agent that gets this answer stops asking.
        CredentialRefusal::NotAnAgent => {
            refused(StatusCode::FORBIDDEN, "invalid_client", "this credential does not belong to an agent")
        }
        CredentialRefusal::AgentRemoved => {
            refused(StatusCode::FORBIDDEN, "instance_disabled", "this agent no longer exists")
        }
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

pub(crate) fn with_retry_after(mut response: Response, seconds: u32) -> Response {
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// Answer to every internal fault. It says that the fault is temporary, so the agent keeps its jobs and retries.
pub(crate) fn unavailable(fault: &Fault) -> Response {
    tracing::error!(%fault, "the clock could not serve a request");
    with_retry_after(
        refused(StatusCode::SERVICE_UNAVAILABLE, "temporarily_unavailable", "try again later"),
        5,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_described_and_nothing_else_is() {
        let wrong = http_kit::openapi::check_fragment(OPENAPI, &[], OPERATIONS);
        assert_eq!(wrong, Vec::<String>::new());
    }
}

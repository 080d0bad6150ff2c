//! HTTP routes of runs and events: `/v1/runs`, `/v1/events`, and `/event` as the reference runtime serves it.

use ::post::Caller;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use http::header::RETRY_AFTER;
use http::request::Parts;
use http_kit::{
    Endpoint, Operation, Page, PageSize, Problem, QueryReader, opaque, operations, read_body, router,
};
use ledger::{NewRun, RunFilter, RunState, StoredRun};
use posthouse_time::Moment;
use posthouse_wire::RunId;
use serde_json::{Map, Value, json};

use super::event_cause::named_cause;
use super::skill_runner::SkillRunner;
use super::trigger_events::EventOutcome;
use crate::routes::{HttpAnswer, answered, unavailable};

const PAGE: PageSize = PageSize { default: 50, largest: 200 };
/// Largest body of an event: its parameters with every byte as a six-byte JSON escape, plus the rest.
const LARGEST_BODY: usize = 6 * 256 * 1024 + 4096;
/// Seconds until a retry is useful when the queue of a tenant is full.
const AFTER_FULL: u32 = 5;

const ENDPOINTS: &[Endpoint<SkillRunner>] = &[
    Endpoint::closed("GET", "/v1/runs", || get(list)),
    Endpoint::closed("GET", "/v1/runs/{run}", || get(show)),
    Endpoint::closed("POST", "/v1/runs/{run}/cancel", || post(cancel)),
    Endpoint::closed("POST", "/v1/events/{name}", || post(send_event)),
    Endpoint::closed("POST", "/event", || post(reference_event)),
];

/// All operations. Tests check the OpenAPI fragment and the access matrix against them.
pub const RUN_OPERATIONS: &[Operation] = &operations::<SkillRunner, { ENDPOINTS.len() }>(ENDPOINTS);

/// The OpenAPI fragment of the operations, written by hand.
pub const RUN_OPENAPI: &str = include_str!("openapi.json");

/// The router for runs and events.
pub fn run_routes(runner: &SkillRunner) -> Router {
    router("", ENDPOINTS)
        .method_not_allowed_fallback(async |head: Parts| not_allowed(&head))
        .with_state(runner.clone())
}

/// The answer to another method. At `/event` it is that of the reference runtime.
fn not_allowed(head: &Parts) -> Response {
    if head.uri.path().ends_with("/event") {
        let mut response = Response::new(Body::from("Method Not Allowed"));
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        return response;
    }
    Problem::method_not_allowed().into_response()
}

async fn authenticate(runner: &SkillRunner, head: &Parts) -> Result<Caller, Problem> {
    Ok(runner.runs().workshop().callers().caller(head).await?)
}

async fn list(State(runner): State<SkillRunner>, head: Parts) -> HttpAnswer {
    let by = authenticate(&runner, &head).await?;
    let mut query = QueryReader::read(&head.uri)?;
    let limit = query.limit(PAGE)?;
    let before = query.after(|number| number.parse().ok())?;
    let state = match query.text("state") {
        None => None,
        Some(word) => Some(RunState::named(&word).ok_or_else(|| {
            let words = RunState::ALL.map(RunState::word).join(", ");
            Problem::invalid_field("state", format!("must be one of {words}"))
        })?),
    };
    let filter = RunFilter {
        skill: query.text("skill"),
        state,
        caller: own_runs(&by),
        since: query.whole("since_ms")?.map(Moment::from_millis),
        triggered: false,
    };
    query.end()?;
    let rows = u32::try_from(limit + 1).unwrap_or(u32::MAX);
    let runs = runner.runs().records().runs(&by.tenant, filter, before, rows).await;
    let runs = runs.map_err(|fault| unavailable(&fault.into()))?;
    let page = Page::one_less(limit, runs, |run| run.number.to_string());
    Ok(Json(opaque(page.map(|run| shown(&run)))).into_response())
}

async fn show(
    State(runner): State<SkillRunner>,
    path: Result<Path<String>, PathRejection>,
    head: Parts,
) -> HttpAnswer {
    let by = authenticate(&runner, &head).await?;
    QueryReader::read(&head.uri)?.end()?;
    let run = find(&runner, &by, path).await?;
    let sent = runner.runs().records().dispatches_of_run(&run.run.id).await;
    let sent = sent.map_err(|fault| unavailable(&fault.into()))?;
    let mut body = shown(&run);
    body["dispatches"] = sent.into_iter().map(|sent| sent.id.to_string()).collect();
    body["record"] =
        run.record.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    Ok(Json(body).into_response())
}

async fn cancel(
    State(runner): State<SkillRunner>,
    path: Result<Path<String>, PathRejection>,
    head: Parts,
) -> HttpAnswer {
    let by = authenticate(&runner, &head).await?;
    QueryReader::read(&head.uri)?.end()?;
    let run = find(&runner, &by, path).await?;
    let cancelled =
        runner.runs().cancel(&by.tenant, &run.run.id).await.map_err(|fault| unavailable(&fault))?;
    Ok(Json(json!({ "id": run.run.id, "cancelled": cancelled })).into_response())
}

/// A run that the caller may see. An agent sees the runs that it asked for; others do not exist for it.
async fn find(
    runner: &SkillRunner,
    by: &Caller,
    path: Result<Path<String>, PathRejection>,
) -> Result<StoredRun, Problem> {
    let absent = || Problem::not_found("run_not_found", "there is no such run");
    let id = RunId::from(path.map_err(|_| absent())?.0);
    let found = runner.runs().records().run(&by.tenant, &id).await;
    let found = found.map_err(|fault| unavailable(&fault.into()))?;
    let own = own_runs(by);
    found.filter(|run| own.as_ref().is_none_or(|own| *own == run.run.caller)).ok_or_else(absent)
}

/// The caller whose runs alone are visible. `None` if all of the tenant are.
pub fn own_runs(by: &Caller) -> Option<String> {
    by.agent.as_ref().map(|_| by.client.to_string())
}

fn shown(run: &StoredRun) -> Value {
    let NewRun { id, skill, version, source, trigger_name, trigger_id, caller, fired, .. } = &run.run;
    let mut shown = json!({
        "id": id,
        "skill": skill,
        "state": run.state.word(),
        "trigger": { "source": source, "name": trigger_name },
        "caller": caller,
        "fired_at_ms": fired.millis(),
    });
    if let Some(id) = trigger_id {
        shown["trigger"]["id"] = id.as_str().into();
    }
    if let Some(version) = version {
        shown["version"] = version.as_str().into();
    }
    for (field, at) in [("started_at_ms", run.started), ("ended_at_ms", run.ended)] {
        if let Some(at) = at {
            shown[field] = at.millis().into();
        }
    }
    if let Some(cause) = &run.run.cause {
        shown["cause"] = cause.as_str().into();
    }
    if let Some(error) = &run.error {
        shown["error"] = error.as_str().into();
    }
    shown
}

async fn send_event(
    State(runner): State<SkillRunner>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> HttpAnswer {
    let (head, body) = request.into_parts();
    let by = authenticate(&runner, &head).await?;
    let body = read_body(body, LARGEST_BODY).await.map_err(|unread| unread.problem("too_large"))?;
    let unknown = || Problem::not_found("event_not_found", "no skill has a trigger for this event");
    let name = path.map_err(|_| unknown())?.0;
    let params = match body.is_empty() {
        true => Map::new(),
        false => serde_json::from_slice(&body).map_err(Problem::malformed_json)?,
    };
    let cause = named_cause(runner.runs().post(), &by, &head.headers).await?;
    match answered(runner.triggers().event(&by.tenant, &name, params, cause).await)? {
        EventOutcome::Queued(id) => {
            let accepted = json!({ "run_id": id, "durability": "durable" });
            Ok((StatusCode::ACCEPTED, Json(accepted)).into_response())
        }
        EventOutcome::Unknown => Err(unknown()),
        EventOutcome::Mismatch { declared, missing, extra } => {
            let detail = "the parameters must be exactly the variables of the skill";
            Err(Problem::unprocessable("event_param_mismatch", detail)
                .with("declared", declared)
                .with("missing", missing)
                .with("extra", extra))
        }
        EventOutcome::TooLarge => {
            let detail = "the parameters are larger than 256 KiB";
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail))
        }
        EventOutcome::QueueFull => {
            let detail = "too many runs of this tenant wait: nothing was stored; send it again later";
            Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "queue_full", detail).retry_after(AFTER_FULL))
        }
    }
}

/// `POST /event` in the words of the reference runtime.
async fn reference_event(State(runner): State<SkillRunner>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let by = match authenticate(&runner, &head).await {
        Ok(by) => by,
        Err(problem) => {
            let response = problem.into_response();
            if response.status() != StatusCode::UNAUTHORIZED {
                return response;
            }
            return refused(StatusCode::UNAUTHORIZED, "missing or invalid bearer token".to_owned());
        }
    };
    let body = match read_body(body, LARGEST_BODY).await {
        Ok(body) => body,
        Err(unread) => return unread.problem("too_large").into_response(),
    };
    let Ok(body) = serde_json::from_slice::<Value>(&body) else {
        return refused(StatusCode::BAD_REQUEST, "body is not valid JSON".to_owned());
    };
    let Some(name) = body["event_name"].as_str().filter(|name| !name.is_empty()) else {
        let reason = "body must include non-empty 'event_name' string".to_owned();
        return refused(StatusCode::BAD_REQUEST, reason);
    };
    let params = body["params"].as_object().cloned().unwrap_or_default();
    let outcome = match answered(runner.triggers().event(&by.tenant, name, params, None).await) {
        Ok(outcome) => outcome,
        Err(problem) => return problem.into_response(),
    };
    match outcome {
        EventOutcome::Queued(id) => plain(StatusCode::OK, &json!({ "run_id": id, "durability": "durable" })),
        EventOutcome::Unknown => {
            refused(StatusCode::NOT_FOUND, format!("no skill has a trigger for the event '{name}'"))
        }
        EventOutcome::Mismatch { declared, missing, extra } => {
            let reason = format!("the parameters of '{name}' must be exactly {declared:?}");
            let body = json!({
                "error": "Bad Request",
                "reason": reason,
                "declared": declared,
                "missing": missing,
                "extra": extra,
            });
            plain(StatusCode::BAD_REQUEST, &body)
        }
        EventOutcome::TooLarge => {
            refused(StatusCode::PAYLOAD_TOO_LARGE, "the parameters are larger than 256 KiB".to_owned())
        }
        EventOutcome::QueueFull => {
            let reason = "too many runs wait: send the event again later".to_owned();
            let mut response = refused(StatusCode::TOO_MANY_REQUESTS, reason);
            response.headers_mut().insert(RETRY_AFTER, AFTER_FULL.into());
            response
        }
    }
}

fn refused(status: StatusCode, reason: String) -> Response {
    let error = status.canonical_reason().unwrap_or_default();
    plain(status, &json!({ "error": error, "reason": reason }))
}

fn plain(status: StatusCode, body: &Value) -> Response {
    crate::tools::json_response(status, body)
}

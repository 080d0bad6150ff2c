//! HTTP routes of data: `/v1/data`.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Query, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http_kit::{
    Endpoint, Operation, Page, PageSize, Problem, decode_cursor, encode_cursor, operations, read_body, router,
};
use ledger::DataSeq;
use post::{Caller, Callers};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::DataStores;
use super::data_entry::{CONTENT_BYTES, DataWrite, PortableData};
use super::data_refusal::{DATA_CONNECTOR_TYPE, DataRefusal, DataRefusalReason};
use super::data_store::{DataAnswer, DataStore};
use super::query_filters::QueryFilters;
use crate::fault::Fault;
use crate::write_rules::METADATA_BYTES;

/// The largest body of a new entry: text and metadata with every byte as a six-byte JSON escape, plus the rest.
const LARGEST_ENTRY: usize = 6 * (CONTENT_BYTES + METADATA_BYTES) + 64 * 1024;
/// The largest body of a query.
const LARGEST_QUERY: usize = 256 * 1024;

/// The number of items on a page of the list.
const PAGE: PageSize = PageSize { default: 50, largest: 200 };

/// Seconds until a retry is useful, after a fault of the server and after a limit was reached.
const AFTER_FAULT: u32 = 5;
const AFTER_LIMIT: u32 = 60;

/// The state shared by all handlers.
#[derive(Clone)]
struct DataDoor {
    stores: DataStores,
    callers: Callers,
}

/// All operations with their handlers. The router is built from this list.
const ENDPOINTS: &[Endpoint<DataDoor>] = &[
    Endpoint::closed("GET", "/v1/data", || get(list)),
    Endpoint::closed("POST", "/v1/data", || post(write)),
    Endpoint::closed("GET", "/v1/data/{id}", || get(show)),
    Endpoint::closed("POST", "/v1/data/query", || post(query)),
    Endpoint::closed("GET", "/v1/data-store", || get(describe)),
];

/// All operations. Tests check the OpenAPI fragment and the access matrix against them.
pub const DATA_OPERATIONS: &[Operation] = &operations::<DataDoor, { ENDPOINTS.len() }>(ENDPOINTS);

/// The OpenAPI fragment of the operations, written by hand.
pub const DATA_OPENAPI: &str = include_str!("openapi.json");

/// The router for the paths of data.
pub fn data_routes(stores: DataStores, callers: Callers) -> Router {
    router("", ENDPOINTS)
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "the path has other methods")
        })
        .with_state(DataDoor { stores, callers })
}

type DataResponse = Result<Response, Problem>;

async fn list(State(door): State<DataDoor>, head: Parts) -> DataResponse {
    let caller = door.callers.caller(&head).await?;
    let (mut tags, mut limit, mut before) = (Vec::new(), None, None);
    let Ok(Query(parts)) = Query::<Vec<(String, String)>>::try_from_uri(&head.uri) else {
        return Err(invalid("query", "cannot be read"));
    };
    for (name, value) in parts {
        match name.as_str() {
            "domain_tags" if !value.is_empty() => tags.push(value),
            "limit" if limit.is_none() => limit = Some(value),
            "after" if before.is_none() => {
                let seq = decode_cursor(&value).and_then(|text| text.parse().ok()).map(DataSeq);
                before =
                    Some(seq.ok_or_else(|| invalid("after", "must be the `next` of the previous page"))?);
            }
            "domain_tags" => return Err(invalid(&name, "must not be empty")),
            "limit" | "after" => return Err(invalid(&name, "is given more than once")),
            _ => return Err(invalid(&name, "is unknown")),
        }
    }
    let limit = PAGE
        .parse(limit.as_deref())
        .ok_or_else(|| invalid("limit", "must be a whole number from 1 to 200"))?;
    let any_tag = (!tags.is_empty()).then_some(tags);
    let _turn = door.stores.answer_turn(&caller.tenant).await?;
    let store = answered(door.stores.of(&caller.tenant).await)?;
    let page = answered(store.page(any_tag, before, u32::try_from(limit).unwrap_or(u32::MAX)).await)?;
    let next = page.next.map(|DataSeq(seq)| encode_cursor(seq.to_string()));
    let length = page.items.iter().map(PortableData::length).sum();
    listed(&door, &caller, Page { items: page.items, next }, length).await
}

async fn write(State(door): State<DataDoor>, request: Request) -> DataResponse {
    let (caller, arguments) = read(&door, request, LARGEST_ENTRY).await?;
    let store = answered(door.stores.of(&caller.tenant).await)?.store;
    let entry = DataWrite::read(arguments).map_err(|reason| refused_by(&*store, reason))?;
    let written = answered(store.write(DataWrite { agent_id: caller.agent_id(), ..entry }).await)?;
    Ok((StatusCode::CREATED, Json(written)).into_response())
}

async fn show(
    State(door): State<DataDoor>,
    path: Result<Path<String>, PathRejection>,
    head: Parts,
) -> DataResponse {
    let caller = door.callers.caller(&head).await?;
    let absent = || Problem::not_found("data_not_found", "there is no such entry");
    let Ok(Path(id)) = path else { return Err(absent()) };
    let data = answered(door.stores.of(&caller.tenant).await)?;
    match answered(data.store.get(&id).await)? {
        Some(entry) => Ok(Json(entry).into_response()),
        None => Err(absent()),
    }
}

async fn query(State(door): State<DataDoor>, request: Request) -> DataResponse {
    let (caller, arguments) = read(&door, request, LARGEST_QUERY).await?;
    let _turn = door.stores.answer_turn(&caller.tenant).await?;
    let bridge = answered(door.stores.bridge(&caller.tenant).await)?;
    let filters = QueryFilters::read(arguments).map_err(|reason| refused_by(bridge.store(), reason))?;
    let items = answered(bridge.query(&filters).await)?;
    let length = items.iter().map(PortableData::length).sum();
    listed(&door, &caller, DataItems { items }, length).await
}

/// What a query found.
#[derive(Serialize)]
struct DataItems {
    items: Vec<PortableData>,
}

async fn listed(
    door: &DataDoor,
    caller: &Caller,
    list: impl Serialize + Send + 'static,
    length: usize,
) -> DataResponse {
    let json = door.stores.written(&caller.tenant, list, length).await?;
    Ok(([(CONTENT_TYPE, "application/json")], json).into_response())
}

async fn describe(State(door): State<DataDoor>, head: Parts) -> DataResponse {
    let caller = door.callers.caller(&head).await?;
    let store = answered(door.stores.of(&caller.tenant).await)?.store;
    let described = answered(store.manifest().await)?;
    Ok(Json(json!({
        "implementation": store.implementation(),
        "capabilities_version": described.capabilities_version,
        "manifest": described.manifest,
        "features": store.features(),
    }))
    .into_response())
}

/// Authenticates the caller, then reads the body. The body of an unknown caller is not read.
async fn read(
    door: &DataDoor,
    request: Request,
    largest: usize,
) -> Result<(Caller, Map<String, Value>), Problem> {
    let (head, body) = request.into_parts();
    let caller = door.callers.caller(&head).await?;
    let body = read_body(body, largest).await?;
    match door.stores.parsed(&caller.tenant, body).await? {
        Ok(Value::Object(arguments)) => Ok((caller, arguments)),
        Ok(_) => Err(Problem::bad_request("malformed_json", "the body must be a JSON object")),
        Err(error) => Err(Problem::bad_request("malformed_json", format!("the body is not JSON: {error}"))),
    }
}

fn invalid(field: &str, why: &str) -> Problem {
    Problem::unprocessable("invalid_request", format!("`{field}` {why}")).with("field", field)
}

fn answered<T>(answer: DataAnswer<T>) -> Result<T, Problem> {
    match answer {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(refusal)) => Err(refused(&refusal)),
        Err(fault) => Err(unavailable(&fault)),
    }
}

/// A fault of the server. It is logged here, and its details are not sent to the client.
fn unavailable(fault: &Fault) -> Problem {
    tracing::error!(%fault, "the data store could not serve a request");
    let detail = "the server cannot do this now: try again later";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail).retry_after(AFTER_FAULT)
}

fn refused_by(store: &dyn DataStore, reason: DataRefusalReason) -> Problem {
    refused(&DataRefusal { implementation: store.implementation(), reason })
}

fn refused(refusal: &DataRefusal) -> Problem {
    use DataRefusalReason as Reason;
    let reason = &refusal.reason;
    let status = match reason {
        Reason::TooLarge { .. } | Reason::TooManyItems { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        Reason::TooManySearches | Reason::QuotaExceeded { .. } => StatusCode::TOO_MANY_REQUESTS,
        Reason::Indexing => StatusCode::SERVICE_UNAVAILABLE,
        Reason::ReadOnly { .. } => StatusCode::CONFLICT,
        Reason::Unusable { .. } => StatusCode::BAD_GATEWAY,
        Reason::Remote(failure) => failure.http_status(),
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let problem = Problem::new(status, reason.code(), refusal.to_string())
        .with("error_class", reason.class())
        .with("connector_type", DATA_CONNECTOR_TYPE)
        .with("implementation", refusal.implementation);
    match reason {
        Reason::UnsupportedFilter { unsupported, supported, substrate } => problem
            .with("unsupported_keys", unsupported.clone())
            .with("supported_keys", supported.clone())
            .with("substrate", *substrate),
        Reason::Invalid { field, .. } => problem.with("field", field.as_str()),
        Reason::TooLarge { field, limit, .. } | Reason::TooManyItems { field, limit, .. } => {
            problem.with("field", *field).with("limit", *limit)
        }
        Reason::TooManySearches | Reason::Indexing | Reason::Remote(_) => problem.retry_after(AFTER_FAULT),
        Reason::QuotaExceeded { limit } => problem.with("limit", *limit).retry_after(AFTER_LIMIT),
        _ => problem,
    }
}

//! HTTP routes for the webhooks of platforms: `/door/{platform}/{bot}` and the paths below it.

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, StatusCode};
use http_kit::{Endpoint, Operation, RequestControl, operations, read_body, router};
use ledger::BotRef;
use posthouse_wire::EntryId;
use serde_json::Map;
use vault::Credentials;

use crate::bots::OpenedBot;
use crate::intake::DeliveryResult;
use crate::platform::{HeadProof, Platform, RequestHead, UnverifiedRequest};
use crate::{Edge, Fault};

/// The ids of the stored entries, in the response to the platform.
static POSTHOUSE_ID: HeaderName = HeaderName::from_static("posthouse-id");

/// All operations with their handlers. The router is built from this list.
const ENDPOINTS: &[Endpoint<Edge>] = &[
    Endpoint::open("POST", "/door/{platform}/{bot}", || post(deliver)),
    Endpoint::open("GET", "/door/{platform}/{bot}", || get(deliver)),
    Endpoint::open("POST", "/door/{platform}/{bot}/{*door}", || post(deliver_below)),
    Endpoint::open("GET", "/door/{platform}/{bot}/{*door}", || get(deliver_below)),
    Endpoint::open("PUT", "/door/{platform}/{bot}/{*door}", || put(deliver_below)),
];

/// The operations for platforms. A test checks the OpenAPI fragment against them.
pub const OPERATIONS: &[Operation] = &operations::<Edge, { ENDPOINTS.len() }>(ENDPOINTS);

/// The OpenAPI fragment of the operations, written by hand.
pub const OPENAPI: &str = include_str!("openapi.json");

pub fn routes(edge: &Edge) -> Router {
    router("", ENDPOINTS).with_state(edge.clone())
}

#[derive(serde::Deserialize)]
struct WebhookPath {
    platform: String,
    bot: String,
}

#[derive(serde::Deserialize)]
struct PathBelow {
    platform: String,
    bot: String,
    door: String,
}

async fn deliver(State(edge): State<Edge>, Path(door): Path<WebhookPath>, request: Request) -> Response {
    receive(edge, door, String::new(), request).await
}

/// A delivery at a further door of a bot, such as `/events`.
async fn deliver_below(State(edge): State<Edge>, Path(below): Path<PathBelow>, request: Request) -> Response {
    let PathBelow { platform, bot, door } = below;
    receive(edge, WebhookPath { platform, bot }, format!("/{door}"), request).await
}

async fn receive(edge: Edge, door: WebhookPath, below: String, request: Request) -> Response {
    // Split by hand, because the extractors of method and headers would copy them.
    let (parts, body) = request.into_parts();
    // The path selects one bot and so the secret to check, never a tenant.
    let bot_ref = BotRef { platform: door.platform.as_str().into(), bot: door.bot.as_str().into() };
    let Some(platform) = edge.0.platforms.get(door.platform.as_str()).cloned() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    // A bot that does not exist is checked like any other, with secrets that nobody has, so that an unverified caller
    // cannot learn which bots exist.
    let bot = match edge.0.bots.find_or(&bot_ref, || nobody(&*platform, &bot_ref)).await {
        Ok(bot) => bot,
        Err(fault) => {
            tracing::error!(%fault, platform = platform.name(), "could not open the bot of a delivery");
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
    };
    let received = edge.0.timepiece.now();
    let head = RequestHead {
        method: &parts.method,
        door: &below,
        query: parts.uri.query().unwrap_or_default(),
        headers: &parts.headers,
        received,
        server_url: &edge.0.public_url,
    };
    let proof = match edge.0.intake.judge_head(&platform, &bot, &head) {
        Ok(proof) => proof,
        Err(refusal) => return refusal.status.into_response(),
    };
    if proof == HeadProof::Proven {
        let principal = [platform.name(), ":", &door.bot].concat();
        if RequestControl::proven(&parts.extensions, &principal, None).is_err() {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
    }
    let largest = match proof {
        HeadProof::Proven => platform.largest_proven_body(),
        HeadProof::BodyNeeded => platform.largest_unproven_body(),
    };
    let body = match read_body(body, largest).await {
        Ok(body) => body,
        Err(unread) => return unread.status().into_response(),
    };
    let raw = UnverifiedRequest {
        query: parts.uri.query().unwrap_or_default().to_owned(),
        method: parts.method,
        door: below,
        headers: parts.headers,
        body,
        received,
        server_url: std::sync::Arc::clone(&edge.0.public_url),
    };
    match edge.0.intake.receive_rest(&platform, &bot, proof, raw).await {
        Ok(DeliveryResult::Taken { entries, reply }) => {
            let mut response = Response::new(Body::from(reply.body));
            *response.status_mut() = reply.status;
            if let Some(content_type) = reply.content_type {
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            }
            if let Some(ids) = ids_header(&entries) {
                response.headers_mut().insert(POSTHOUSE_ID.clone(), ids);
            }
            response
        }
        Ok(DeliveryResult::Refused(refusal)) => refusal.status.into_response(),
        Err(fault) => {
            // Not stored, so not acknowledged: the platform delivers it again.
            tracing::error!(%fault, platform = platform.name(), "could not store a delivery");
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
    }
}

/// The ids of the entries, separated by commas. Nearly every delivery has one.
fn ids_header(entries: &[EntryId]) -> Option<HeaderValue> {
    match entries {
        [] => None,
        [entry] => HeaderValue::from_str(entry.as_str()).ok(),
        _ => {
            let ids = entries.iter().map(EntryId::as_str).collect::<Vec<_>>().join(",");
            HeaderValue::from_str(&ids).ok()
        }
    }
}

/// A placeholder for a bot that does not exist, with new random secrets for everything that the platform needs.
fn nobody(platform: &dyn Platform, bot_ref: &BotRef) -> Result<OpenedBot, Fault> {
    let mut credentials = Credentials::default();
    for field in platform.fields().iter().filter(|field| field.secret) {
        credentials.insert(field.name, vault::random_hex(32)?);
    }
    Ok(OpenedBot {
        platform: bot_ref.platform.clone(),
        id: bot_ref.bot.clone(),
        shared: false,
        settings: Map::new(),
        credentials,
    })
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

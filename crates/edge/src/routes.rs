//! HTTP route for the webhooks of platforms: `/door/{platform}/{bot}`.

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use http_kit::{Endpoint, Operation, RequestControl, operations, read_body, router};
use ledger::BotRef;
use serde_json::Map;
use vault::Credentials;

use crate::bots::OpenedBot;
use crate::intake::DeliveryResult;
use crate::platform::{HeadProof, Platform, Raw, RequestHead};
use crate::{Edge, Fault};

/// Largest accepted body, in bytes. The deliveries of all platforms are far smaller.
const LARGEST: usize = 1024 * 1024;

/// All operations with their handlers. The router is built from this list.
const ENDPOINTS: &[Endpoint<Edge>] = &[Endpoint::open("POST", "/door/{platform}/{bot}", || post(deliver))];

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

async fn deliver(State(edge): State<Edge>, Path(door): Path<WebhookPath>, request: Request) -> Response {
    // Split by hand, because the extractors of method and headers would copy them.
    let (parts, body) = request.into_parts();
    // The path selects one bot and so the secret to check, never a tenant.
    let bot_ref = BotRef { platform: door.platform.as_str().into(), bot: door.bot.as_str().into() };
    let Some(platform) = edge.platform(&door.platform).cloned() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    // A bot that does not exist is checked like any other, with secrets that nobody has, so that an unverified caller
    // cannot learn which bots exist.
    let bot = match edge.bots().find_or(&bot_ref, || nobody(&*platform, &bot_ref)).await {
        Ok(bot) => bot,
        Err(fault) => {
            tracing::error!(%fault, platform = platform.name(), "could not open the bot of a delivery");
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
    };
    let head = RequestHead { method: &parts.method, headers: &parts.headers };
    match edge.intake().judge_head(&platform, &bot, &head) {
        Ok(HeadProof::Proven) => {
            let principal = format!("{}:{}", platform.name(), door.bot);
            if RequestControl::proven(&parts.extensions, &principal, None).is_err() {
                return StatusCode::SERVICE_UNAVAILABLE.into_response();
            }
        }
        Ok(HeadProof::BodyNeeded) => {}
        Err(refusal) => return refusal.status.into_response(),
    }
    let body = match read_body(body, LARGEST).await {
        Ok(body) => body,
        Err(unread) => return unread.status().into_response(),
    };
    let raw = Raw {
        method: parts.method,
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers,
        body,
        received: edge.0.timepiece.now(),
    };
    // This future is large. In a box it is not copied each time the future of this handler is moved.
    match Box::pin(edge.intake().receive(&platform, &bot, raw)).await {
        Ok(DeliveryResult::Taken { entries, reply }) => {
            let mut response = Response::new(Body::from(reply.body));
            *response.status_mut() = reply.status;
            if let Some(content_type) = reply.content_type {
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            }
            let ids = entries.iter().map(|entry| entry.as_str()).collect::<Vec<_>>().join(",");
            if let Ok(ids) = HeaderValue::from_str(&ids)
                && !entries.is_empty()
            {
                response.headers_mut().insert("posthouse-id", ids);
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

/// A placeholder for a bot that does not exist, with new random secrets for everything that the platform needs.
fn nobody(platform: &dyn Platform, bot_ref: &BotRef) -> Result<OpenedBot, Fault> {
    let mut credentials = Credentials::default();
    for need in platform.required_secrets() {
        credentials.insert(need.name, vault::random_hex(32)?);
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

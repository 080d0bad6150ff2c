//! Audit log: every change is recorded before it is answered.

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use http::{Method, StatusCode};
use http_kit::ClientAddress;
use ledger::Deed;
use serde::{Deserialize, Serialize};

use crate::extract::QueryParams;
use crate::listing::Items;
use crate::problem::AdminProblem;
use crate::routes::Console;

/// Default number of entries per page.
const PAGE: u32 = 100;
const LONGEST_PAGE: u32 = 1000;

/// Subject of a change, if the path does not name it: names, never a secret.
#[derive(Clone, Debug)]
pub(crate) struct About(String);

impl About {
    pub fn new(about: String) -> Self {
        Self(about)
    }
}

/// Answer with a new record, and its name for the audit log.
pub(crate) type Made<T> = (StatusCode, Extension<About>, Json<T>);

pub(crate) fn made<T>(about: String, shown: T) -> Made<T> {
    (StatusCode::CREATED, Extension(About(about)), Json(shown))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
    after: Option<i64>,
    limit: Option<u32>,
}

#[derive(Serialize)]
pub(crate) struct ShownDeed {
    at: String,
    operation: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    about: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    status: u16,
}

/// Lists entries, newest first.
pub(crate) async fn list(
    State(console): State<Console>,
    QueryParams(which): QueryParams<Which>,
) -> Result<Json<Items<ShownDeed>>, AdminProblem> {
    let limit = which.limit.unwrap_or(PAGE).clamp(1, LONGEST_PAGE) as usize;
    let mut deeds = console.audit.deeds(which.after, limit as u32 + 1).await?;
    let more = deeds.len() > limit;
    deeds.truncate(limit);
    let next = deeds.last().filter(|_| more).map(|(seq, _)| seq.to_string());
    Ok(Json(Items { items: deeds.into_iter().map(|(_, deed)| shown(deed)).collect(), next }))
}

fn shown(deed: Deed) -> ShownDeed {
    let Deed { at, operation, about, caller, status } = deed;
    ShownDeed { at: at.to_string(), operation, about, from: caller.map(|caller| caller.to_string()), status }
}

/// Middleware behind authentication, before everything that changes something.
pub(crate) async fn note(State(console): State<Console>, request: Request, next: Next) -> Response {
    // An unknown path changes nothing, and may contain anything, so it is not recorded.
    let known = request.extensions().get::<MatchedPath>().is_some();
    if !known || matches!(*request.method(), Method::GET | Method::HEAD) {
        return next.run(request).await;
    }
    let asked = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let operation = format!("{} {asked}", request.method());
    let caller = request.extensions().get::<ClientAddress>().map(|ClientAddress(address)| *address);
    // In a separate task, so that the change is recorded even if the operator disconnects.
    let done = tokio::spawn(async move {
        let answer = next.run(request).await;
        let about = answer.extensions().get().map(|About(about)| about.clone());
        let deed =
            Deed { at: console.timepiece.now(), operation, about, caller, status: answer.status().as_u16() };
        match console.audit.note(deed).await {
            Ok(()) => answer,
            // If it cannot be recorded, the answer, which may contain a secret, is not sent.
            Err(fault) => AdminProblem::from(fault).into_response(),
        }
    });
    done.await.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

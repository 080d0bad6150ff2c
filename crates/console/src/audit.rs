//! What the operator did, on record before it is answered, and told again.

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use http::{Method, StatusCode};
use ledger::Deed;
use serde::{Deserialize, Serialize};

use crate::listing::Items;
use crate::problem::Problem;
use crate::routes::Console;
use crate::told::Asked;

/// How many an answer holds.
const PAGE: u32 = 100;
const LONGEST_PAGE: u32 = 1000;

/// What a change was about, where its path does not say: names, never a secret.
#[derive(Clone, Debug)]
pub(crate) struct About(String);

/// Something that was made, shown to whoever asked for it and named on record.
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

/// Newest first.
pub(crate) async fn list(
    State(console): State<Console>,
    Asked(which): Asked<Which>,
) -> Result<Json<Items<ShownDeed>>, Problem> {
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

/// Stands behind the token and before everything that changes something.
pub(crate) async fn note(State(console): State<Console>, request: Request, next: Next) -> Response {
    // What is at no path of ours changes nothing, and its path may be anything at all.
    let known = request.extensions().get::<MatchedPath>().is_some();
    if !known || matches!(*request.method(), Method::GET | Method::HEAD) {
        return next.run(request).await;
    }
    let asked = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let operation = format!("{} {asked}", request.method());
    let caller = request.extensions().get::<relay::Caller>().map(|relay::Caller(address)| *address);
    // In a task of its own: an operator who hangs up does not take the record along.
    let done = tokio::spawn(async move {
        let answer = next.run(request).await;
        let about = answer.extensions().get().map(|About(about)| about.clone());
        let deed =
            Deed { at: console.timepiece.now(), operation, about, caller, status: answer.status().as_u16() };
        match console.audit.note(deed).await {
            Ok(()) => answer,
            // Whatever it hands out is not handed out unrecorded.
            Err(fault) => Problem::from(fault).into_response(),
        }
    });
    done.await.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

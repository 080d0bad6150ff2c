//! Audit log: every change is recorded before it is answered.

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use http::{Method, StatusCode};
use http_kit::{ClientAddress, Page, PageSize, ShuttingDown, completed};
use ledger::AuditEntry;
use serde::{Deserialize, Serialize};

use crate::extract::QueryParams;
use crate::problem::AdminProblem;
use crate::routes::Console;

/// Number of entries per page.
const ENTRIES: PageSize = PageSize { default: 100, largest: 1000 };

/// Subject of a change, if the path does not name it: names, never a secret.
#[derive(Clone, Debug)]
pub(crate) struct AuditSubject(String);

impl AuditSubject {
    pub fn new(about: String) -> Self {
        Self(about)
    }
}

/// Answer with a new record, and its name for the audit log.
pub(crate) type CreatedResponse<T> = (StatusCode, Extension<AuditSubject>, Json<T>);

pub(crate) fn made<T>(about: String, shown: T) -> CreatedResponse<T> {
    (StatusCode::CREATED, Extension(AuditSubject(about)), Json(shown))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuditQuery {
    after: Option<i64>,
    limit: Option<usize>,
}

#[derive(Serialize)]
pub(crate) struct ShownAuditEntry {
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
    QueryParams(which): QueryParams<AuditQuery>,
) -> Result<Json<Page<ShownAuditEntry>>, AdminProblem> {
    let limit = ENTRIES.clamp(which.limit);
    let entries = console.audit.entries(which.after, u32::try_from(limit + 1).unwrap_or(u32::MAX)).await?;
    let page = Page::one_less(limit, entries, |(seq, _)| seq.to_string());
    Ok(Json(page.map(|(_, entry)| shown(entry))))
}

fn shown(entry: AuditEntry) -> ShownAuditEntry {
    let AuditEntry { at, operation, about, caller, status } = entry;
    ShownAuditEntry {
        at: at.to_string(),
        operation,
        about,
        from: caller.map(|caller| caller.to_string()),
        status,
    }
}

/// Middleware behind authentication, before everything that changes something.
pub(crate) async fn record(State(console): State<Console>, request: Request, next: Next) -> Response {
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
        let about = answer.extensions().get().map(|AuditSubject(about)| about.clone());
        let entry = AuditEntry {
            at: console.timepiece.now(),
            operation,
            about,
            caller,
            status: answer.status().as_u16(),
        };
        match console.audit.record(entry).await {
            Ok(()) => answer,
            // If it cannot be recorded, the answer, which may contain a secret, is not sent.
            Err(fault) => AdminProblem::from(fault).into_response(),
        }
    });
    let answer = completed(done).await;
    answer.unwrap_or_else(|ShuttingDown| AdminProblem::from(ledger::Fault::Closed).into_response())
}
